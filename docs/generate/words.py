"""`python -m docs.generate.words` checks the words of the code: first sentences of docstrings, and names of things.

A reader looks for a noun and a verb in the first sentence of a docstring. Python does not know English, so a few lists
of words find what misses them for certain, and what they let pass may still be bad:

- The docstring of a module, class or function does not begin with a preposition or conjunction ("By name.").
- No docstring begins with "Of", "The same" or a pronoun ("It has ended.", "Those that wait."). A word that can stand
  before a noun too is a pronoun where a verb, a preposition or nothing follows ("Each agent" is fine, "Each in turn" is
  not). The subject of a question ("Whether ...", "Where ...") is no pronoun.
- The docstring of a module or class begins with what it is: not with a parameter in backticks (a command that does
  something may be), nor with "Its", "What", "Each" and the like (UNNAMED), nor with "Events" of a name.
- A first sentence is more than one word. That of a function that returns nothing has a word that can be a verb.

Noun phrases are allowed elsewhere: they say what a module, a class, an attribute or the value of a function is. The
commands of typer are left out, whose docstrings are their help. Tests are not checked.

Names of modules, classes, fields, functions and parameters have no word of a few that say nothing (VAGUE).
"""

import ast
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = ("hwd", "drivers", "agents", "bench", "docs")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PREPOSITIONS = _words(
    "of on in by with without within as for from to at while until after before between behind under over above below "
    "and or but same"
)
"""Words that begin a fragment."""
PRONOUNS = _words("it they he she we others that none true false")
"""Words that never stand before a noun here; `None`, `True` and `False` begin the fragment "None where ..."."""
PRONOUNS_OR_ARTICLES = _words("this these those one both each all most some any more less other another")
NO_NOUNS = _words(
    "of that who which whose in on at by with from to for as where when is are was were has have had may can must "
    "does do"
)
"""Words that follow a pronoun, and no article."""
QUESTIONS = _words("whether where when what who which whose how why")
ARTICLES = _words("the a an no nothing its every two") | PRONOUNS_OR_ARTICLES
UNNAMED = _words("its their each both what whatever those they between")
"""Words that put nothing in place of the noun of a module or class."""
COMMAND = re.compile(r"`(?:python -m |hwd[ -])[^`]*` (?!as\b)[a-z]+s\b")
"""A command, and the verb that says what it does."""
VERB = re.compile(r"\b(?:is|are|was|were|has|have|had|may|can|must|do|came|\w+(?:[^s']s|ed))\b")
"""A word that can be a verb after a noun: plurals are among them."""

VAGUE = frozenset({"told", "nobody", "anew"})
"""Words in names that say nothing of the thing."""
ALLOWED = frozenset(
    {
        "agents/hwd_agents/wire/transfers.py: told",
        "hwd/model/lease.py: told",
        "hwd/reconfigure/journal/file.py: told",
    }
)
"""The names that stay: fields of JSON, in messages of agents, answers of the daemon, and journals on disks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A place in a file, and what is wrong with its words."""

    line: int
    what: str
    why: str


def first_sentence(docstring: str) -> str:
    """The first sentence of a docstring in one line."""
    paragraph = re.split(r"\n\s*\n", docstring.strip())[0]
    return re.split(r"(?<=[.?!])(?<!\.\.\.)\s", " ".join(paragraph.split()))[0]


