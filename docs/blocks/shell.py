"""One shell and one Python for a whole page, so that later blocks see what earlier ones set."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_MARK = "--end-of-what-was-said--"
_PYTHON = f"""
import sys, traceback
names = {{"__name__": "page"}}
while size := sys.stdin.readline():
    status = 0
    try:
        exec(compile(sys.stdin.read(int(size)), "<page>", "exec"), names)
    except BaseException:
        traceback.print_exc()
        status = 1
    print("\\n{_MARK}", status, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Said:
    """Exit status, stdout and stderr of a command."""

    status: int
    text: str


class Shell:
    """Runs texts and returns their output. One that takes too long raises TimeoutError."""

    def __init__(self, process: Process, *, python: bool) -> None:
        self._process = process
        self._python = python

    async def do(self, text: str, *, within_s: float) -> Said:
        assert self._process.stdin is not None
        if self._python:
            given = f"{len(text)}\n{text}"
        else:
            given = f"{{ {text}\n}} </dev/null; __status=$?; printf '\\n%s %s\\n' {_MARK} $__status; (exit $__status)\n"
        self._process.stdin.write(given.encode())
        async with asyncio.timeout(within_s):
            await self._process.stdin.drain()
            return await self._answer()

    async def _answer(self) -> Said:
        assert self._process.stdout is not None
        lines: list[str] = []
        while line := (await self._process.stdout.readline()).decode(errors="replace"):
            if line.startswith(_MARK):
                return Said(int(line.split()[1]), "".join(lines).removesuffix("\n"))
            lines.append(line)
        raise EOFError(f"the shell ended: {''.join(lines)}")


@asynccontextmanager
async def shell(folder: Path, environment: Mapping[str, str], *, python: bool = False) -> AsyncIterator[Shell]:
    program = (sys.executable, "-u", "-c", _PYTHON) if python else ("bash", "--norc", "--noprofile")
    process = await asyncio.create_subprocess_exec(
        *program, cwd=folder, env=environment, stdin=PIPE, stdout=PIPE, stderr=STDOUT, limit=1 << 24
    )
    try:
        yield Shell(process, python=python)
    finally:
        await end(process)


class Background:
    """A command that lasts until Ctrl-C, as in a terminal of its own; its output is in `log`."""

    def __init__(self, process: Process, log: Path) -> None:
        self.process = process
        self.log = log

    @classmethod
    async def start(cls, command: str, *, folder: Path, environment: Mapping[str, str], log: Path) -> "Background":
        with log.open("wb") as words:
            process = await asyncio.create_subprocess_exec(
                "bash",
                *("--norc", "--noprofile", "-c", f"exec {command}"),
                cwd=folder,
                env=environment,
                stdin=DEVNULL,
                stdout=words,
                stderr=STDOUT,
                start_new_session=True,
            )
        return cls(process, log)

    async def said(self, text: str, *, within_s: float) -> str:
        """Its output, as soon as `text` is in it. Raises TimeoutError, with the output, where it does not appear."""
        try:
            async with asyncio.timeout(within_s):
                while text not in (words := self.log.read_text(errors="replace")):
                    if self.process.returncode is not None:
                        raise EOFError(f"it ended with exit status {self.process.returncode}: {words}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(f"{text!r} was not said within {within_s} s: {self.log.read_text()}") from None
        return words


async def end(process: Process) -> None:
    """Stop it as Ctrl-C does, and by force after 10 s."""
    if process.returncode is not None:
        return
    if process.stdin is not None:
        process.stdin.close()
    else:
        os.kill(process.pid, signal.SIGINT)
    try:
        async with asyncio.timeout(10):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
