"""Ssh: one SSH connection to a host: scripts to run, files to copy. Blocking, with a limit on every wait; call it in a
thread.
"""

import io
import posixpath
import shlex
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import paramiko

from hwd.model.ssh import SshPlace
from hwd.rollout.ssh.login import LOGIN_S, log_in
from hwd.rollout.ssh.marks import Marks
from hwd.rollout.ssh.program import BROKEN, CHUNK_BYTES, Ran, SshProgram
from hwd.rollout.ssh.ssh_settings import SshSettings
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import FailedError, LinkError
from hwd_drivers.core.ids import Ids, RandomIds
from hwd_drivers.core.reason import reason_of

CONNECT_S: Final = 10.0
SILENT_S: Final = 30.0
"""A copy without progress for so long fails."""
KEEPALIVE_S: Final = 5
TOKEN_LENGTH: Final = 20


class Ssh:
    """Open it with `Ssh.open`, close it once. `local_address`: the address of this machine as the host sees it; None
    behind a jump host.
    """

    def __init__(
        self, name: str, transport: paramiko.Transport, clock: Clock, marks: Marks, jump: "Ssh | None"
    ) -> None:
        self._name = name
        self._clock = clock
        self._transport = transport
        self._marks = marks
        self._jump = jump

    @classmethod
    def open(
        cls,
        name: str,
        place: SshPlace,
        clock: Clock,
        *,
        home: Path | None = None,
        ids: Ids | None = None,
        connect_s: float = CONNECT_S,
        way: tuple[SshPlace, ...] = (),
    ) -> "Ssh":
        """Connect, check the host's key, log in. `name` is for messages; `home` has `.ssh` (default: the user's, and
        the system's configuration); `way`: the hosts that are reached through this one.

        Raises LinkError where nothing answers, DeadlineError where the server stops answering, ConfigError for a host
        with an unknown or another key and for a configuration that cannot be followed, LoginError where it refuses the
        login.
        """
        settings = SshSettings.of(place, home, way)
        jump: Ssh | None = None
        if settings.jump is not None:
            named = f"{name}: jump host"
            jump = cls.open(named, settings.jump, clock, home=home, ids=ids, connect_s=connect_s, way=(*way, place))
        try:
            sock = None if jump is None else jump._tunnel(settings.address, settings.port)
            transport = log_in(name, settings, sock, connect_s)
        except BaseException:
            if jump is not None:
                jump.close()
            raise
        transport.set_keepalive(KEEPALIVE_S)
        return cls(name, transport, clock, Marks(f"hwd-{(ids or RandomIds()).token(length=TOKEN_LENGTH)}"), jump)

    @property
    def local_address(self) -> str | None:
        if self._jump is not None:
            return None
        sock = self._transport.sock
        return str(sock.getsockname()[0]) if isinstance(sock, socket.socket) else None

    def run(
        self,
        script: str,
        *,
        within_s: float,
        stdin: bytes = b"",
        on_line: Callable[[str], None] | None = None,
    ) -> Ran:
        """Run a script of POSIX `sh` and wait for its end; `on_line` gets each line of output at once. Raises
        DeadlineError after `within_s`, and closes the connection; FailedError where the login shell does not run it.
        """
        deadline_s = self._now_s() + within_s
        with closing(self._begin(script, within_s=within_s)) as program:
            program.send(stdin)
            return program.finish(deadline_s, on_line)

    def start(self, script: str, *, within_s: float, stdin: bytes) -> tuple[str, Callable[[], None]]:
        """Run a script that keeps running. Returns its first line, empty where it ended without one, and a function
        that ends it.

        Raises DeadlineError where there is no line in time.
        """
        program = self._begin(script, within_s=within_s, lasting=True)
        try:
            program.send(stdin)
            return program.first_line(), program.close
        except BaseException:
            program.close()
            raise

    def attach(self, script: str, *, within_s: float) -> SshProgram:
        """Run a script that is talked to while it runs; its errors come in its output. Raises DeadlineError where it
        was not started in time.
        """
        return self._begin(f"exec 2>&1\n{script}", within_s=within_s, lasting=True)

    def put(self, folder: str, files: Mapping[str, bytes | Path], *, on_bytes: Callable[[int], None]) -> None:
        """Copy files into a folder of the host, readable by nobody else. `on_bytes` gets the number of bytes copied
        since its last call.
        """
        for leaf, source in files.items():
            name = posixpath.join(folder, leaf)
            path = shlex.quote(name)
            written = 0
            script = f"umask 077; cat > {path} && wc -c < {path}"
            with closing(self._begin(script, within_s=SILENT_S)) as program:
                for chunk in _chunks(source):
                    if not program.send(chunk, last=False):
                        break
                    written += len(chunk)
                    on_bytes(len(chunk))
                program.send(b"")
                ran = program.finish(self._now_s() + SILENT_S)
            arrived = ran.out.strip()
            if ran.status or arrived != str(written):
                why = ran.err or f"{arrived or 'none'} of {written} bytes arrived"
                raise FailedError(f"{self._name}: {name}: cannot be written: {why}. Is the disk of the host full?")

    def close(self) -> None:
        """Close it; a call that waits in another thread ends with an error. Safe to call any number of times."""
        self._transport.close()
        if self._jump is not None:
            self._jump.close()

    def _begin(self, script: str, *, within_s: float, lasting: bool = False) -> SshProgram:
        try:
            channel = self._transport.open_session(timeout=min(within_s, LOGIN_S))
        except BROKEN as error:
            raise LinkError(f"{self._name}: the SSH connection broke: {reason_of(error)}") from error
        program = SshProgram(
            *(self._name, script, channel, self._marks, self._clock, self.close), within_s=within_s, lasting=lasting
        )
        try:
            program.begin()
        except BaseException:
            program.close()
            raise
        return program

    def _tunnel(self, address: str, port: int) -> paramiko.Channel:
        try:
            return self._transport.open_channel("direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=CONNECT_S)
        except BROKEN as error:
            raise LinkError(
                f"{self._name}: it cannot reach {address}:{port}: {reason_of(error)}. Is that the host's address "
                "as the jump host knows it, and does it forward (AllowTcpForwarding)?"
            ) from error

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / 1e9


def _chunks(source: bytes | Path) -> Iterable[bytes]:
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