def fault(sentence: str, *, attribute: bool = False, action: bool = False, noun: bool = False) -> str | None:
    """Why a first sentence is refused. `attribute`: it is of an attribute. `action`: of a function that returns
    nothing. `noun`: of a module or class.
    """
    words = re.findall(r"`[^`]*`|[\w'-]+|[,.:;]", sentence)
    if noun and (why := _unnamed(sentence, words)):
        return why
    spoken = [word for word in words if word not in (",", ".", ":", ";")]
    if not spoken or spoken[0].startswith("`") or spoken[0] not in (spoken[0].capitalize(), "None"):
        return None  # code, or an acronym
    first, second = words[0].lower(), words[1].lower() if len(words) > 1 else "."
    no_noun = second in NO_NOUNS or re.match(r"[,.:;]", second) is not None
    if first == "of" or (first, second) == ("the", "same"):
        return f'begins with "{words[0]}" and has no noun before it'
    if first in PREPOSITIONS and not attribute:
        return f'begins with "{words[0]}": say what is or does so'
    if first in PRONOUNS and not (attribute and first in ("none", "true", "false")):
        return f'begins with "{words[0]}" in place of a noun'
    if first in PRONOUNS_OR_ARTICLES and no_noun:
        return f'begins with "{words[0]}" in place of a noun'
    if first in QUESTIONS and second in PRONOUNS:
        return f'asks of "{words[1]}", which names nothing'
    if len(spoken) == 1:
        return "is one word"
    if action and first in ARTICLES and not VERB.search(" ".join(words[1:])):
        return "has no verb"
    return None


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.Constant]]:
    """What has a docstring (an assignment has the one that follows it), and the docstring."""
    printed = _printed_by_typer(tree)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        is_named = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_named and body and (text := _text(body[0])) and getattr(node, "name", None) not in printed:
            yield node, text
        for before, after in itertools.pairwise(body):
            if isinstance(before, ast.Assign | ast.AnnAssign) and (text := _text(after)):
                yield before, text


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The names of classes with their fields, and of functions with their parameters, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
            for field in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield field.lineno, field.target.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def findings(path: Path) -> list[Finding]:
    """The faults of one module, in the order of its lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [
        Finding(line=1, what=f"the module {path.stem}", why=f'"{word}" says nothing') for word in _vague(path.stem)
    ]
    for node, text in docstrings(tree):
        sentence = first_sentence(str(text.value))
        attribute = isinstance(node, ast.Assign | ast.AnnAssign)
        noun = isinstance(node, ast.Module | ast.ClassDef)
        if why := fault(sentence, attribute=attribute, action=_returns_nothing(node), noun=noun):
            found.append(Finding(line=text.lineno, what=sentence, why=why))
    place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    for line, name in names(tree):
        if f"{place}: {name}" not in ALLOWED:
            found += [
                Finding(line=line, what=f"the name {name}", why=f'"{word}" says nothing') for word in _vague(name)
            ]
    return sorted(found, key=lambda one: one.line)


def main() -> int:
    """Report each finding in a line; the status is 1 where there are any."""
    bad = False
    for path in sorted(path for tree in TREES for path in (ROOT / tree).rglob("*.py")):
        for one in findings(path):
            sys.stdout.write(f"{path.relative_to(ROOT)}:{one.line}: {one.what}: {one.why}\n")
            bad = True
    return int(bad)


def _unnamed(sentence: str, words: list[str]) -> str | None:
    """Why the first sentence of a module or class does not say what it is; None where it may."""
    if sentence.startswith("`"):
        return None if COMMAND.match(sentence) else "begins with code: say what it is"
    first, second = words[0].lower() if words else "", words[1] if len(words) > 1 else ""
    if first in UNNAMED or (first == "events" and second.startswith("`")):
        return f'begins with "{words[0]}": say what it is'
    return None


def _vague(name: str) -> list[str]:
    """The vague words of a name in snake or camel case."""
    return sorted(VAGUE & set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")))


def _text(node: ast.stmt) -> ast.Constant | None:
    value = node.value if isinstance(node, ast.Expr) else None
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _returns_nothing(node: ast.AST) -> bool:
    returns = node.returns if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
    return isinstance(returns, ast.Constant) and returns.value is None


def _printed_by_typer(tree: ast.Module) -> set[str]:
    """The functions of a module that are commands: `@program.command(...)`, or `program.command(...)(plan)`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _registers(node.func):
            found |= {name.id for name in node.args if isinstance(name, ast.Name)}
        elif isinstance(node, ast.FunctionDef) and any(_registers(one) for one in node.decorator_list):
            found.add(node.name)
    return found


def _registers(node: ast.AST) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in ("command", "callback")


if __name__ == "__main__":
    sys.exit(main())
