"""Child: a process of a measurement, with lines as input and output, which ends with its `with` block."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

END_WITHIN_S = 10.0
LINE_LIMIT_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Child:
    """A running process: `say` writes a line to its input, `hear` reads a line of its output."""

    process: asyncio.subprocess.Process

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    async def hear(self) -> str:
        """The next line of its output. Raises EOFError when it has ended."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line:
            raise EOFError(f"process {self.process.pid} of the bench ended")
        return line.decode().rstrip("\n")


@contextlib.asynccontextmanager
async def child(module: str, *arguments: str) -> AsyncIterator[Child]:
    """Run a module of ours. At the end of the block it gets SIGTERM, and is killed if it does not end."""
    async with program(sys.executable, "-m", module, *arguments) as running:
        yield running


@contextlib.asynccontextmanager
async def program(
    *command: str, environment: Mapping[str, str] | None = None, log: Path | None = None
) -> AsyncIterator[Child]:
    """Run a program, ended as `child` is; its stderr is ours, or goes to the file `log`."""
    with log.open("wb") if log is not None else contextlib.nullcontext() as stderr:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=environment,
            limit=LINE_LIMIT_BYTES,
        )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), END_WITHIN_S)
            except TimeoutError:
                process.kill()
                await process.wait()


async def in_shell(environment: Mapping[str, str], *command: str) -> None:
    """Run a command to its end, as a shell does; its output is discarded. Raises CalledProcessError."""
    await asyncio.to_thread(
        subprocess.run, command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
    )


_PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
"""A small process between: a child's peak counts from the memory of the process that started it."""


async def peak_mb(environment: Mapping[str, str], *command: str) -> float:
    """Run a command to its end; returns the largest memory that it had resident, in MB. Raises CalledProcessError."""
    done = await asyncio.to_thread(
        subprocess.run,
        (sys.executable, "-c", _PEAK, *command),
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return int(done.stdout) * 1024 / 1e6
