"""A page's fenced blocks: kind, line, whether it can run here, and its file name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

COMMANDS = ("sh", "console")
KNOWN = (*COMMANDS, "python", "yaml", "json", "text", "promql", "ini", "toml", "html")
NOT_RUN = re.compile(r"^(?:\*|<!-- )Not run in the tests: (?P<why>.{10,})\.(?:\*| -->)$", re.DOTALL)
"""A paragraph before a block; a comment where readers need not see it."""
FILE = re.compile(r"`(?P<name>[\w./-]+\.(?:yaml|py|conf|toml|json))`[^`\n]*:$")
"""A paragraph with such an end says that the next block is that file."""
FIRST_LINE = re.compile(r"^# (?P<name>[\w./-]+\.py)$")
"""The name of the file as the first line of its block says it."""
_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[\w-]*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of a page; `line` is that of its first line of text. `not_run`: why it cannot run in the tests; empty
    where it can. `file`: the name to save it under.
    """

    kind: str
    text: str
    line: int
    not_run: str
    file: str

    @property
    def runs(self) -> bool:
        return self.kind in (*COMMANDS, "python") and not self.not_run and not self.file

    def __str__(self) -> str:
        return f"line {self.line} ({self.kind})"


def blocks(text: str) -> Iterator[Block]:
    """Raises ValueError for a fence that has no end or no known kind."""
    lines = text.splitlines()
    at, paragraph, goes_on = 0, "", False
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            if line := lines[at].strip():
                paragraph = f"{paragraph} {line}" if goes_on else line
            goes_on = bool(line)
            at += 1
            continue
        start, indent = at + 1, len(fence["indent"])
        end = next((i for i in range(start, len(lines)) if lines[i].strip() == "```"), None)
        if end is None:
            raise ValueError(f"line {start}: this block has no end")
        if fence["kind"] not in KNOWN:
            raise ValueError(f"line {start}: a block of kind {fence['kind']!r}; there are {', '.join(KNOWN)}")
        why, file = NOT_RUN.match(paragraph), FILE.search(paragraph) or FIRST_LINE.match(lines[start])
        yield Block(
            kind=fence["kind"],
            text="".join(f"{line[indent:]}\n" for line in lines[start:end]),
            line=start + 1,
            not_run=why["why"] if why else "",
            file=file["name"] if file and fence["kind"] not in COMMANDS else "",
        )
        at, paragraph, goes_on = end + 1, "", False
