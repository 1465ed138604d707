"""SshSession: one SSH connection to a device, for commands and subsystems; used once, closed once."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import paramiko
from typing_extensions import override

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ConfigError, DeadlineError, HwdError, LinkError, LoginError, ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.user_file import SECRET_BYTES_MAX, read_user_file
from hwd_drivers.transports.dial import Connector
from hwd_drivers.transports.link import CLOSE_S, LOGGED_BYTES
from hwd_drivers.transports.mask import Mask
from hwd_drivers.transports.masked_dialer import mask_of
from hwd_drivers.transports.ssh.channel import ChannelTransport
from hwd_drivers.transports.ssh.keys import HostTrust
from hwd_drivers.transports.ssh.pump import SocketPump
from hwd_drivers.transports.ssh.transport import SshTransport
from hwd_drivers.transports.ssh.workers import SshWorkers

log = logging.getLogger(__name__)

ProtoT = TypeVar("ProtoT", bound=asyncio.Protocol)
T = TypeVar("T")

OUTPUT_BYTES: Final = 4 << 20
"""Most output of one command."""
WORKERS: Final = 6
"""Most blocking calls at the same time; others wait."""
BREAKING_S: Final = 0.2
"""How long after the end of its channels a broken connection may be noticed."""
CHANNELS: Final = 4
"""Most commands at the same time; others wait. OpenSSH's server allows ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshLogin:
    """The login: `key_file` is a private key without a passphrase, used in place of the password."""

    user: str
    password: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    trust: HostTrust = field(default_factory=HostTrust)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOutput:
    """Output and exit status of a command; `Clock.monotonic_ns` just before it was sent and when it had ended."""

    status: int
    out: bytes
    err: bytes
    sent_ns: int
    received_ns: int


