"""Programs on real hosts: a supervisor over SSH, one connection a program."""

import asyncio
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from hwd.model.ssh import SshPlace
from hwd.rollout.processes.supervised_program import ProgramRequest, SupervisedProgram, attach_request, boot
from hwd.rollout.remote import PYTHON_LEAST, PYTHONS
from hwd.rollout.ssh.program import SshProgram
from hwd.rollout.ssh.session import Ssh
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.offload import ThreadOffload

T = TypeVar("T")

START_S: Final = 20.0


async def start_over_ssh(
    host: str, place: SshPlace, request: ProgramRequest, *, clock: Clock, home: Path | None
) -> SupervisedProgram:
    """Start a program on a host, as its user: the user of the login, or by its root or `sudo -n` another one.

    Raises as `Ssh.open`, FailedError where the program cannot be executed, RefusedError where one with the id `keep`
    is there.
    """
    asked = request.text(host)
    pipe = await _open(host, place, _command(asked, request.user), clock, home)
    return await SupervisedProgram.start(host, pipe, asked, kept=request.keep is not None)


async def attach_over_ssh(
    host: str, place: SshPlace, keep: str, *, user: str, clock: Clock, home: Path | None, taken: int | None = None
) -> SupervisedProgram:
    """Attach to the program that `start_over_ssh` started with this `keep` and this `user`. Raises as `Ssh.open`, and
    UnknownError where there is none. `taken`: as `hwd.model.program.Processes`.
    """
    asked = attach_request(keep, host, taken=taken)
    pipe = await _open(host, place, _command(asked, user), clock, home)
    return await SupervisedProgram.attach(host, pipe, asked)


async def _open(host: str, place: SshPlace, command: str, clock: Clock, home: Path | None) -> "_SshPipe":
    reads, writes = ThreadOffload(1), ThreadOffload(1)
    opened: list[Ssh] = []

    def connect() -> Ssh:
        opened.append(Ssh.open(host, place, clock, home=home))
        return opened[0]

    try:
        ssh = await reads(connect)
        program = await reads(partial(ssh.attach, command, within_s=START_S))
    except BaseException:
        reads.close()  # waits for a login under way: only then it is known what there is to close
        writes.close()
        for one in opened:
            one.close()
        raise
    return _SshPipe(ssh, program, reads, writes)


class _SshPipe:
    """The pipe to a supervisor over SSH; its waits are in threads of its own."""

    def __init__(self, ssh: Ssh, program: SshProgram, reads: ThreadOffload, writes: ThreadOffload) -> None:
        self._ssh = ssh
        self._program = program
        self._reads = reads
        self._writes = writes

    async def read(self) -> bytes:
        return await self._call(self._reads, self._program.read)

    async def write(self, data: bytes) -> None:
        await self._call(self._writes, lambda: self._program.write(data))

    async def close(self) -> None:
        self._program.close()
        self._ssh.close()
        self._reads.close()
        self._writes.close()

    async def _call(self, offload: ThreadOffload, work: Callable[[], T]) -> T:
        """A thread cannot be stopped: when its caller is cancelled, the connection is closed."""
        try:
            return await offload(work)
        except asyncio.CancelledError:
            self._ssh.close()
            raise


def _command(asked: str, user: str) -> str:
    """A script that runs a supervisor or a relay with the host's own Python."""
    least = ".".join(map(str, PYTHON_LEAST))
    return f"""
[ "$(id -un)" = {shlex.quote(user)} ] || [ "$(id -u)" = 0 ] || s='sudo -n'
for p in {" ".join(PYTHONS)}; do
    if $p -c 'import sys; sys.exit(sys.version_info < {PYTHON_LEAST})' 2>/dev/null; then
        exec $s $p -I -B -c {shlex.quote(boot(asked))}
    fi
done
echo '{{"failed": "a program there: it has no python3 of version {least} or newer"}}'
"""
