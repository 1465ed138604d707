"""Commands within a block: their text, the output that the page shows, and the exit status."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from docs.blocks.page import Block

PROMPT = "$ "
_STATUS = re.compile(r"# (?:.*\b)?exit status (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a page; `shown` is None where the page shows no output. `status` is None where any will do, as the
    next command asks for it.
    """

    text: str
    shown: str | None
    status: int | None


def commands(block: Block) -> Iterator[Command]:
    """Raises ValueError for what is no whole command."""
    found = list(_console(block.text) if block.kind == "console" else ((text, None) for text in _script(block.text)))
    for (text, shown), (following, _) in zip(found, [*found[1:], ("", None)], strict=True):
        told = _STATUS.search(text)
        status = int(told[1]) if told else None if following.strip() == "echo $?" else 0
        yield Command(text=text, shown=shown, status=status)


def _console(text: str) -> Iterator[tuple[str, str]]:
    lines = text.splitlines()
    at = 0
    if not lines or not lines[0].startswith(PROMPT):
        raise ValueError(f"a console block begins with a command after {PROMPT!r}")
    while at < len(lines):
        command, at = lines[at].removeprefix(PROMPT), at + 1
        while not _whole(command) and at < len(lines):
            command, at = f"{command}\n{lines[at]}", at + 1
        if not _whole(command):
            raise ValueError(f"not a whole command: {command}")
        shown = []
        while at < len(lines) and not lines[at].startswith(PROMPT):
            shown.append(lines[at])
            at += 1
        yield command, "\n".join(shown)


def _script(text: str) -> Iterator[str]:
    command = ""
    for line in text.splitlines():
        if not command and (not line.strip() or line.startswith("#")):
            continue
        command = f"{command}\n{line}" if command else line
        if _whole(command):
            yield command
            command = ""
    if command:
        raise ValueError(f"not a whole command: {command}")


def _whole(command: str) -> bool:
    """Whether a command is complete, by the shell's own judgement; it warns of a here-document without its end."""
    if command.endswith("\\"):
        return False
    said = subprocess.run(("bash", "-n", "-c", command), capture_output=True, text=True, check=False)
    return said.returncode == 0 and not said.stderr
