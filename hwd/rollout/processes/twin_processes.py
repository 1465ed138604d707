"""Programs in the network of a twin host: child processes of the daemon, in the namespace of the host."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hwd.rollout.processes.supervised_program import (
    ENDS_WITHIN_S,
    SupervisedProgram,
    boot,
    socket_name,
    start_request,
    wanted_attach,
)
from hwd_agents.sources.kernel.sockets import ANSWER_TIMEOUT_S, KeeperRequest, Verb, ask_for_descriptor
from hwd_drivers.core.child_process import end_of
from hwd_drivers.core.errors import FailedError, LinkError
from hwd_drivers.core.offload import Offload
from hwd_drivers.core.reason import reason_of

CHUNK_BYTES: Final = 65_536


async def start_in_namespace(
    host: str,
    keeper: Path,
    command: Sequence[str],
    *,
    user: str,
    within_s: float,
    offload: Offload,
    environment: Mapping[str, str] | None = None,
    keep: str | None = None,
) -> SupervisedProgram:
    """Start a program in the network that the `keeper` of a rack holds for `host`. It ends with the keeper, as it would
    with a host that is switched off. `environment`, `keep`: as `hwd.model.program.Processes`.

    Raises FailedError where it cannot be executed, RefusedError where one with the id `keep` is there, LinkError where
    the keeper is gone.
    """
    name = None if keep is None else _name(host, keeper, keep)

    def spawn() -> _SpawnedProcess:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as keeper_lives:
            keeper_lives.settimeout(ANSWER_TIMEOUT_S)
            try:
                keeper_lives.connect(os.fspath(keeper))
                namespace = ask_for_descriptor(keeper, KeeperRequest(verb=Verb.NAMESPACE, ns=host))
            except OSError as error:
                raise LinkError(
                    f"{host}: its network cannot be had: {reason_of(error)}. Is its twin rack up?"
                ) from error
            passed = {"namespace": namespace, "keeper": keeper_lives.fileno()}
            try:
                asked = start_request(
                    command, user=user, within_s=within_s, environment=environment, keep=name, **passed
                )
                return _spawn(host, asked, *passed.values())
            finally:
                os.close(namespace)

    spawned = await _off_the_loop(offload, spawn)
    return await SupervisedProgram.start(host, spawned.pipe(), spawned.asked, kept=keep is not None)


async def attach_in_namespace(
    host: str, keeper: Path, keep: str, *, offload: Offload, taken: int | None = None
) -> SupervisedProgram:
    """Attach to the program that `start_in_namespace` started with this `keep`. Raises UnknownError where there is
    none. `taken`: as `hwd.model.program.Processes`.
    """
    asked = wanted_attach(_name(host, keeper, keep), taken)
    spawned = await _off_the_loop(offload, lambda: _spawn(host, asked))
    return await SupervisedProgram.attach(host, spawned.pipe(), asked)


def _name(host: str, keeper: Path, keep: str) -> str:
    return socket_name(keep, host, str(keeper.absolute()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpawnedProcess:
    """A supervisor or a relay, what it is asked, and the socket that is its input and its output."""

    process: "subprocess.Popen[bytes]"
    sock: socket.socket
    asked: str

    def pipe(self) -> "_ChildPipe":
        """Make the pipe to the child, in the loop, once."""
        return _ChildPipe(self.sock, self.process)


def _spawn(host: str, asked: str, *passed: int) -> _SpawnedProcess:
    """Start one, with these descriptors. It has a session of its own: Ctrl-C is the daemon's to handle."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-c", boot(asked)],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                pass_fds=passed,
                start_new_session=True,
            )
        except OSError as error:  # no process or descriptor is left, or no memory
            ours.close()
            raise FailedError(f"{host}: cannot start the supervisor of a program: {reason_of(error)}") from error
    ours.setblocking(False)
    return _SpawnedProcess(process=process, sock=ours, asked=asked)


async def _off_the_loop(offload: Offload, spawn: Callable[[], _SpawnedProcess]) -> _SpawnedProcess:
    """A start takes tens of milliseconds, and a keeper that does not answer seconds. Whoever is cancelled meanwhile
    leaves nothing behind.
    """
    spawning = asyncio.ensure_future(offload(spawn))
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        spawning.add_done_callback(_drop)
        raise


def _drop(spawning: "asyncio.Future[_SpawnedProcess]") -> None:
    if spawning.cancelled() or spawning.exception() is not None:
        return
    spawned = spawning.result()
    spawned.sock.close()
    spawned.process.kill()
    end_of(spawned.process)


class _ChildPipe:
    """The pipe to a supervisor or a relay that is a child of ours."""

    def __init__(self, sock: socket.socket, process: "subprocess.Popen[bytes]") -> None:
        self._sock = sock
        self._process = process
        self._ended = end_of(process)

    async def read(self) -> bytes:
        try:
            return await asyncio.get_running_loop().sock_recv(self._sock, CHUNK_BYTES)
        except ConnectionResetError:
            return b""

    async def write(self, data: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._sock, data)
        except OSError:
            return  # it has ended; its output says how

    async def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes whoever reads; closed at once, it would leave a stale reader
        done, _ = await asyncio.wait((self._ended,), timeout=ENDS_WITHIN_S)
        if not done:
            self._process.kill()
            await asyncio.wait((self._ended,))
        self._sock.close()
