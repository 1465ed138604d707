"""NetconfClient: a NETCONF session with a device, over a subsystem of an SSH session."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Final, TypeVar
from xml.etree.ElementTree import Element

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError, ProtocolError
from hwd_drivers.devices.connection import Answered, Connection, Request
from hwd_drivers.families.polatis.netconf import protocol
from hwd_drivers.families.polatis.netconf.messages import Hello, MessageDecoder, Notification, Reply, Rpc, encode
from hwd_drivers.transports.dial import Connector
from hwd_drivers.transports.ssh.session import SshLogin, SshSession

SUBSYSTEM: Final = "netconf"
T = TypeVar("T")


class NetconfClient:
    """Operations and their replies. Open it with `NetconfClient.open`."""

    def __init__(self, *, name: str, clock: Clock, ssh: SshSession) -> None:
        self.capabilities: tuple[str, ...] = ()
        self._name = name
        self._ssh = ssh
        self._decoder = MessageDecoder()
        self._greeting: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._connection = _Link(name=name, decode=self._decode, clock=clock)
        self._connection.mask = ssh.mask
        self._ids = itertools.count(1)

    @classmethod
    async def open(
        cls, dialer: Connector, address: str, *, name: str, login: SshLogin, clock: Clock, deadline_s: float
    ) -> "NetconfClient":
        """Connect, log in and exchange hellos. Raises as SshSession.open does."""
        ssh = await SshSession.open(dialer, address, name=name, login=login, clock=clock, deadline_s=deadline_s)
        client = cls(name=name, clock=clock, ssh=ssh)
        try:
            await client._greet(deadline_s)
        except BaseException:
            await client.close()
            raise
        return client

    async def ask(
        self, *operations: tuple[str, Element], deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[Reply]:
        """Send operations, each with a text for errors, in one write; returns their replies in the same order."""
        requests = []
        for what, operation in operations:
            number = str(next(self._ids))
            data = encode(Rpc(attributes={"message-id": number}, operation=operation), chunked=self._decoder.chunked)
            requests.append(Request(tag=number, data=data, what=what))
        return await self._connection.request(*requests, deadline_s=deadline_s, on_sent=on_sent)

    def read(self, what: str, reply: Reply, reader: Callable[[Reply], T]) -> T:
        """The result of `reader`. Raises DeviceError where the reply is a refusal; a ProtocolError ends the session."""
        if errors := [error for error in reply.errors if error.severity == "error"]:
            words = "; ".join(map(str, errors))
            raise DeviceError(
                f"{self._name}: {what}: the device says {words}",
                device=self._name,
                command=what,
                code=errors[0].tag,
                text="; ".join(error.message or error.path or error.tag for error in errors),
            )
        try:
            return reader(reply)
        except ProtocolError as error:
            self._connection.refuse(encode(reply, chunked=False), error)
            raise ProtocolError(f"{self._name}: {what}: {error}") from error

    async def lost(self) -> Exception:
        return await self._connection.lost()

    async def close(self) -> None:
        """Send close-session, and close; safe to call any number of times."""
        if self._greeting.done():
            number = str(next(self._ids))
            last_rpc = Rpc(attributes={"message-id": number}, operation=protocol.close_session())
            self._connection.send_last(encode(last_rpc, chunked=self._decoder.chunked))
        await self._connection.close()
        await self._ssh.close()
        self._greeting.cancel()

    async def _greet(self, deadline_s: float) -> None:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        try:
            async with asyncio.timeout_at(deadline_s):
                transport, _ = await self._ssh.subsystem(lambda: self._connection, SUBSYSTEM)
                transport.write(encode(Hello(capabilities=protocol.CLIENT_CAPABILITIES), chunked=False))
                lost = loop.create_task(self._connection.lost(), name=f"hwd:{self._name}/netconf-greeting")
                try:
                    await asyncio.wait((self._greeting, lost), return_when=asyncio.FIRST_COMPLETED)
                    if not self._greeting.done():
                        cause = lost.result()
                        raise type(cause)(f"{cause} (before its hello)") from cause
                finally:
                    lost.cancel()
        except TimeoutError:
            raise DeadlineError(
                f"{self._name}: no NETCONF hello within {max(0.0, deadline_s - started_s):.3g} s. "
                "Is NETCONF enabled there?"
            ) from None
        hello = self._greeting.result()
        if hello.session is None:
            raise LinkError(f"{self._name}: the hello of the device states no session")
        self.capabilities = hello.capabilities

    def _decode(self, data: bytes) -> list[tuple[str, Reply]]:
        replies = []
        for message in self._decoder.feed(data):
            match message:
                case Reply():
                    replies.append((message.message_id, message))
                case Hello():
                    if not self._greeting.done():
                        self._greeting.set_result(message)
                case Notification():
                    pass  # the driver subscribes to none
                case Rpc():
                    raise ProtocolError("NETCONF: the device sent an rpc")
        return replies


class _Link(Connection[Reply]):
    def refuse(self, data: bytes, error: ProtocolError) -> None:
        """End the connection because of a well-formed reply that does not match the request."""
        self._garble(data, error)
