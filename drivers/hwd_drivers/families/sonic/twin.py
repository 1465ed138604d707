"""SonicTwin: a SONiC optical switch behind a real SSH server, with single commands and an interactive shell."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final

from typing_extensions import override

from hwd_drivers.families.sonic.cli import LINE_LIMIT, CommandLine, LineOutput
from hwd_drivers.families.sonic.options import TwinOptions
from hwd_drivers.families.sonic.unit import Unit
from hwd_drivers.transports.dial import Acceptor
from hwd_drivers.transports.ssh.channel import ChannelTransport
from hwd_drivers.transports.ssh.keys import public_line, twin_host_key
from hwd_drivers.transports.ssh.server import SshAcceptor
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import TwinSpec
from hwd_drivers.twins.server import TwinServer, TwinSession
from hwd_drivers.twins.unit_twin import Front, UnitTwin

INTERRUPTED: Final = 130
"""Exit status of a shell after Ctrl-C."""

log = logging.getLogger(__name__)


class SonicFront(Front[Unit]):
    """SSH server of a unit; `host_key` is its line for a known_hosts file, after the start."""

    host_key = ""

    @override
    def acceptor(self) -> Acceptor:
        key = twin_host_key(self.unit.host_key_draws)
        self.host_key = public_line(key)
        return SshAcceptor(
            self.dialer,
            name=f"twin {self.unit.name}",
            host_key=key,
            check_login=self.unit.takes,
            commands=True,
            connections_max=self.unit.options.sessions_max,
        )

    @override
    def make_session(self, server: TwinServer) -> "_Session":
        return _Session(self.unit, server)


class SonicTwin(UnitTwin[Unit, TwinOptions]):
    """A twin of one switch."""

    unit_type = Unit
    options_type = TwinOptions
    front_types: ClassVar[Mapping[str, type[Front[Unit]]]] = {"ssh": SonicFront}


class _Session(TwinSession):
    """One command, or one shell: lines are run as they come, and answered one after the other."""

    def __init__(self, unit: Unit, server: TwinServer) -> None:
        super().__init__(server)
        self._unit = unit
        self._command_line = CommandLine(unit)
        self._channel: ChannelTransport | None = None
        self._pty = False
        self._line = bytearray()
        self._status = 0
        self._due_s = 0.0
        self._last = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, ChannelTransport)
        super().connection_made(transport)
        if transport.is_closing():
            return
        self._channel = transport
        command = transport.get_extra_info("command")
        self._pty = bool(transport.get_extra_info("pty"))
        if command is None:
            self._prompt()
        else:
            self._answer(self._run(command), ends=True)

    @override
    def data_received(self, data: bytes) -> None:
        if self._channel is None or self._channel.get_extra_info("command") is not None:
            return
        for byte in data:
            self._take(byte)

    @override
    def eof_received(self) -> bool:
        """A shell without more lines ends; a command continues."""
        if self._channel is not None and self._channel.get_extra_info("command") is None:
            self._end()
        return True

    def _take(self, byte: int) -> None:
        """One key: lines end in LF, and at a terminal in CR too."""
        last, self._last = self._last, bytes([byte])
        if byte == 10 and last == b"\r" and self._pty:
            return
        if byte == 10 or (byte == 13 and self._pty):
            line = bytes(self._line)
            self._line.clear()
            self._echo(b"\r\n")
            self._enter(line.decode("utf-8", "replace").strip())
        elif not self._pty:
            self._keep(byte)
        elif byte in (8, 127):
            if self._line:
                del self._line[-1]
                self._echo(b"\b \b")
        elif byte == 3:
            self._line.clear()
            self._status = INTERRUPTED
            self._echo(b"^C\r\n")
            self._prompt()
        elif byte == 4 and not self._line:
            self._echo(b"logout\r\n")
            self._end()
        elif byte >= 32:
            self._keep(byte)
            self._echo(bytes([byte]))

    def _keep(self, byte: int) -> None:
        self._line.append(byte)
        if len(self._line) > LINE_LIMIT:
            log.warning("twin %s: a line of over %d bytes; ending the session", self._unit.name, LINE_LIMIT)
            self.abort()

    def _enter(self, line: str) -> None:
        word = line.partition(" ")[0]
        if word in ("exit", "logout", "quit"):
            self._end()
        elif line:
            self._answer(self._run(line), ends=False)
        else:
            self._prompt()

    def _run(self, line: str) -> LineOutput:
        if self.server.faults.take_wrong():
            return self._command_line.run("show version")
        printed = self._command_line.run(line, status=self._status)
        self._status = printed.status
        return printed

    def _answer(self, printed: LineOutput, *, ends: bool) -> None:
        """Print after the delay, as far as the faults allow; half an answer has no end."""
        faults = self.server.faults
        half = faults.half_next
        out = faults.spoil((printed.out if ends else printed.out + printed.err).encode("utf-8"))
        if out is None:
            return
        now_s = asyncio.get_running_loop().time()
        self._due_s = max(now_s, self._due_s) + printed.after_s
        delay_s = self._due_s - now_s + faults.slow_s
        err = printed.err.encode("utf-8") if ends else b""

        def write(data: bytes) -> None:
            if self._channel is None:
                return
            self._channel.write(data.replace(b"\n", b"\r\n") if self._pty else data)
            self._channel.write_errors(err)
            if half:
                return
            if ends:
                self._channel.finish(printed.status)
            else:
                self._prompt()

        if delay_s > 0:
            self.later(delay_s, write, out)
        else:
            write(out)

    def _echo(self, data: bytes) -> None:
        if self._pty and self._channel is not None:
            self._channel.write(data)

    def _prompt(self) -> None:
        """Only at a terminal, as in bash."""
        if self._pty and self._channel is not None:
            user = self._channel.get_extra_info("user")
            self._channel.write(f"{user}@{self._unit.options.hostname}:~$ ".encode())

    def _end(self) -> None:
        """Called when all lines have been answered."""
        delay_s = max(0.0, self._due_s - asyncio.get_running_loop().time()) + self.server.faults.slow_s
        if not self.server.faults.silent:
            self.later(delay_s, self._finish, b"")

    def _finish(self, _: bytes) -> None:
        if self._channel is not None:
            self._channel.finish(self._status)


TWIN: Final = TwinSpec(
    make=partial(SonicTwin, "ssh"), options=TwinOptions, denial=Denial(code="1", text="told to say no")
)
