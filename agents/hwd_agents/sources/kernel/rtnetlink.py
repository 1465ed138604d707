"""RtnetlinkLinks: links as the kernel reports them; each notice is received, stamped, and then decoded by pyroute2."""

import asyncio
import errno
import itertools
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from pyroute2.netlink import NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR
from pyroute2.netlink.rtnl import RTM_DELLINK, RTM_GETLINK, RTM_NEWLINK, RTMGRP_LINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from hwd_agents.sources.link_source import LinkReading, OperState, Origin
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.reason import reason_of

from .link_message import Attributes, reading_of
from .netlink_requests import error_of
from .sockets import Sockets
from .timed_selector import PRESSED_MOST_NS, TimedSelector

DELIVERY_NS: Final = 2_500_000
"""From the end of a carrier change until its notice is in our socket, where no task waits for a processor: 0.03 ms
median, p99 0.1 ms; a host under it, or who holds the lock of all interfaces, may add some. How long the kernel's worker
may have waited for a processor is measured (`TimedSelector.pressed_ns`), and how long the notice waited in the socket.
"""

HELD_BACK_NS: Final = 1_125_000_000
"""The kernel (net/core/link_watch.c) may delay a notice for a second, which its timer wheel rounds up by at most an
eighth (1.02 s seen). It does not delay those of an interface whose IFLA_LINK is another index.
"""

