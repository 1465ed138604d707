"""Ssh: one SSH connection to a host: programs to run, files to copy. Blocking, with a limit on every wait;
call it in a thread.
"""

import contextlib
import errno
import posixpath
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import paramiko

from hwd.model.ssh import SshPlace
from hwd.rollout.ssh.login import LOGIN_S, log_in
from hwd.rollout.ssh.ssh_settings import SshSettings
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, FailedError, LinkError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.user import home as home_of_user

CONNECT_S: Final = 10.0
SILENT_S: Final = 30.0
"""A copy without progress for so long fails."""
KEEPALIVE_S: Final = 5
CHUNK_BYTES: Final = 32768
OUTPUT_BYTES: Final = 4 << 20
_BROKEN: Final = (paramiko.SSHException, OSError, EOFError)
"""What paramiko raises of a connection that broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The exit status and output of a program."""

    status: int
    out: str
    err: str


class Ssh:
    """Open it with `Ssh.open`, close it once. `local_address`: the address of this machine as the host sees it; None
    behind a jump host.
    """

    def __init__(self, name: str, client: paramiko.SSHClient, clock: Clock, jump: "Ssh | None") -> None:
        self._name = name
        self._clock = clock
        self._client = client
        self._jump = jump

    @classmethod
    def open(
        cls,
        name: str,
        place: SshPlace,
        clock: Clock,
        *,
        home: Path | None = None,
        connect_s: float = CONNECT_S,
        way: tuple[SshPlace, ...] = (),
    ) -> "Ssh":
        """Connect, check the host's key, log in. `name` is for messages; `home` has `.ssh` (default: the user's);
        `way`: the hosts that are reached through this one.

        Raises LinkError where nothing answers, DeadlineError where the server stops answering, ConfigError for a host
        with an unknown or another key, LoginError where it refuses the login.
        """
        settings = SshSettings.of(
            place, (home or home_of_user(remedy=": keys and known hosts are in its .ssh")) / ".ssh", way
        )
        jump: Ssh | None = None
        if settings.jump is not None:
            named = f"{name}: jump host"
            jump = cls.open(named, settings.jump, clock, home=home, connect_s=connect_s, way=(*way, place))
        client = paramiko.SSHClient()
        try:
            sock = None if jump is None else jump._tunnel(settings.address, settings.port)
            log_in(client, name, settings, sock, connect_s)
        except BaseException:
            client.close()
            if jump is not None:
                jump.close()
            raise
        ssh = cls(name, client, clock, jump)
        ssh._transport.set_keepalive(KEEPALIVE_S)
        return ssh

    @property
    def local_address(self) -> str | None:
        if self._jump is not None:
            return None
        sock = self._transport.sock
        return str(sock.getsockname()[0]) if isinstance(sock, socket.socket) else None

    def run(
        self,
        command: str,
        *,
        within_s: float,
        stdin: bytes = b"",
        on_line: Callable[[str], None] | None = None,
    ) -> Ran:
        """Run a program and wait for its end; `on_line` gets each line of output at once. Raises DeadlineError after
        `within_s`, and closes the connection.
        """
        deadline_s = self._now_s() + within_s
        shown = command if len(command) < 60 else f"{command[:57]}..."
        try:
            channel = self._transport.open_session(timeout=min(within_s, LOGIN_S))
        except _BROKEN as error:
            raise self._lost(shown, error) from error
        out, err = bytearray(), bytearray()
        told = scanned = 0
        with contextlib.ExitStack() as stack:
            stack.callback(_close, channel)
            try:
                channel.settimeout(within_s)
                channel.exec_command(command)
                channel.sendall(stdin)
                channel.shutdown_write()
                while True:
                    left_s = deadline_s - self._now_s()
                    if left_s <= 0:
                        raise TimeoutError
                    if channel.recv_stderr_ready():
                        err += channel.recv_stderr(CHUNK_BYTES)
                        continue
                    channel.settimeout(min(left_s, 0.2))
                    try:
                        chunk = channel.recv(CHUNK_BYTES)
                    except TimeoutError:
                        continue
                    out += chunk
                    while on_line is not None and (end := out.find(b"\n", scanned)) >= 0:
                        on_line(out[told:end].decode(errors="replace"))
                        told = scanned = end + 1
                    scanned = len(out)
                    if len(out) + len(err) > OUTPUT_BYTES:
                        raise FailedError(f"{self._name}: {shown}: its output is over {OUTPUT_BYTES} bytes")
                    if not chunk:
                        break
                while chunk := channel.recv_stderr(CHUNK_BYTES):
                    err += chunk
                if not channel.status_event.wait(max(0.0, deadline_s - self._now_s())):
                    raise TimeoutError
                if channel.exit_status < 0:
                    raise EOFError("it ended without an exit status: it was killed, or the host went away")
            except TimeoutError:
                self.close()
                raise DeadlineError(
                    f"{self._name}: {shown}: did not end within {within_s:g} s. "
                    "Is the host overloaded, or its disk stuck?"
                ) from None
            except _BROKEN as error:
                raise self._lost(shown, error) from error
            return Ran(
                status=channel.exit_status, out=out.decode(errors="replace"), err=err.decode(errors="replace").strip()
            )

    def start(self, command: str, *, within_s: float, stdin: bytes) -> tuple[str, Callable[[], None]]:
        """Run a program that keeps running. Returns its first line, empty where it ended without one, and a function
        that ends it.

        Raises DeadlineError where there is no line in time.
        """
        shown = command if len(command) < 60 else f"{command[:57]}..."
        try:
            channel = self._transport.open_session(timeout=min(within_s, LOGIN_S))
            channel.settimeout(within_s)
            channel.exec_command(command)
            channel.sendall(stdin)
            channel.shutdown_write()
            with channel.makefile("r") as said:
                line = str(said.readline())
        except TimeoutError:
            self.close()
            raise DeadlineError(
                f"{self._name}: {shown}: no output within {within_s:g} s. Is the host overloaded, or its disk stuck?"
            ) from None
        except _BROKEN as error:
            raise self._lost(shown, error) from error
        return line, partial(_close, channel)

    def attach(self, command: str, *, within_s: float) -> "SshProgram":
        """Run a program that is talked to while it runs. Raises DeadlineError where it was not started in time."""
        shown = command if len(command) < 60 else f"{command[:57]}..."
        try:
            channel = self._transport.open_session(timeout=within_s)
            channel.set_combine_stderr(True)
            channel.settimeout(within_s)
            channel.exec_command(command)
            channel.settimeout(None)
        except TimeoutError:
            self.close()
            raise DeadlineError(f"{self._name}: {shown}: not started within {within_s:g} s") from None
        except _BROKEN as error:
            raise self._lost(shown, error) from error
        return SshProgram(channel)

    def put(self, folder: str, files: Mapping[str, bytes | Path], *, on_bytes: Callable[[int], None]) -> None:
        """Copy files into a folder of the host by SFTP, readable by nobody else. `on_bytes` gets the number of bytes
        copied since its last call.
        """
        name = folder
        try:
            with contextlib.closing(self._sftp()) as sftp:
                for leaf, source in files.items():
                    name = posixpath.join(folder, leaf)
                    with sftp.open(name, "wb") as file:
                        file.set_pipelined(True)
                        file.chmod(0o600)
                        written = 0
                        for chunk in _chunks(source):
                            file.write(chunk)
                            written += len(chunk)
                            on_bytes(len(chunk))
                    # Pipelined writes that the server refused raise nothing: the size of the file shows it.
                    if (arrived := sftp.stat(name).st_size) != written:
                        raise OSError(errno.EIO, f"{arrived} of {written} bytes arrived")
        except TimeoutError as error:
            self.close()
            raise DeadlineError(f"{self._name}: {name}: no byte went through for {SILENT_S:g} s") from error
        except (paramiko.SSHException, EOFError) as error:
            raise self._lost(f"copy {name}", error) from error
        except OSError as error:
            if not self._transport.is_active():
                raise self._lost(f"copy {name}", error) from error
            raise FailedError(
                f"{self._name}: {name}: cannot be written: {error.strerror or error}. Is the disk of the host full?"
            ) from error

    def close(self) -> None:
        """Close it; a call that waits in another thread ends with an error. Safe to call any number of times."""
        self._client.close()
        if self._jump is not None:
            self._jump.close()

    @property
    def _transport(self) -> paramiko.Transport:
        transport = self._client.get_transport()
        if transport is None:
            raise LinkError(f"{self._name}: the SSH connection is closed")
        return transport

    def _sftp(self) -> paramiko.SFTPClient:
        try:
            channel = self._transport.open_session(timeout=LOGIN_S)
            channel.settimeout(SILENT_S)
            channel.invoke_subsystem("sftp")
            return paramiko.SFTPClient(channel)
        except paramiko.SSHException as error:
            if not self._transport.is_active():
                raise
            raise FailedError(
                f"{self._name}: its SSH server has no SFTP: {reason_of(error)}. "
                "Install openssh-sftp-server there, and let sshd_config have a Subsystem sftp"
            ) from error

    def _tunnel(self, address: str, port: int) -> paramiko.Channel:
        try:
            return self._transport.open_channel("direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=CONNECT_S)
        except _BROKEN as error:
            raise LinkError(
                f"{self._name}: it cannot reach {address}:{port}: {reason_of(error)}. Is that the host's address "
                "as the jump host knows it, and does it forward (AllowTcpForwarding)?"
            ) from error

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def _lost(self, attempt: str, error: Exception) -> LinkError:
        return LinkError(f"{self._name}: {attempt}: the SSH connection broke: {str(error) or type(error).__name__}")


class SshProgram:
    """Input and output of a program, its errors among them. Blocking; `close` ends a `read` of another thread."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def read(self) -> bytes:
        """Some bytes; none when it has ended, or the connection has."""
        try:
            return self._channel.recv(CHUNK_BYTES)
        except _BROKEN:
            return b""

    def write(self, data: bytes) -> None:
        """Nothing is written where it has ended: what it said last tells how."""
        with contextlib.suppress(*_BROKEN):
            self._channel.sendall(data)

    def close(self) -> None:
        _close(self._channel)


def _close(channel: paramiko.Channel) -> None:
    """It says so to the far end, which may have gone: then there is nothing to close there."""
    with contextlib.suppress(*_BROKEN):
        channel.close()


def _chunks(source: bytes | Path) -> Iterable[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
