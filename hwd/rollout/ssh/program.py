"""SshProgram: one program that a session runs on a host: its input and output, without what start files print."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import paramiko

from hwd.rollout.ssh.marks import MarkedStream, Marks
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, FailedError, LinkError

BEGIN_S: Final = 60.0
"""For the start files of a user, which may ask a slow directory or file server."""
POLL_S: Final = 0.2
"""How long one of the two streams is waited for before the other is looked at."""
CHUNK_BYTES: Final = 32768
OUTPUT_BYTES: Final = 4 << 20
"""Most output of ours, of a program that ends."""
SHOWN: Final = 60
"""Characters of a script in an error."""
BROKEN: Final = (paramiko.SSHException, OSError, EOFError)
"""What paramiko raises of a connection that broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The exit status and output of a program."""

    status: int
    out: str
    err: str


class SshProgram:
    """Blocking, with a limit on every wait but `read` and `write`; a `close` of another thread ends those."""

    def __init__(
        self,
        host: str,
        script: str,
        channel: paramiko.Channel,
        marks: Marks,
        clock: Clock,
        give_up: Callable[[], None],
        *,
        within_s: float,
        lasting: bool,
    ) -> None:
        """`within_s`: for its whole time, where it ends; else for each wait. `give_up` closes the connection, where
        that is over.
        """
        self._what = f"{host}: {script if len(script) < SHOWN else f'{script[: SHOWN - 3]}...'}"
        self._script = script
        self._channel = channel
        self._marks = marks
        self._clock = clock
        self._give_up = give_up
        self._within_s = within_s
        self._is_lasting = lasting
        self._out, self._err = marks.stream(lasting=lasting), marks.stream(lasting=lasting)
        self._first = b""
        """The part of our output that came with the begin and was not read yet."""

    def begin(self) -> None:
        """Wait until the start files are done, and send the script. Raises FailedError where the login shell ends
        before, DeadlineError where that takes too long.
        """
        within_s = min(self._within_s, BEGIN_S)
        deadline_s = self._now_s() + within_s
        try:
            self._channel.settimeout(within_s)
            self._channel.exec_command(self._marks.command(self._script, lasting=self._is_lasting))
            while not self._out.has_begun:
                if not self._read_first(deadline_s):
                    raise self._not_begun(deadline_s)
            self._channel.settimeout(within_s)
            self._channel.sendall(self._script.encode())
            self._channel.settimeout(None)
        except TimeoutError:
            self._give_up()
            raise DeadlineError(
                f"{self._what}: the login shell has not begun it within {within_s:g} s{_said(self._out, self._err)}. "
                "Does a start file of this user, such as ~/.bashrc, ask for input? Or is the host overloaded?"
            ) from None
        except BROKEN as error:
            raise self._lost(error) from error

    def send(self, data: bytes, *, last: bool = True) -> bool:
        """Write to its input, and end that with `last`. Whether it took it: where not, its end says why."""
        try:
            self._channel.settimeout(self._within_s)
            self._channel.sendall(data)
            if last:
                self._channel.shutdown_write()
        except TimeoutError:
            self._give_up()
            raise DeadlineError(
                f"{self._what}: it took no input for {self._within_s:g} s. Is the host overloaded, or its disk stuck?"
            ) from None
        except BROKEN as error:
            if not self._is_connected():
                raise self._lost(error) from error
            return False
        return True

    def finish(self, deadline_s: float, on_line: Callable[[str], None] | None = None) -> Ran:
        """Read until its end: what comes after that is not ours, nor is whoever keeps the channel open."""
        out, err = bytearray(self._first), bytearray()
        start = 0
        has_ended = {"out": False, "err": False}
        try:
            while not all(has_ended.values()):
                stream, data = self._receive(deadline_s, errors=has_ended["out"])
                name = "out" if stream is self._out else "err"
                (out if stream is self._out else err).extend(stream.feed(data))
                has_ended[name] = not data or stream.status is not None
                while on_line is not None and (end := out.find(b"\n", start)) >= 0:
                    on_line(out[start:end].decode(errors="replace"))
                    start = end + 1
                if len(out) + len(err) > OUTPUT_BYTES:
                    raise FailedError(f"{self._what}: its output is over {OUTPUT_BYTES} bytes")
            status = self._out.status
            if status is None:
                self._await_status(deadline_s)
                status = self._channel.exit_status
            if status < 0:
                raise EOFError("it ended without an exit status: it was killed, or the host went away")
        except TimeoutError:
            raise self._late() from None
        except BROKEN as error:
            raise self._lost(error) from error
        return Ran(status=status, out=out.decode(errors="replace"), err=err.decode(errors="replace").strip())

    def first_line(self) -> str:
        """The first line of its output; empty where it ended without one."""
        deadline_s = self._now_s() + self._within_s
        try:
            while b"\n" not in self._first:
                if not self._read_first(deadline_s):
                    return ""
        except TimeoutError:
            raise self._late() from None
        except BROKEN as error:
            raise self._lost(error) from error
        line, self._first = self._first.split(b"\n", 1)
        return line.decode(errors="replace")

    def read(self) -> bytes:
        """Some bytes of a lasting one; none when it has ended, or the connection has."""
        first, self._first = self._first, b""
        if first:
            return first
        try:
            while self._channel.recv_stderr_ready():  # not ours: it would fill the window of the channel
                self._channel.recv_stderr(CHUNK_BYTES)
            return self._channel.recv(CHUNK_BYTES)
        except BROKEN:
            return b""

    def write(self, data: bytes) -> None:
        """Nothing is written where it has ended: what it said last tells how."""
        with contextlib.suppress(*BROKEN):
            self._channel.sendall(data)

    def close(self) -> None:
        """Close the channel, which tells the far end; where that has gone there is nothing to close."""
        with contextlib.suppress(*BROKEN):
            self._channel.close()

    def _read_first(self, deadline_s: float) -> bool:
        """Take what comes next of either stream; False at the end of the output."""
        stream, data = self._receive(deadline_s)
        ours = stream.feed(data)
        if stream is self._out:
            self._first += ours
        return bool(data) or stream is not self._out

    def _receive(self, deadline_s: float, *, errors: bool = False) -> tuple[MarkedStream, bytes]:
        """Some bytes of either stream, of the errors alone with `errors`; none at its end. Raises TimeoutError."""
        while (left_s := deadline_s - self._now_s()) > 0:
            self._channel.settimeout(min(left_s, POLL_S))
            with contextlib.suppress(TimeoutError):
                if errors or self._channel.recv_stderr_ready():
                    return self._err, self._channel.recv_stderr(CHUNK_BYTES)
                return self._out, self._channel.recv(CHUNK_BYTES)
        raise TimeoutError

    def _not_begun(self, deadline_s: float) -> Exception:
        """The error where the login shell has ended instead."""
        while data := self._receive(deadline_s, errors=True)[1]:
            self._err.feed(data)
        self._await_status(deadline_s)
        if not self._is_connected():
            return EOFError("the host went away")
        ended = f"ended with status {self._channel.exit_status}" if self._channel.exit_status >= 0 else "was killed"
        return FailedError(
            f"{self._what}: the login shell {ended} before it ran this{_said(self._out, self._err)}. This user needs a "
            "shell that runs commands, without ForceCommand, and start files that do not end or replace it"
        )

    def _await_status(self, deadline_s: float) -> None:
        if not self._channel.status_event.wait(max(0.0, deadline_s - self._now_s())):
            raise TimeoutError

    def _is_connected(self) -> bool:
        return self._channel.get_transport().is_active()

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def _late(self) -> DeadlineError:
        self._give_up()
        return DeadlineError(
            f"{self._what}: did not end within {self._within_s:g} s. Is the host overloaded, or its disk stuck?"
        )

    def _lost(self, error: Exception) -> LinkError:
        return LinkError(f"{self._what}: the SSH connection broke: {str(error) or type(error).__name__}")


def _said(*streams: MarkedStream) -> str:
    words = " ".join(filter(None, (stream.words for stream in streams)))
    return f", and said: {words}" if words else ""