_OF_THE_MOMENT: Final = frozenset({errno.ENOBUFS, errno.EBUSY, errno.EAGAIN})  # buffer full, or another dump runs
_WORKED_DOWN: Final = frozenset({OperState.NOT_PRESENT, OperState.DOWN, OperState.LOWER_LAYER_DOWN})
"""Only in one of these states has the kernel processed a fall and stopped the queues; then the next rise is urgent. A
fall that only a dump has shown is not processed yet.
"""
_SKIP_STATS: Final = 1 << 3  # RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h
_RECEIVE_BYTES: Final = 65536
_DATAGRAMS_WAITING: Final = 64
"""Datagrams that are received and not decoded yet; more stay in the socket."""
_DECODING_NS: Final = 2_000_000
"""Time in one turn of the loop for decoding: pyroute2 takes 0.2 ms a link, and a host may have hundreds of them."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Question:
    """A question that is in progress: for one interface, or for all where `interface` is None."""

    sequence: int
    interface: str | None
    asked_ns: int
    origin: Origin
    done: asyncio.Future[None]
    seen: set[int]
    interrupted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Datagram:
    """A datagram that is not decoded yet. Its changes ended after `since_ns`, if not delayed."""

    at_ns: int
    since_ns: int
    messages: Iterator[Any]


class RtnetlinkLinks:
    """A LinkSource on one rtnetlink socket. Netlink carries no kernel stamps: a reading is stamped right after its
    receipt.

    links = RtnetlinkLinks(HostSockets(), clock, selector=selector)
    await links.open(print)

    `selector` is that of the event loop. A notice arrived within the time that it measures, and after the socket was
    last empty; without a selector only the second is known, and the bounds reach back to the previous notice.
    """

    def __init__(
        self,
        sockets: Sockets,
        clock: Clock,
        *,
        selector: TimedSelector | None = None,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        self._sockets = sockets
        self._clock = clock
        self._selector = selector
        self._receive_buffer_bytes = receive_buffer_bytes
        self._marshal = MarshalRtnl()
        self._socket: socket.socket | None = None
        self._on_reading: Callable[[LinkReading], None] = lambda reading: None
        self._sequences = itertools.count(1)
        self._empty_ns = 0  # when the socket was last empty
        self._behind = False  # the previous turn left datagrams in the socket
        self._since_ns = 0  # the datagrams that are received now report changes that ended after this, if not delayed
        self._waiting: deque[_Datagram] = deque()
        self._decoding: asyncio.Handle | None = None
        self._question: _Question | None = None
        self._asking = asyncio.Lock()
        self._recovery: asyncio.Task[None] | None = None
        self._known: dict[int, LinkReading] = {}
        self._held_ns: dict[int, int] = {}  # by ifindex: the latest time at which the known state was certain
        self._overruns = 0

    @property
    def overruns(self) -> int:
        """How often the kernel dropped notices because we did not read fast enough; a dump followed each time."""
        return self._overruns

    def late_ns(self) -> int:
        """How long ago, at most, that happened of which the kernel's notice is read now, where none was delayed."""
        delay_ns = 0 if self._selector is None else self._selector.delay_ns()
        return delay_ns + self._delivery_ns()

    async def open(self, on_reading: Callable[[LinkReading], None]) -> None:
        """Listen, and report the reading of each interface that exists."""
        if self._socket is not None:
            raise LinkError("rtnetlink: cannot open: this source is open already")
        opened = self._sockets.open(socket.AF_NETLINK, socket.SOCK_DGRAM, socket.NETLINK_ROUTE)
        try:
            if self._receive_buffer_bytes is not None:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            self._empty_ns, self._behind = self._clock.monotonic_ns(), False
            opened.bind((0, RTMGRP_LINK))
        except OSError:
            opened.close()
            raise
        self._socket = opened
        self._on_reading = on_reading
        asyncio.get_running_loop().add_reader(opened, self._read)
        try:
            await self.refresh()
        except BaseException:
            await self.close()
            raise

    async def refresh(self, interfaces: Collection[str] | None = None) -> None:
        """Read every interface again, or these ones. A notice has told of those that are not there any more."""
        if interfaces is None:
            await self._ask(Origin.DUMP)
            return
        for interface in interfaces:
            if any(reading.interface == interface for reading in self._known.values()):
                await self._ask(Origin.DUMP, interface)
                await asyncio.sleep(0)  # the answer came within the question

    async def close(self) -> None:
        opened, self._socket = self._socket, None
        if opened is None:
            return
        asyncio.get_running_loop().remove_reader(opened)
        opened.close()
        self._waiting.clear()
        if self._decoding is not None:
            self._decoding.cancel()
            self._decoding = None
        self._fail_question(LinkError("rtnetlink: the source was closed"))
        recovery, self._recovery = self._recovery, None
        if recovery is not None:
            recovery.cancel()
            await asyncio.gather(recovery, return_exceptions=True)

    async def _ask(self, origin: Origin, interface: str | None = None) -> None:
        async with self._asking:
            while True:
                if self._socket is None:
                    raise LinkError("rtnetlink: cannot read the interfaces: the source is closed")
                overruns = self._overruns
                question = _Question(
                    sequence=next(self._sequences),
                    interface=interface,
                    asked_ns=self._clock.monotonic_ns(),
                    origin=origin,
                    done=asyncio.get_running_loop().create_future(),
                    seen=set(),
                )
                self._question = question
                try:
                    self._socket.send(_request(question.sequence, interface))
                    self._read()  # the kernel answers within the request, so that this is usually all of it
                    await question.done
                finally:
                    self._question = None
                if self._overruns != overruns:  # notices of interfaces that were read already may be lost
                    origin, interface = Origin.RECOVERY, None
                elif not question.interrupted:
                    return

    def _read(self) -> None:
        """Receive and stamp what is in the socket, then decode it."""
        opened = self._socket
        if opened is None:  # it was closed in this turn
            return
        if not self._behind:
            self._since_ns = self._changed_since_ns()
        self._receive(opened)
        if self._decoding is None:
            self._decode()

    def _decode(self) -> None:
        """Decode for a while; what is left then follows in the next turns of the loop, in its order."""
        self._decoding = None
        until_ns = self._clock.monotonic_ns() + _DECODING_NS
        while self._waiting:
            if self._clock.monotonic_ns() > until_ns:
                self._decoding = asyncio.get_running_loop().call_soon(self._decode)
                return
            datagram = self._waiting[0]
            try:
                message = next(datagram.messages, None)
                if message is not None:
                    self._take(message, datagram)
                elif self._waiting:
                    self._waiting.popleft()
            except Exception as error:  # noqa: BLE001 - the next ones are of other interfaces, and are not repeated
                self._failed(error)

    def _report(self, reading: LinkReading) -> None:
        try:
            self._on_reading(reading)
        except Exception as error:  # noqa: BLE001 - as in `_decode`, and a dump has to come to its end
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """One message was not decoded, or one reading not taken: a fault of ours. All interfaces are read again."""
        context = {"message": "rtnetlink: a message was not taken", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
        if self._socket is not None and (self._question is None or self._question.interface is not None):
            self._recover_soon()

    def _changed_since_ns(self) -> int:
        came_ns = self._empty_ns
        if self._selector is not None:
            came_ns = max(came_ns, self._clock.monotonic_ns() - self._selector.delay_ns())
        return came_ns - self._delivery_ns()

    def _delivery_ns(self) -> int:
        return DELIVERY_NS + (PRESSED_MOST_NS if self._selector is None else self._selector.pressed_ns())

    def _receive(self, opened: socket.socket) -> None:
        """Take the datagrams out of the socket, each with the time of its receipt."""
        at_ns = self._clock.monotonic_ns()
        while len(self._waiting) < _DATAGRAMS_WAITING:
            try:
                data = opened.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                self._empty_ns, self._behind = at_ns, False
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    asyncio.get_running_loop().remove_reader(opened)  # else this error would repeat for ever
                    self._fail_question(LinkError(f"rtnetlink: cannot read: {error.strerror}"))
                    raise
                self._overrun()
                continue
            at_ns = self._clock.monotonic_ns()
            self._waiting.append(_Datagram(at_ns=at_ns, since_ns=self._since_ns, messages=self._marshal.parse(data)))
        self._behind = True

    def _overrun(self) -> None:
        self._overruns += 1
        _log.debug("rtnetlink: the kernel dropped notices (%d times so far); reading all interfaces", self._overruns)
        if self._question is None:
            self._recover_soon()

    def _recover_soon(self) -> None:
        """Read all interfaces, unless that is under way."""
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._recover(), name="hwd:rtnetlink/recovery")

    async def _recover(self) -> None:
        try:
            await self._ask(Origin.RECOVERY)
        except (LinkError, OSError) as error:
            if self._socket is not None:
                _log.warning("rtnetlink: changes may be missing until the next refresh: %s", reason_of(error))

    def _take(self, message: Any, datagram: _Datagram) -> None:
        at_ns = datagram.at_ns
        header, question = message["header"], self._question
        if question is not None and header["sequence_number"] != question.sequence:
            question = None
        if question is not None and header["flags"] & NLM_F_DUMP_INTR:
            question.interrupted = True
        kind = header["type"]
        if kind in (RTM_NEWLINK, RTM_DELLINK):
            if message["family"] != socket.AF_UNSPEC:
                return  # bridge ports are reported as links too, and "deleted" when they leave their bridge
            if kind == RTM_NEWLINK:
                self._take_link(message, datagram, question)
            else:
                self._gone(message["index"], Origin.NOTICE, at_ns, datagram.since_ns)
        elif kind in (NLMSG_DONE, NLMSG_ERROR) and question is not None:
            number = error_of(message)
            if number == 0 or (number == errno.ENODEV and question.interface is not None):
                self._end_question(question, at_ns)
            elif number in _OF_THE_MOMENT:
                question.interrupted = True
                self._end_question(question, at_ns)
            else:
                why = os.strerror(number)
                self._fail_question(LinkError(f"rtnetlink: cannot read the interfaces: the kernel says {why}"))

    def _take_link(self, message: Any, datagram: _Datagram, question: _Question | None) -> None:
        ifindex, at_ns, since_ns = message["index"], datagram.at_ns, datagram.since_ns
        attribute, origin = Attributes(message), Origin.NOTICE if question is None else question.origin
        reading = reading_of(message, attribute, origin=origin, at_ns=at_ns, earliest_ns=None)
        before = self._known.get(ifindex)
        if before is not None and before.interface != reading.interface:  # renamed
            self._gone(ifindex, Origin.NOTICE, at_ns, since_ns)
            before = None
        if question is not None:
            question.seen.add(ifindex)
            earliest_ns = None if before is None else self._held_ns[ifindex]
            self._held_ns[ifindex] = question.asked_ns
        else:
            urgent = attribute("IFLA_LINK", 0) not in (0, ifindex)
            if before is not None and reading.carrier and before.operstate in _WORKED_DOWN:
                urgent = True
            earliest_ns = since_ns - (0 if urgent else HELD_BACK_NS)
            if before is not None:
                earliest_ns = max(earliest_ns, self._held_ns[ifindex])
            self._held_ns[ifindex] = earliest_ns
        self._known[ifindex] = reading = msgspec.structs.replace(reading, earliest_ns=earliest_ns)
        self._report(reading)

    def _gone(self, ifindex: int, origin: Origin, at_ns: int, earliest_ns: int) -> None:
        before = self._known.pop(ifindex, None)
        held_ns = self._held_ns.pop(ifindex, earliest_ns)
        if before is None:
            return
        self._report(before.gone(origin=origin, at_ns=at_ns, earliest_ns=max(held_ns, earliest_ns)))

    def _end_question(self, question: _Question, at_ns: int) -> None:
        if question.interface is None and not question.interrupted:
            for ifindex in [known for known in self._known if known not in question.seen]:
                self._gone(ifindex, question.origin, at_ns, self._held_ns[ifindex])
        if not question.done.done():
            question.done.set_result(None)

    def _fail_question(self, error: LinkError) -> None:
        if self._question is not None and not self._question.done.done():
            self._question.done.set_exception(error)


def _request(sequence: int, interface: str | None) -> bytes:
    """A request for one link, or for all, without their packet counters."""
    message = ifinfmsg()
    message["header"]["type"] = RTM_GETLINK
    message["header"]["flags"] = NLM_F_REQUEST | (NLM_F_DUMP if interface is None else NLM_F_ACK)
    message["header"]["sequence_number"] = sequence
    message["attrs"] = [("IFLA_EXT_MASK", _SKIP_STATS)]
    if interface is not None:
        message["attrs"].append(("IFLA_IFNAME", interface))
    message.encode()
    return bytes(message.data)
