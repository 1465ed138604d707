"""SshAcceptor: an SSH server on a Dialer's listener, for twins: every command, shell and subsystem gets a protocol."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import paramiko
from typing_extensions import override

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.transports.dial import Acceptor, Listener
from hwd_drivers.transports.ssh.channel import ChannelTransport
from hwd_drivers.transports.ssh.keys import fingerprint
from hwd_drivers.transports.ssh.pump import SocketPump
from hwd_drivers.transports.ssh.transport import SshTransport
from hwd_drivers.transports.ssh.workers import SshWorkers

log = logging.getLogger(__name__)

LOGIN_S: Final = 30.0
"""How long a client may take to log in."""
CHANNELS: Final = 10
"""Most channels of one connection, as in OpenSSH's server."""
WORKERS: Final = 8
"""Most channels that can be sent to at the same time; others wait."""
NO_REPLY_S: Final = 0.2
"""Delay before a command starts whose client wants no reply; with a reply, it starts after the reply."""


class SshAcceptor:
    """Listens through another acceptor. The factory of `listen` makes the protocols of channels, not of connections.

    `get_extra_info` of a channel's transport has: `subsystem`; `command`, a text to run, which
    `ChannelTransport.finish` ends; a shell has neither. `pty`: whether it has a terminal. `user`: who logged in.
    Closing the listener ends its connections and their threads.
    """

    def __init__(
        self,
        inner: Acceptor,
        *,
        name: str,
        host_key: paramiko.PKey,
        check_login: Callable[[str, str | None], bool],
        subsystems: Sequence[str] = (),
        commands: bool = False,
        connections_max: int | None = None,
    ) -> None:
        """`check_login(user, password)` is called in a thread; a user with a public key has the password None.

        `commands`: also accept a shell and single commands.
        """
        self.name = name
        self.host_key = host_key
        self.check_login = check_login
        self.subsystems = frozenset(subsystems)
        self.commands = commands
        self.connections_max = connections_max
        self._inner = inner

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        serving = _AcceptedConnections(self, factory)
        serving.listener = await self._inner.listen(serving.accept, address)
        log.info("%s: SSH at %s, host key %s", self.name, serving.address, fingerprint(self.host_key))
        return serving


class _AcceptedConnections:
    """A listener and the connections that it accepted."""

    def __init__(self, acceptor: SshAcceptor, factory: Callable[[], asyncio.Protocol]) -> None:
        self.acceptor = acceptor
        self.factory = factory
        self.workers = SshWorkers(WORKERS)
        self.listener: Listener | None = None
        self._links: set[_Link] = set()

    @property
    def address(self) -> str:
        if self.listener is None:
            raise ConfigError(f"{self.acceptor.name}: not listening yet")
        return self.listener.address

    def accept(self) -> asyncio.Protocol:
        return SocketPump(made=self._connected)

    async def close(self) -> None:
        if self.listener is not None:
            await self.listener.close()
        links = list(self._links)
        self.cut()
        for link in links:
            await link.ended()
        await self.workers.close()

    def cut(self) -> None:
        for link in list(self._links):
            link.cut()

    def _connected(self, pump: SocketPump) -> None:
        most = self.acceptor.connections_max
        if most is not None and len(self._links) >= most:
            pump.theirs.close()
            pump.abort()
            return
        link = _Link(self, pump)
        self._links.add(link)
        pump.ended.add_done_callback(lambda _: self.workers.spawn(self._forget(link), name="hwd:ssh/link"))
        link.start()

    async def _forget(self, link: "_Link") -> None:
        await link.ended()
        self._links.discard(link)


