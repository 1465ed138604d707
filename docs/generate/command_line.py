"""Commands, arguments and options, from the program itself."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from docs.generate.pages import code, table
from hwd.cli.command_table import make_program

EVERYWHERE = ("help", "json", "url")
"""Explained once, above the commands."""


def overview() -> str:
    rows = ((f"[`hwd {name}`](#{_anchor(name)})", _first_sentence(command)) for name, command in leaves())
    return table(("command", "does"), rows)


def commands() -> str:
    return "\n".join(_section(name, command) for name, command in leaves())


def leaves(group: Any = None, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something: its name after `hwd`, and the command."""
    for name, command in getattr(group or get_command(make_program()), "commands", {}).items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _section(name: str, command: Any) -> str:
    words = [f"hwd {name}", *(_word(one) for one in command.params if one.param_type_name == "argument")]
    takes = [one.opts[-1] for one in command.params if one.name in ("json", "url")]
    lines = [f"### hwd {name}", "", code(" ".join(words)), "", _text(command), ""]
    if takes:
        lines[-2] += f" Takes {' and '.join(map(code, sorted(takes)))}."
    if rows := [_row(one) for one in command.params if one.name not in EVERYWHERE]:
        lines += [table(("argument or option", "means", "default"), rows)]
    if command.epilog:
        lines += [command.epilog.replace("Example: ", "Example: `") + "`", ""]
    return "\n".join(lines)


def _word(argument: Any) -> str:
    word = argument.metavar or argument.name.upper()
    word = word.strip("{}").rstrip(".")
    word += "..." if argument.nargs == -1 else ""
    return word if argument.required else f"[{word}]"


def _row(one: Any) -> tuple[str, str, str]:
    if one.param_type_name == "argument":
        return code(_word(one)), one.help or "", "" if one.required else _default(one)
    names = ", ".join(code(name) for name in (*one.opts, *one.secondary_opts))
    if not one.is_flag:
        names += f" {code(_value(one))}"
    return names, one.help or "", _default(one)


def _value(option: Any) -> str:
    """The placeholder of a value in the program's own help."""
    words = getattr(option.type, "choices", None)
    if words:
        return " or ".join(str(getattr(word, "value", word)) for word in words)
    return str(option.metavar or {"integer": "N", "float": "X", "path": "PATH"}.get(option.type.name, "TEXT"))


def _default(one: Any) -> str:
    value = one.default
    if value is None or value is False or value in ((), [], "") or callable(value):
        return ""
    return code(str(getattr(value, "value", value)))


def _text(command: Any) -> str:
    return "\n\n".join(" ".join(one.split()) for one in (command.help or "").replace("\b\n", "").split("\n\n"))


def _first_sentence(command: Any) -> str:
    return _text(command).split("\n\n")[0]


def _anchor(name: str) -> str:
    return f"hwd {name}".replace(" ", "-")