class SshSession:
    """Commands and subsystems over one connection.

        session = await SshSession.open(dialer, "10.0.0.5:22", name="ocs1", login=login, clock=clock, deadline_s=...)
        output = await session.run("show version", deadline_s=loop.time() + 5)

    Abandoning a command (deadline, cancellation) closes its channel and keeps the session. Deadlines are times of
    `loop.time()`. `garbled` counts refused outputs.
    """

    def __init__(self, *, name: str, address: str, clock: Clock, pump: SocketPump) -> None:
        self._name = name
        self._address = address
        self._clock = clock
        self._pump = pump
        self.mask = Mask()
        self._ssh = SshTransport(pump.theirs)
        self._workers = SshWorkers(WORKERS)
        self._slots = asyncio.Semaphore(CHANNELS)
        self.garbled = 0
        self._closing = False
        self._refused: ProtocolError | None = None
        self._closed: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        pump.ended.add_done_callback(self._end)

    @classmethod
    async def open(
        cls, dialer: Connector, address: str, *, name: str, login: SshLogin, clock: Clock, deadline_s: float
    ) -> "SshSession":
        """Connect, verify the host's key, log in.

        Raises LinkError where the device does not accept, DeadlineError after the deadline, ConfigError for an
        untrusted host, LoginError where it refuses the login.
        """
        started_s = asyncio.get_running_loop().time()
        session: SshSession | None = None
        try:
            async with asyncio.timeout_at(deadline_s):
                pump = await _connect(dialer, address, name)
                session = cls(name=name, address=address, clock=clock, pump=pump)
                session.mask = mask_of(dialer)
                await session._workers(session._log_in, login)
        except TimeoutError:
            if session is not None:
                await session.close()
            raise DeadlineError(
                f"{name}: no SSH login at {address} within {max(0.0, deadline_s - started_s):.3g} s. "
                "Is the device on, and the network path free?"
            ) from None
        except BaseException:
            if session is not None:
                await session.close()
            raise
        return session

    async def run(self, command: str, *, deadline_s: float, on_sent: Callable[[int], None] | None = None) -> SshOutput:
        """Run a command and wait for its end; nothing is sent after the deadline.

        `on_sent` is called with `Clock.monotonic_ns` just before it is sent.
        """
        allowed_s = self._allowed_s(command, deadline_s)
        output = _Output()
        channel: ChannelTransport | None = None
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._slots.acquire()
                channel = await self._open_channel(output.take_errors, given_up=self._slots.release)
                channel.start(output)
                sent_ns = self._clock.monotonic_ns()
                if on_sent is not None:
                    on_sent(sent_ns)
                await self._call(channel.channel.exec_command, command)
                await output.ended
        except TimeoutError:
            raise DeadlineError(f"{self._name}: {command}: no complete answer within {allowed_s:.3g} s") from None
        finally:
            if channel is not None:
                channel.abort()
                self._slots.release()
        received_ns = self._clock.monotonic_ns()
        status = channel.channel.exit_status
        if status < 0 and not output.too_long:
            # A connection that breaks ends its channels first: the reason is known a moment later.
            broken, _ = await asyncio.wait((self._pump.ended,), timeout=BREAKING_S)
            if broken or not self._ssh.is_active():
                await self._pump.ended
                raise self._error(command)
        if output.too_long or status < 0:
            finding = f"over {OUTPUT_BYTES} bytes" if output.too_long else "it ended without an exit status"
            raise ProtocolError(f"{self._name}: {command}: {finding}")
        return SshOutput(
            status=status, out=bytes(output.out), err=bytes(output.err), sent_ns=sent_ns, received_ns=received_ns
        )

    async def subsystem(self, factory: Callable[[], ProtoT], subsystem: str) -> tuple[asyncio.Transport, ProtoT]:
        """Open a subsystem of the device, such as netconf, as a connection. The caller sets a deadline."""
        channel = await self._open_channel(None)
        try:
            await self._call(channel.channel.invoke_subsystem, subsystem)
        except BaseException:
            self._workers.start(channel.channel.close)
            raise
        protocol = factory()
        channel.start(protocol)
        return channel, protocol

    def refuse(self, output: bytes, error: ProtocolError) -> None:
        """End the session because of an output that makes no sense; the bytes are logged."""
        self.garbled += 1
        more = "..." if len(output) > LOGGED_BYTES else ""
        began = self.mask.text(repr(output))[:LOGGED_BYTES]
        words = self.mask.text(str(error))
        log.warning("%s: cannot parse %s%s: %s; closing the session", self._name, began, more, words)
        self._refused = self._refused or error
        self._pump.abort()

    async def lost(self) -> Exception:
        """Wait until the connection is lost; returns the cause."""
        return await asyncio.shield(self._lost)

    async def close(self) -> None:
        """End the connection and its threads; safe to call any number of times."""
        self._closing = True
        if self._closed is None:
            self._closed = asyncio.create_task(self._close(), name=f"hwd:{self._name}/ssh-close")
        await asyncio.shield(self._closed)

    async def _close(self) -> None:
        self._pump.end()
        if self._ssh.ident is not None:
            await self._workers(self._ssh.join)
        self._pump.theirs.close()
        await self._pump.ended
        await asyncio.wait((self._pump.gone,), timeout=CLOSE_S)
        self._pump.abort()
        await self._workers.close()

    def _log_in(self, login: SshLogin) -> None:
        """Log in; runs in a worker."""
        ssh = self._ssh
        if types := login.trust.key_types(self._address):
            options = ssh.get_security_options()
            first = [
                each for each in options.key_types if each in types or (each.startswith("rsa-") and "ssh-rsa" in types)
            ]
            options.key_types = [*first, *(each for each in options.key_types if each not in first)]
        try:
            ssh.start_client()
            login.trust.check(self._name, self._address, ssh.get_remote_server_key())
            if login.key_file is not None:
                ssh.auth_publickey(login.user, _read_key(login.key_file))
            else:
                ssh.auth_password(login.user, login.password or "")
        except HwdError:
            raise
        except Exception as error:  # paramiko's parser raises anything on garbage, such as UnicodeDecodeError
            if isinstance(error, paramiko.AuthenticationException) and ssh.is_active():
                text = (
                    f"{self._name}: {self._address} refuses the login of {login.user}: {str(error).rstrip('. ')}. "
                    "Check user and password"
                )
                raise LoginError(
                    text, device=self._name, command="SSH login", code=type(error).__name__, text=str(error)
                ) from error
            raise LinkError(f"{self._name}: cannot log in at {self._address} by SSH: {error}") from error

    async def _open_channel(
        self, errors: Callable[[bytes], None] | None, *, given_up: Callable[[], None] | None = None
    ) -> ChannelTransport:
        """Open a channel.

        `given_up` is called when there is none: at once, or when an abandoned one is closed again.
        """
        opened = self._workers.start(self._ssh.open_session)
        try:
            channel = await self._wait_for(opened, "SSH channel")
        except asyncio.CancelledError:
            opened.add_done_callback(lambda done: self._close_late(done, given_up))
            raise
        except BaseException:
            if given_up is not None:
                given_up()
            raise
        return ChannelTransport(channel, workers=self._workers, extra={"peername": self._address}, errors=errors)

    def _close_late(self, opened: "asyncio.Future[paramiko.Channel]", given_up: Callable[[], None] | None) -> None:
        """Close a channel that came after its caller had gone."""
        if not opened.cancelled() and opened.exception() is None:
            closing = self._workers.start(opened.result().close)
            if given_up is not None:
                closing.add_done_callback(lambda _: given_up())
        elif given_up is not None:
            given_up()

    async def _call(self, fn: Callable[[str], None], argument: str) -> None:
        await self._wait_for(self._workers.start(fn, argument), argument)

    async def _wait_for(self, running: "asyncio.Future[T]", what: str) -> T:
        """Wait for a call of paramiko; its errors are translated to ours."""
        try:
            return await asyncio.shield(running)
        except paramiko.ChannelException as error:
            raise LinkError(f"{self._name}: {what}: the device opens no SSH channel: {error.text}") from error
        except HwdError:
            raise
        except Exception as error:  # as above: anything that paramiko raises on garbage
            if self._ssh.is_active():
                raise LinkError(f"{self._name}: {what}: {error}") from error
            await self._pump.ended
            raise self._error(what) from error
        except asyncio.CancelledError:
            if running.cancelled():  # closed meanwhile: no call starts after that
                raise self._error(what) from None
            raise

    def _allowed_s(self, command: str, deadline_s: float) -> float:
        if self._closing or self._refused is not None or self._pump.ended.done():
            raise self._error(command)
        allowed_s = deadline_s - asyncio.get_running_loop().time()
        if allowed_s <= 0:
            raise DeadlineError(f"{self._name}: {command}: not sent, its deadline is over. Allow more time")
        return allowed_s

    def _end(self, _: "asyncio.Future[None]") -> None:
        """Called when both ends of the pump are done."""
        said = self._ssh.get_exception()
        if self._refused is not None:
            cause: HwdError = ProtocolError(f"{self._name}: SSH connection closed: {self._refused}")
        elif self._closing:
            cause = LinkError(f"{self._name}: SSH connection closed")
        elif said is not None and not isinstance(said, (EOFError, OSError)) and self._pump.connected:
            cause = ProtocolError(f"{self._name}: SSH connection closed: {said}")
        else:
            cause = LinkError(f"{self._name}: SSH connection lost: {self._pump.cause or 'the other side closed it'}")
        if not self._lost.done():
            self._lost.set_result(cause)

    def _error(self, what: str) -> Exception:
        """A separate exception for each waiter, of the cause's type."""
        cause = self._lost.result() if self._lost.done() else LinkError(f"{self._name}: SSH connection lost")
        error = type(cause)(f"{cause} (in {what})")
        error.__cause__ = cause
        return error


