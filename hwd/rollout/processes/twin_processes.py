"""Programs in the network of a twin host: child processes of the daemon, in the namespace of the host."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hwd.rollout.processes.running import (
    ENDS_WITHIN_S,
    SupervisedProgram,
    boot,
    socket_name,
    wanted,
    wanted_attach,
)
from hwd_agents.sources.kernel.sockets import ANSWER_TIMEOUT_S, KeeperRequest, Verb, ask_for_descriptor
from hwd_drivers.core.child_process import end_of
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.reason import reason_of

CHUNK_BYTES: Final = 65_536


async def start_in_namespace(
    host: str,
    keeper: Path,
    command: Sequence[str],
    *,
    user: str,
    within_s: float,
    environment: Mapping[str, str] | None = None,
    keep: str | None = None,
) -> SupervisedProgram:
    """Start a program in the network that the `keeper` of a rack holds for `host`. It ends with the keeper, as it would
    with a host that is switched off. `environment`, `keep`: as `hwd.model.program.Processes`.

    Raises FailedError where it cannot be executed, RefusedError where one with the id `keep` is there, LinkError where
    the keeper is gone.
    """
    name = None if keep is None else _name(host, keeper, keep)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as keeper_lives:
        keeper_lives.settimeout(ANSWER_TIMEOUT_S)
        try:
            keeper_lives.connect(os.fspath(keeper))
            namespace = ask_for_descriptor(keeper, KeeperRequest(verb=Verb.NAMESPACE, ns=host))
        except OSError as error:
            raise LinkError(f"{host}: its network cannot be had: {reason_of(error)}. Is its twin rack up?") from error
        passed = {"namespace": namespace, "keeper": keeper_lives.fileno()}
        try:
            asked = wanted(command, user=user, within_s=within_s, environment=environment, keep=name, **passed)
            ours, process = _spawn(asked, *passed.values())
        finally:
            os.close(namespace)
    return await SupervisedProgram.start(host, _ChildPipe(ours, process), asked, kept=keep is not None)


async def attach_in_namespace(host: str, keeper: Path, keep: str, *, taken: int | None = None) -> SupervisedProgram:
    """Attach to the program that `start_in_namespace` started with this `keep`. Raises UnknownError where there is
    none. `taken`: as `hwd.model.program.Processes`.
    """
    asked = wanted_attach(_name(host, keeper, keep), taken)
    ours, process = _spawn(asked)
    return await SupervisedProgram.attach(host, _ChildPipe(ours, process), asked)


def _name(host: str, keeper: Path, keep: str) -> str:
    return socket_name(keep, host, str(keeper.absolute()))


def _spawn(asked: str, *passed: int) -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    """A supervisor or a relay, with these descriptors, and the socket that is its input and its output. It has a
    session of its own: Ctrl-C is the daemon's to handle.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", boot(asked)],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            pass_fds=passed,
            start_new_session=True,
        )
    ours.setblocking(False)
    return ours, process


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
