"""Links as the kernel tells them: a raw rtnetlink socket, parsed only as far as a carrier needs."""

import asyncio
import errno
import itertools
import logging
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import msgspec

from hwd_agents.process.agent_loop import AgentLoop
from hwd_agents.sources.link_source import LinkReading, OperState, Origin
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.reason import reason_of

from . import netlink
from .lateness import Lateness
from .link_message import WANTED, name_of, number_of, reading_of, understand
from .netlink_layout import Layouts
from .sockets import Sockets

DELIVERY_NS: Final = 4_500_000
"""From the end of a carrier change to the reading of its notice: 0.03 ms median, p99 0.1 to 1.9 ms as two cores are idle or busy. On busy ones the kernel's worker
waits for time slices of others, 3 to 4 ms, and in 3 of 1,000 cases up to 10 ms, which is more. What the reader itself was kept waiting comes to it (`lateness`)."""

HELD_BACK_NS: Final = 1_125_000_000
"""The kernel (net/core/link_watch.c) may keep a notice for a second, which its timer wheel rounds up by an eighth at most (1.02 s
seen), except for an interface whose IFLA_LINK is another index."""

_OF_THE_MOMENT: Final = frozenset({errno.ENOBUFS, errno.EBUSY, errno.EAGAIN})  # our buffer is full, or a dump goes on
_WORKED_DOWN: Final = frozenset({OperState.NOT_PRESENT, OperState.DOWN, OperState.LOWER_LAYER_DOWN})
"""A fall shows here only when the kernel has worked it off and its queues stand: the rise after that is urgent. One that a dump alone has shown is not."""
_LOWER_UP: Final = netlink.IFF_LOWER_UP
_link_state: Final = netlink.LINK_STATE.unpack_from
_RECEIVE_BYTES: Final = 65536
_DATAGRAMS_A_TURN: Final = 64
_LINK_REQUEST: Final = netlink.INTERFACE.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + netlink.encode_u32(
    netlink.IFLA_EXT_MASK, netlink.RTEXT_FILTER_SKIP_STATS
)

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Dump:
    """A dump that is under way."""

    sequence: int
    asked_ns: int
    origin: Origin
    done: asyncio.Future[None]
    seen: set[int]
    interrupted: bool = False