class _Output(asyncio.Protocol):
    """Collects the output of a command."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.err = bytearray()
        self.too_long = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @override
    def data_received(self, data: bytes) -> None:
        self.out += data
        self._limit()

    def take_errors(self, data: bytes) -> None:
        self.err += data
        self._limit()

    @override
    def eof_received(self) -> bool:
        return True  # its status comes after its output

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _limit(self) -> None:
        if len(self.out) + len(self.err) > OUTPUT_BYTES:
            self.too_long = True
            self._finish()

    def _finish(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def _connect(dialer: Connector, address: str, name: str) -> SocketPump:
    pump = SocketPump()
    try:
        await dialer.connect(lambda: pump, address)
        if not pump.connected:
            raise LinkError(f"{name}: cannot connect to {address}: the other side closed it at once")
        return pump
    except OSError as error:
        raise LinkError(f"{name}: cannot connect to {address}: {reason_of(error)}") from error
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error
    finally:
        pump.close()


def _read_key(path: Path) -> paramiko.PKey:
    read_user_file(path, most_bytes=SECRET_BYTES_MAX)  # paramiko would wait for the writer of a FIFO
    try:
        return paramiko.PKey.from_path(path)
    except (OSError, ValueError, TypeError, paramiko.SSHException) as error:
        raise ConfigError(f"{path}: cannot be read as a private key: {reason_of(error)}") from error
