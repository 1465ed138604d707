"""MemoryNet: connections between objects of one loop that behave like TCP and can be cut, delayed and split."""

import asyncio
import contextvars
import errno
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Protocol, TypeVar

from hwd_drivers.transports.dial import Listener
from hwd_drivers.transports.memory_transport import MemoryTransport

ProtoT = TypeVar("ProtoT", bound=asyncio.Protocol)


class Cut(StrEnum):
    """How a connection breaks."""

    RESET = "reset"
    """Both ends see ConnectionResetError at once and bytes in flight are lost; connecting is refused."""
    SILENT = "silent"
    """No end notices: bytes wait until it heals, and connecting waits."""


class NodeKills(Protocol):
    """The nodes of a simulation that can be killed (`hwd_drivers.twins.nodes.Nodes`)."""

    def current(self) -> str | None:
        """Return the name of the node that the caller runs in."""

    def on_kill(self, hook: Callable[[str], None]) -> None:
        """Call `hook` with the name of each node that is killed."""


class MemoryNet:
    """Addresses `mem:NAME` and the connections to them; everything is delivered through the loop, in order.

    `latency_s` is one way. `chunk_bytes` is the most that one `data_received` gets: 1 is bytewise, None keeps every
    write whole. With `nodes`, the ends of a killed node are closed as its kernel would close them.
    """

    def __init__(
        self, *, latency_s: float = 0.0, chunk_bytes: int | None = None, nodes: NodeKills | None = None
    ) -> None:
        if latency_s < 0 or (chunk_bytes is not None and chunk_bytes < 1):
            raise ValueError(
                f"memory net: latency_s={latency_s}, chunk_bytes={chunk_bytes}. Use 0 or more, and 1 or more."
            )
        self.latency_s = latency_s
        self.chunk_bytes = chunk_bytes
        self._nodes = nodes
        self._listeners: dict[str, MemoryListener] = {}
        self._ends: dict[MemoryTransport, str] = {}
        self._cuts: dict[str, Cut] = {}
        self._healed: dict[str, asyncio.Event] = {}
        self._count = 0
        if nodes is not None:
            nodes.on_kill(self.node_killed)

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], address: str, *, node: str | None = None
    ) -> "MemoryListener":
        """Accept connections to `address`; `mem:` alone gets a free name."""
        name = _check_address(address)
        if not name:
            self._count += 1
            address = f"mem:listener-{self._count}"
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{address}: is in use. Close its listener first")
        self._listeners[address] = MemoryListener(self, address, factory, self._node(node))
        return self._listeners[address]

    async def connect(
        self, factory: Callable[[], ProtoT], address: str, *, node: str | None = None
    ) -> tuple[asyncio.Transport, ProtoT]:
        """Connect to `address`.

        Raises ConnectionRefusedError where nothing listens; waits while the address is cut silently.
        """
        _check_address(address)
        loop = asyncio.get_running_loop()
        while self._cuts.get(address) is Cut.SILENT:
            await self._healed.setdefault(address, asyncio.Event()).wait()
        if self.latency_s:
            await asyncio.sleep(2 * self.latency_s)
        listener = self._listeners.get(address)
        if listener is None or self._cuts.get(address) is Cut.RESET:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{address}: nothing listens there, or the network is cut")
        protocol = factory()
        self._count += 1
        here = f"mem:dialer-{self._count}"
        context = contextvars.copy_context()
        near = MemoryTransport(self, loop, context, address, self._node(node), here, address)
        far = MemoryTransport(self, loop, listener.context, address, listener.node, address, here)
        near.join(far)
        self._ends |= {near: address, far: address}
        loop.call_soon(far.start_with, listener.factory, context=listener.context)
        loop.call_soon(near.start_with, lambda: protocol, context=context)
        started = loop.create_future()
        loop.call_soon(_wake, started)
        try:
            await started
        except asyncio.CancelledError:
            near.abort()
            raise
        if not near.started:
            raise ConnectionResetError(errno.ECONNRESET, f"{address}: reset while connecting")
        return near, protocol

    def cut(self, address: str, how: Cut = Cut.RESET) -> None:
        """Break all connections to `address`, present and future, until `heal`."""
        self._let_connect(address)
        self._cuts[address] = how
        if how is Cut.RESET:
            for end in self._ends_to(address):
                end.reset()

    def heal(self, address: str) -> None:
        """Let connections to `address` work again; bytes held by a silent cut are delivered."""
        self._cuts.pop(address, None)
        self._let_connect(address)
        for end in self._ends_to(address):
            end.pump_soon()

    def node_killed(self, node: str) -> None:
        """Close listeners and connections of `node`: its peers get the bytes in flight, then the end of the stream."""
        for listener in [each for each in self._listeners.values() if each.node == node]:
            self.forget_listener(listener)
        for end in [each for each in self._ends if each.node == node]:
            end.stop()

    def holds(self, address: str) -> bool:
        """Whether bytes to and from `address` are held by a silent cut."""
        return self._cuts.get(address) is Cut.SILENT

    def forget(self, end: MemoryTransport) -> None:
        self._ends.pop(end, None)

    def forget_listener(self, listener: "MemoryListener") -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    def _let_connect(self, address: str) -> None:
        if (healed := self._healed.pop(address, None)) is not None:
            healed.set()

    def _ends_to(self, address: str) -> Iterator[MemoryTransport]:
        return iter([end for end, known_by in self._ends.items() if known_by == address])

    def _node(self, node: str | None) -> str | None:
        return self._nodes.current() if node is None and self._nodes is not None else node


class MemoryListener:
    """Accepts the connections to one address. Closing it keeps open connections."""

    def __init__(self, net: MemoryNet, address: str, factory: Callable[[], asyncio.Protocol], node: str | None) -> None:
        self.address = address
        self.factory = factory
        self.node = node
        self.context = contextvars.copy_context()
        self._net = net

    async def close(self) -> None:
        self._net.forget_listener(self)

    def cut(self) -> None:
        """Nothing to cut: each connection has its protocol."""


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _check_address(address: str) -> str:
    scheme, _, name = address.partition(":")
    if scheme != "mem":
        raise ValueError(f"{address!r}: not an address of a memory net. Write mem:NAME")
    return name


class MemoryDialer:
    """Addresses `mem:name` in one MemoryNet. `node` owns the connections; the default is the node that dials."""

    def __init__(self, net: MemoryNet, *, node: str | None = None) -> None:
        self._net = net
        self._node = node

    async def connect(self, factory: Callable[[], ProtoT], address: str) -> tuple[asyncio.Transport, ProtoT]:
        return await self._net.connect(factory, address, node=self._node)

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        return await self._net.listen(factory, address, node=self._node)
