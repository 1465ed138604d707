"""Runs a page's blocks in order, in one home, and reports where the page is wrong.

async with asyncio.timeout(300):
    await run_page(page, folder=tmp_path)
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from docs.blocks.commands import Command, commands
from docs.blocks.expected import ANYTHING, difference
from docs.blocks.home import home
from docs.blocks.page import Block, blocks
from docs.blocks.shell import Background, Said, Shell, end, shell
from hwd.client import AsyncClient

LIMIT_S = 120.0
"""For one command."""
TESTBED = "examples/opus-testbed.yaml"
LASTING: Mapping[str, str] = {
    "hwd serve": " data ",
    "hwd twin up": "twin rack ",
    "hwd twin serve": "listen",
    "hwd watch": "",
}
"""Commands that last until Ctrl-C, and their output when they are ready. A page means a terminal of
its own for each.
"""
WORDS: Mapping[str, re.Pattern[str]] = {
    "RUN": re.compile(r"^run (\w{8})\b", re.MULTILINE),
    "HASH": re.compile(r"^plan ([0-9a-f]{12})\b", re.MULTILINE),
    "RECONFIGURATION": re.compile(r"^([a-z0-9]{8}) \(.*\) confirmed", re.MULTILINE),
    "LEASE": re.compile(r"^lease (\w{8})\b", re.MULTILINE),
    "TRIAL": re.compile(r"^trial (\w{8})\b", re.MULTILINE),
    "SET": re.compile(r"^Switch it with: hwd switch (\w{8})\b", re.MULTILINE),
}
"""Words in capitals are replaced by the latest id of their kind; OTHER is the run before RUN."""


USUAL = "127.0.0.1:8642"
LISTENS = re.compile(r" http +http://(\S+)")


def _lasting(command: str) -> str | None:
    """The entry of `LASTING` that a command is, with `env` and variables before it or without."""
    bare = re.sub(r"^env (?:\w+=\S+ )+", "", command)
    return next((name for name in LASTING if bare.startswith(name)), None)


class PageError(Exception):
    """The page is wrong."""


def needs_daemon(found: list[Block]) -> bool:
    """Whether a page that starts no daemon and no twin uses a daemon: it means the reader's own, with a twin rack of
    the example. What reads the folder `results` of a page asks no daemon.
    """
    lines = [line for block in found if block.runs for line in block.text.splitlines()]
    speaks = any(
        re.search(
            r"\bhwd (?!check|schema|demo|driver|twin|serve|export|sim|verify)|(import|from) hwd(?!\.report)|:8642", line
        )
        for line in lines
        if "--data results" not in line
    )
    return speaks and not any(re.search(r"^\$ hwd twin serve|\bhwd serve", line) for line in lines)


async def run_page(page: Path, *, folder: Path) -> list[str]:
    """Returns the blocks that were not run, with the reasons. Raises PageError, with the line, at the first command
    that does not do what the page shows.
    """
    found = list(blocks(page.read_text(encoding="utf-8")))
    async with AsyncExitStack() as stack:
        here, environment = stack.enter_context(home(folder))
        reader = Reader(stack, here, environment)
        if needs_daemon(found):
            await reader.begin(f"hwd serve {TESTBED}")
        for block in found:
            try:
                await reader.take(block)
            except (PageError, ValueError, TimeoutError, EOFError) as error:
                raise PageError(f"{page.name}:{block.line}: {error}") from error
    return [f"line {block.line}: {block.not_run}" for block in found if block.not_run]


class Reader:
    """Does what a reader of the page does: saves its files, types its commands, remembers ids."""

    def __init__(self, stack: AsyncExitStack, here: Path, environment: Mapping[str, str]) -> None:
        self._stack = stack
        self._here = here
        self._environment = environment
        self._shells: dict[bool, Shell] = {}
        self._terminals: dict[str, Background] = {}
        self._told = ""

    async def take(self, block: Block) -> None:
        if block.file:
            path = self._here / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.runs and block.kind == "python":
            self._check(Command(text=block.text, shown=None, status=0), await self._say(block.text, python=True))
        elif block.runs:
            for command in commands(block):
                await self.do(command)

    async def do(self, command: Command) -> None:
        lasting = _lasting(command.text)
        if lasting is None or command.text.rstrip().endswith("&") or "--count" in command.text:
            self._check(command, await self._say(self._filled(command.text), python=False))
            return
        words = await self.begin(self._filled(command.text))
        if command.shown is not None and (found := difference(f"{command.shown}\n{ANYTHING}", words)):
            raise PageError(f"$ {command.text}\n{found}\nall of it:\n{words}")

    async def begin(self, command: str) -> str:
        """Start it in a terminal of its own; returns its output until it was ready. A second one of a kind replaces the
        first one, after Ctrl-C.
        """
        lasting = _lasting(command)
        assert lasting is not None
        if lasting in self._terminals:
            await end(self._terminals[lasting].process)
        log = self._here.parent / f"{lasting.replace(' ', '-')}.log"
        background = await Background.start(command, folder=self._here, environment=self._environment, log=log)
        self._terminals[lasting] = background
        self._stack.push_async_callback(end, background.process)
        words = await background.said(LASTING[lasting], within_s=LIMIT_S)
        if lasting == "hwd serve":
            await self._rack()
        return words

    async def _rack(self) -> None:
        """Wait until all switches and agents are connected, as a reader would see in `hwd status`."""
        async with asyncio.timeout(LIMIT_S), AsyncClient.find(environment=self._environment) as daemon:
            while True:
                status = await daemon.status()
                if all(host.up for host in status.hosts) and all(switch.up for switch in status.switches):
                    return
                await asyncio.sleep(0.1)

    async def _say(self, text: str, *, python: bool) -> Said:
        if python not in self._shells:
            context = shell(self._here, self._environment, python=python)
            self._shells[python] = await self._stack.enter_async_context(context)
        said = await self._shells[python].do(text, within_s=LIMIT_S)
        self._told += said.text
        return said

    def _filled(self, text: str) -> str:
        """Replace words in capitals by ids, and the daemon's usual port in the page by the one in use."""
        if "hwd serve" in self._terminals and (there := LISTENS.search(self._terminals["hwd serve"].log.read_text())):
            text = text.replace(USUAL, there[1])
        for word, pattern in WORDS.items():
            found = list(dict.fromkeys(pattern.findall(self._told)))
            if found:
                text = re.sub(rf"(?<![\w$-]){word}(?![\w=])", found[-1], text)
            if word == "RUN" and len(found) > 1:
                text = re.sub(r"(?<![\w$-])OTHER(?![\w=])", found[-2], text)
        return text

    @staticmethod
    def _check(command: Command, said: Said) -> None:
        if command.status is not None and said.status != command.status:
            raise PageError(f"$ {command.text}\nexit status {said.status}, not {command.status}:\n{said.text}")
        if command.shown is not None and (found := difference(command.shown, said.text)):
            raise PageError(f"$ {command.text}\n{found}\nall of it:\n{said.text}")