class _Link(paramiko.ServerInterface):
    """One connection. paramiko calls its `check_` methods in the thread of the connection."""

    def __init__(self, serving: _AcceptedConnections, pump: SocketPump) -> None:
        self._serving = serving
        self._acceptor = serving.acceptor
        self._pump = pump
        self._loop = asyncio.get_running_loop()
        self._ssh = SshTransport(pump.theirs)
        self._user = ""
        self._ptys: set[int] = set()
        self._open: dict[int, paramiko.Channel] = {}
        self._timer = self._loop.call_later(LOGIN_S, self._check_login_time)

    def start(self) -> None:
        self._ssh.add_server_key(self._acceptor.host_key)
        self._ssh.start_server(event=threading.Event(), server=self)

    def cut(self) -> None:
        self._pump.abort()

    async def ended(self) -> None:
        """Wait until the connection and its thread have ended."""
        await self._pump.ended
        self._timer.cancel()
        if self._ssh.ident is not None:
            await self._serving.workers(self._ssh.join)
        self._pump.theirs.close()

    def _check_login_time(self) -> None:
        if not self._ssh.is_authenticated():
            self.cut()

    @override
    def get_allowed_auths(self, username: str) -> str:
        return "password,keyboard-interactive,publickey"

    @override
    def check_auth_password(self, username: str, password: str) -> int:
        return self._verdict(username, password)

    @override
    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return self._verdict(username, None)

    @override
    def check_auth_interactive(self, username: str, submethods: str) -> int | paramiko.server.InteractiveQuery:
        self._user = username
        return paramiko.server.InteractiveQuery("", "", ("Password: ", False))

    @override
    def check_auth_interactive_response(self, responses: list[str]) -> int | paramiko.server.InteractiveQuery:
        return self._verdict(self._user, responses[0]) if len(responses) == 1 else paramiko.common.AUTH_FAILED

    def _verdict(self, user: str, password: str | None) -> int:
        if not self._acceptor.check_login(user, password):
            return paramiko.common.AUTH_FAILED
        self._user = user
        return paramiko.common.AUTH_SUCCESSFUL

    @override
    def check_channel_request(self, kind: str, chanid: int) -> int:
        if kind != "session":
            return paramiko.common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        self._hold_channels()
        self._open = {number: channel for number, channel in self._open.items() if not channel.closed}
        self._ptys.intersection_update(self._open)
        if len(self._open) >= CHANNELS:
            return paramiko.common.OPEN_FAILED_RESOURCE_SHORTAGE
        return paramiko.common.OPEN_SUCCEEDED

    def _hold_channels(self) -> None:
        """Store a reference to each new channel, which paramiko drops after it was returned."""
        while (channel := self._ssh.accept(0)) is not None:
            self._open[channel.get_id()] = channel

    @override
    def check_channel_pty_request(
        self,
        channel: paramiko.Channel,
        term: bytes,
        width: int,
        height: int,
        pixelwidth: int,
        pixelheight: int,
        modes: bytes,
    ) -> bool:
        self._ptys.add(channel.get_id())
        return self._acceptor.commands

    @override
    def check_channel_window_change_request(
        self, channel: paramiko.Channel, width: int, height: int, pixelwidth: int, pixelheight: int
    ) -> bool:
        return self._acceptor.commands

    @override
    def check_channel_env_request(self, channel: paramiko.Channel, name: bytes, value: bytes) -> bool:
        return True

    @override
    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        return self._acceptor.commands and self._start(channel)

    @override
    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return self._acceptor.commands and self._start(channel, command=command.decode("utf-8", "replace"))

    @override
    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        return name in self._acceptor.subsystems and self._start(channel, subsystem=name)

    def _start(self, channel: paramiko.Channel, **what: str) -> bool:
        extra = {"user": self._user, "pty": channel.get_id() in self._ptys, "peername": self._pump.peer()}
        self._hold_channels()
        waiting = [channel]

        def opened() -> None:
            if waiting:
                self._opened(waiting.pop(), extra | what)

        self._ssh.after_reply = lambda: self._call_soon(opened)
        self._call_soon(lambda: self._loop.call_later(NO_REPLY_S, opened))
        return True

    def _call_soon(self, callback: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed
            self._ssh.close()

    def _opened(self, channel: paramiko.Channel, extra: dict[str, Any]) -> None:
        """Start a channel, in the loop."""
        transport = ChannelTransport(channel, workers=self._serving.workers, extra=extra, cut=self.cut)
        transport.start(self._serving.factory())
