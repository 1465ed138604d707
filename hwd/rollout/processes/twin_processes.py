"""Programs in the network of a twin host: child processes of the daemon, in the namespace of the host."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from hwd.rollout.processes.supervised_program import (
    ENDS_WITHIN_S,
    ProgramRequest,
    SupervisedProgram,
    attach_request,
    boot,
)
from hwd_agents.sources.kernel.sockets import ANSWER_TIMEOUT_S, KeeperRequest, Verb, ask_for_descriptor
from hwd_drivers.core.child_process import end_of
from hwd_drivers.core.errors import FailedError, LinkError
from hwd_drivers.core.offload import Offload
from hwd_drivers.core.reason import reason_of

CHUNK_BYTES: Final = 65_536

_Spawned = tuple[str, socket.socket, "subprocess.Popen[bytes]"]
"""What a supervisor or a relay is asked, the socket that is its input and its output, and the process."""


async def start_in_namespace(
    host: str, keeper: Path, request: ProgramRequest, *, offload: Offload
) -> SupervisedProgram:
    """Start a program in the network that the `keeper` of a rack holds for `host`. It ends with the keeper, as it would
    with a host that is switched off.

    Raises FailedError where it cannot be executed, RefusedError where one with the id `keep` is there, LinkError where
    the keeper is gone.
    """

    def spawn() -> _Spawned:
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
                return _spawn(host, request.text(*_place(host, keeper), **passed), *passed.values())
            finally:
                os.close(namespace)

    asked, sock, process = await _off_the_loop(offload, spawn)
    return await SupervisedProgram.start(host, _ChildPipe(sock, process), asked, kept=request.keep is not None)


async def attach_in_namespace(
    host: str, keeper: Path, keep: str, *, offload: Offload, taken: int | None = None
) -> SupervisedProgram:
    """Attach to the program that `start_in_namespace` started with this `keep`. Raises UnknownError where there is
    none. `taken`: as `hwd.model.program.Processes`.
    """
    asked = attach_request(keep, *_place(host, keeper), taken=taken)
    _, sock, process = await _off_the_loop(offload, partial(_spawn, host, asked))
    return await SupervisedProgram.attach(host, _ChildPipe(sock, process), asked)


def _place(host: str, keeper: Path) -> tuple[str, str]:
    """The place of a program, for the name of its socket."""
    return host, str(keeper.absolute())


def _spawn(host: str, asked: str, *passed: int) -> _Spawned:
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
    return asked, ours, process


async def _off_the_loop(offload: Offload, spawn: Callable[[], _Spawned]) -> _Spawned:
    """A start takes tens of milliseconds, and a keeper that does not answer seconds. Whoever is cancelled meanwhile
    leaves nothing behind.
    """
    spawning = asyncio.ensure_future(offload(spawn))
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        spawning.add_done_callback(_drop)
        raise


def _drop(spawning: "asyncio.Future[_Spawned]") -> None:
    if spawning.cancelled() or spawning.exception() is not None:
        return
    _, sock, process = spawning.result()
    sock.close()
    process.kill()
    end_of(process)


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