class RtnetlinkLinks:
    """A LinkSource on one rtnetlink socket. Netlink carries no kernel stamps: a reading is stamped right after its receipt.

    links = RtnetlinkLinks(HostSockets(), clock)
    await links.open(print)
    """

    def __init__(self, sockets: Sockets, clock: Clock, *, receive_buffer_bytes: int | None = None) -> None:
        self._sockets = sockets
        self._clock = clock
        self._receive_buffer_bytes = receive_buffer_bytes
        self._socket: socket.socket | None = None
        self._on_reading: Callable[[LinkReading], None] | None = None
        self._jotted: frozenset[str] = frozenset()
        self._news: dict[int, tuple[int, int]] = {}  # by ifindex: type and flag of a notice of a change
        self._first: tuple[int, bytes] | OSError | None = None  # received before its turn
        self._room = memoryview(bytearray(_RECEIVE_BYTES))
        self._put: Callable[[int, int], None] = lambda at_ns, size: None
        self._keep: Callable[[], None] = lambda: None
        self._sequences = itertools.count(1)
        self._lateness = Lateness(clock)
        self._in_dumps = Layouts(start=netlink.INTERFACE.size, wanted=WANTED)
        self._in_notices = Layouts(start=netlink.LINK.size, wanted=WANTED)
        self._dump: _Dump | None = None
        self._dumping = asyncio.Lock()
        self._recovery: asyncio.Task[None] | None = None
        self._known: dict[int, LinkReading] = {}
        self._held_ns: dict[int, int] = {}  # by ifindex: the latest time at which the known state surely held
        self._overruns = 0

    @property
    def overruns(self) -> int:
        """How often the kernel had to drop notices because we did not read fast enough; each was followed by a dump."""
        return self._overruns

    def jot(
        self,
        interfaces: Collection[str],
        room: memoryview,
        put: Callable[[int, int], None],
        keep: Callable[[], None],
    ) -> None:
        """As NoticeSource. Before `open`."""
        self._jotted, self._room, self._put, self._keep = frozenset(interfaces), room, put, keep

    def understand(self, at_ns: int, raw: bytes) -> LinkReading | None:
        """As NoticeSource."""
        return understand(at_ns, raw)

    async def open(self, on_reading: Callable[[LinkReading], None]) -> None:
        """Listen, and give the reading of each interface that is there."""
        if self._socket is not None:
            raise LinkError("rtnetlink: cannot open: this source is open already")
        opened = self._sockets.open(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        try:
            if self._receive_buffer_bytes is not None:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            opened.bind((0, netlink.RTMGRP_LINK))
        except OSError:
            opened.close()
            raise
        self._socket = opened
        self._on_reading = on_reading
        loop = asyncio.get_running_loop()
        loop.add_reader(opened, self._read)
        if isinstance(loop, AgentLoop):
            loop.read_first(opened.fileno(), self._read_first)
        self._lateness.start()
        try:
            await self.refresh()
        except BaseException:
            await self.close()
            raise

    async def refresh(self) -> None:
        """Read every interface again."""
        await self._read_all(Origin.DUMP)

    async def close(self) -> None:
        """Stop listening."""
        opened, self._socket = self._socket, None
        if opened is None:
            return
        self._read_no_more(opened)
        self._first = None
        self._lateness.stop()
        opened.close()
        self._fail_dump(LinkError("rtnetlink: the source was closed"))
        recovery, self._recovery = self._recovery, None
        if recovery is not None:
            recovery.cancel()
            await asyncio.gather(recovery, return_exceptions=True)

    async def _read_all(self, origin: Origin) -> None:
        async with self._dumping:
            while True:
                if self._socket is None:
                    raise LinkError("rtnetlink: cannot read the interfaces: the source is closed")
                overruns = self._overruns
                dump = _Dump(
                    sequence=next(self._sequences),
                    asked_ns=self._clock.monotonic_ns(),
                    origin=origin,
                    done=asyncio.get_running_loop().create_future(),
                    seen=set(),
                )
                self._dump = dump
                flags = netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP
                try:
                    self._socket.send(netlink.encode_message(netlink.RTM_GETLINK, flags, dump.sequence, _LINK_REQUEST))
                    self._read()  # the kernel answers as it is asked, so that this is all of it as a rule
                    await dump.done
                finally:
                    self._dump = None
                if self._overruns != overruns:  # notices of interfaces that were read already may be among the dropped
                    origin = Origin.RECOVERY
                elif not dump.interrupted:
                    return

    def _read(self) -> None:
        """Take what the socket has, but leave the loop to others after a while."""
        for _ in range(_DATAGRAMS_A_TURN):
            if self._socket is None:  # a callback closed us
                return
            try:
                at_ns, data = self._next()
            except BlockingIOError:
                self._lateness.behind = False
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    self._read_no_more(self._socket)  # else this would come again at once, for ever
                    self._fail_dump(LinkError(f"rtnetlink: cannot read: {error.strerror}"))
                    raise
                self._overrun()
                continue
            if self._dump is None and self._take_notice(data, at_ns):
                continue
            for message in netlink.messages(data):
                self._take(message, at_ns)
        self._lateness.behind = True

    def _receive(self) -> tuple[int, bytes]:
        """The next datagram and its stamp; what it tells of a carrier is put down at once. Raises OSError."""
        assert self._socket is not None
        size = self._socket.recv_into(self._room)
        at_ns = self._clock.monotonic_ns()
        if self._is_news():
            self._put(at_ns, size)
            self._keep()
        return at_ns, bytes(self._room[:size])

    def _is_news(self) -> bool:
        """Whether the room has a changed carrier."""
        kind, ifindex, flags = _link_state(self._room)
        return self._news.get(ifindex) == (kind, flags & _LOWER_UP)

    def _read_first(self) -> None:
        """Receive one as the loop wakes; `_read` takes it in this turn. It is put down before anybody looks at what it is."""
        if self._first is None:
            assert self._socket is not None
            try:
                size = self._socket.recv_into(self._room)
            except BlockingIOError:
                return
            except OSError as error:  # for `_read` to raise
                self._first = error
            else:
                at_ns = self._clock.monotonic_ns()
                self._put(at_ns, size)
                if self._is_news():
                    self._keep()
                self._lateness.woke(at_ns)
                self._first = at_ns, bytes(self._room[:size])
            asyncio.get_running_loop().call_soon(self._read)  # there may be nothing more to wake it for

    def _next(self) -> tuple[int, bytes]:
        first, self._first = self._first, None
        if isinstance(first, OSError):
            raise first
        return self._receive() if first is None else first

    def _read_no_more(self, opened: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        if loop.remove_reader(opened) and isinstance(loop, AgentLoop):
            loop.read_first_no_more(opened.fileno())

    def _overrun(self) -> None:
        self._overruns += 1
        _log.debug("rtnetlink: the kernel dropped notices (%d times so far); reading all interfaces", self._overruns)
        if self._dump is None and (self._recovery is None or self._recovery.done()):
            self._recovery = asyncio.create_task(self._recover(), name="hwd:rtnetlink/recovery")

    async def _recover(self) -> None:
        try:
            await self._read_all(Origin.RECOVERY)
        except (LinkError, OSError) as error:
            if self._socket is not None:
                _log.warning("rtnetlink: changes may be missing until the next refresh: %s", reason_of(error))

    def _take_notice(self, data: bytes, at_ns: int) -> bool:
        """The shortest way, which most go: one message of one link. False: it is something else."""
        if len(data) < netlink.LINK.size:
            return False
        length, kind, _, _, _, family, _, ifindex, flags, _ = netlink.LINK.unpack_from(data)
        if kind != netlink.RTM_NEWLINK or length != len(data) or family != socket.AF_UNSPEC:
            return False
        self._take_link(ifindex, flags, self._in_notices.read(data, ifindex), at_ns, None)
        return True

    def _take(self, message: netlink.Message, at_ns: int) -> None:
        dump = self._dump
        ours = dump is not None and message.sequence == dump.sequence
        if ours and dump is not None and message.flags & netlink.NLM_F_DUMP_INTR:
            dump.interrupted = True
        match message.type:
            case netlink.RTM_NEWLINK | netlink.RTM_DELLINK:
                family, _, ifindex, flags, _ = netlink.INTERFACE.unpack_from(message.payload)
                if family != socket.AF_UNSPEC:
                    return  # bridge ports are told as links too, and "deleted" when they leave their bridge
                if message.type == netlink.RTM_DELLINK:
                    self._gone(ifindex, Origin.NOTICE, at_ns, self._delivered_since(at_ns))
                else:
                    found = self._in_dumps.read(message.payload, ifindex)
                    self._take_link(ifindex, flags, found, at_ns, dump if ours else None)
            case netlink.NLMSG_DONE if ours and dump is not None:
                self._end_dump(dump, at_ns)
            case netlink.NLMSG_ERROR if ours:
                number, words = netlink.decode_error(message.payload, message.flags)
                if dump is not None and number in _OF_THE_MOMENT:
                    dump.interrupted = True
                    self._end_dump(dump, at_ns)
                else:
                    self._fail_dump(LinkError(f"rtnetlink: cannot read the interfaces: the kernel says {words}"))

    def _take_link(self, ifindex: int, flags: int, found: dict[int, bytes], at_ns: int, dump: _Dump | None) -> None:
        interface = name_of(found)
        carrier = bool(flags & netlink.IFF_LOWER_UP)
        before = self._known.get(ifindex)
        if before is not None and before.interface != interface:  # renamed
            self._gone(ifindex, Origin.NOTICE, at_ns, self._delivered_since(at_ns))
            before = None
        if dump is not None:
            dump.seen.add(ifindex)
            earliest_ns = None if before is None else self._held_ns[ifindex]
            self._held_ns[ifindex] = dump.asked_ns
        else:
            earliest_ns = self._notice_since(
                ifindex, found, at_ns, prompt=before is not None and carrier and before.operstate in _WORKED_DOWN
            )
            self._held_ns[ifindex] = earliest_ns
        origin = Origin.NOTICE if dump is None else dump.origin
        reading = reading_of(ifindex, flags, found, origin, at_ns, earliest_ns)
        self._known[ifindex] = reading
        if interface in self._jotted:
            self._news[ifindex] = netlink.RTM_NEWLINK, 0 if carrier else _LOWER_UP
        if self._on_reading is not None:
            self._on_reading(reading)

    def _notice_since(self, ifindex: int, found: dict[int, bytes], at_ns: int, *, prompt: bool) -> int:
        """The earliest begin of the state that a notice tells. `prompt`: it is a rise after a fall that the kernel had worked off, which is told at once.

        All else may have been held back, unless the kernel treats every change of this interface as urgent.
        """
        other = number_of(found, netlink.IFLA_LINK)
        prompt = prompt or other not in (0, ifindex)
        by_delivery = self._delivered_since(at_ns) - (0 if prompt else HELD_BACK_NS)
        if ifindex not in self._known:
            return by_delivery
        return max(by_delivery, self._held_ns[ifindex])

    def _delivered_since(self, at_ns: int) -> int:
        """A notice that is read now was sent after this."""
        return at_ns - DELIVERY_NS - self._lateness.most_ns()

    def _gone(self, ifindex: int, origin: Origin, at_ns: int, earliest_ns: int) -> None:
        before = self._known.pop(ifindex, None)
        self._news.pop(ifindex, None)
        held_ns = self._held_ns.pop(ifindex, earliest_ns)
        if before is None:
            return
        gone = msgspec.structs.replace(
            before,
            present=False,
            admin_up=False,
            carrier=False,
            operstate=OperState.NOT_PRESENT,
            origin=origin,
            at_ns=at_ns,
            earliest_ns=max(held_ns, earliest_ns),
        )
        self._tell(gone)

    def _end_dump(self, dump: _Dump, at_ns: int) -> None:
        if not dump.interrupted:
            for ifindex in [known for known in self._known if known not in dump.seen]:
                self._gone(ifindex, dump.origin, at_ns, self._held_ns[ifindex])
        if not dump.done.done():
            dump.done.set_result(None)

    def _fail_dump(self, error: LinkError) -> None:
        if self._dump is not None and not self._dump.done.done():
            self._dump.done.set_exception(error)

    def _tell(self, reading: LinkReading) -> None:
        if self._on_reading is not None:
            self._on_reading(reading)
