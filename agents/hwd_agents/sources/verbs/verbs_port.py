"""RdmaDevices and OpenPort: a port of a real RDMA device, whose events the event loop reads without a thread."""

import asyncio
import ipaddress
import logging
import os
import select
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hwd_agents.sources.verbs.gid import gid_of
from hwd_agents.sources.verbs.library import Verbs
from hwd_agents.sources.verbs.queue_pairs import Place, RcPair, UdPair, WorkCompletion, give_back
from hwd_agents.sources.verbs.verbs import OnDatagram, OnEvent, PortEvent, Retries
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError

EVENT_FILE: Final = "anon_inode:[infinibandevent]"
"""The kernel's name of the file of an event queue (drivers/infiniband/core/uverbs_main.c); pyverbs hides its number."""
ROCE_V2: Final = 2
"""IBV_GID_TYPE_ROCE_V2."""
COMPLETIONS: Final = 1024
A_TURN: Final = 64

_log = logging.getLogger(__name__)


class RdmaDevices:
    """VerbsSource of this machine, all in the event loop.

    To open a device took 72 ms in an emulated guest; an event or a datagram takes microseconds.
    """

    def __init__(self, clock: Clock, *, sysfs: Path = Path("/sys"), neighbours: Path = Path("/proc/net/arp")) -> None:
        self._clock = clock
        self._sysfs = sysfs
        self._neighbours = neighbours
        self._verbs: Verbs | None = None

    def open(self, device: str, ip: str | None, on_event: OnEvent, on_datagram: OnDatagram) -> "OpenPort":
        name, _, number = device.partition("/")
        if number and not number.isdecimal():
            raise LinkError(f"{device}: not a port of an RDMA device; write {name} or {name}/2")
        if not (self._sysfs / "class/infiniband" / name).exists():
            raise LinkError(f"there is no RDMA device {name}; `rdma link` lists the RDMA devices")
        if self._verbs is None:
            self._verbs = Verbs()
        return OpenPort(
            self._verbs,
            name,
            int(number or 1),
            ip,
            self._clock,
            on_event,
            on_datagram,
            sysfs=self._sysfs,
            neighbours=self._neighbours,
        )


class OpenPort:
    """VerbsPort. One completion queue serves all its queue pairs."""

    def __init__(
        self,
        verbs: Verbs,
        device: str,
        number: int,
        ip: str | None,
        clock: Clock,
        on_event: OnEvent,
        on_datagram: OnDatagram,
        *,
        sysfs: Path,
        neighbours: Path,
    ) -> None:
        self._verbs = verbs
        self._name = f"{device}/{number}"
        self._number = number
        self._ip = ip
        self._clock = clock
        self._on_event = on_event
        self._on_datagram = on_datagram
        self._neighbours = neighbours
        self._loop = asyncio.get_running_loop()
        self._gone = ""
        self._closed = False
        self._takers: dict[int, Callable[[WorkCompletion], None]] = {}
        self._pairs: list[RcPair] = []
        self._readers: list[int] = []
        self.datagrams: UdPair | None = None
        self.why_no_datagrams = ""
        with verbs.doing(f"open the RDMA device {device}"):
            before = _open_files()
            self._context = verbs.device.Context(name=device)
        try:
            with verbs.doing(f"prepare the RDMA device {device}"):
                self._node = self._find_node(before, sysfs)
                self._events = self._take_file(before, "its events")
                self._ports = int(self._context.query_device().phys_port_cnt)
                before = _open_files()
                self._channel = verbs.cq.CompChannel(self._context)
                self._completions = self._take_file(before, "its completions")
                self._queue = verbs.cq.CQ(self._context, COMPLETIONS, None, self._channel, 0)
                self._queue.req_notify()
                self._domain = verbs.pd.PD(self._context)
                self._seek_gid()
        except BaseException:
            self.close()
            raise
        self._read(self._events, self._take_events)
        self._read(self._completions, self._take_completions)

    def connection(self, retries: Retries) -> RcPair:
        pair = RcPair(self._verbs, self._place(), retries, self._forget)
        self._takers[pair.qpn] = pair.completed
        self._pairs.append(pair)
        return pair

    def _forget(self, pair: RcPair) -> None:
        self._pairs.remove(pair)
        self._takers.pop(pair.qpn, None)

    def drain(self) -> None:
        self._take_events()
        self._take_completions()

    def why_gone(self) -> str:
        """Why the port can no longer be used; empty while it can.

        A driver that cannot remove a device in use (rxe) sends no event: the device node is gone, and the kernel waits
        until we close the device.
        """
        if not self._gone:
            path, inode = self._node
            try:
                there = path.stat().st_ino == inode
            except OSError:
                there = False
            if not there:
                self._gone = f"the RDMA device {self._name} is being removed"
        return self._gone

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for file in self._readers:
            self._loop.remove_reader(file)
        for pair in list(self._pairs):
            pair.close()
        self._takers.clear()
        if self.datagrams is not None:
            self.datagrams.close()
        give_back(self._verbs, self._context)

    def _seek_gid(self) -> None:
        """Open the UD queue pair with the GID of our address, if there is one."""
        if self._ip is None:
            self.why_no_datagrams = "no ip is configured for it"
            return
        wanted = ipaddress.IPv6Address(gid_of(self._ip))
        for entry in self._context.query_gid_table(self._context.query_port(self._number).gid_tbl_len):
            if (
                entry.port_num == self._number
                and entry.gid_type == ROCE_V2
                and ipaddress.IPv6Address(entry.gid_str()) == wanted
            ):
                self._gid_index = int(entry.gid_index)
                self.why_no_datagrams = ""
                self.datagrams = UdPair(self._verbs, self._place(), self._on_datagram, gid=str(wanted))
                self._takers[self.datagrams.address.qpn] = self.datagrams.completed
                return
        self.why_no_datagrams = (
            f"{self._name} has no RoCE v2 GID of {self._ip}: set that address on the interface of this device"
        )

    def _gid_changed(self) -> None:
        if self.datagrams is None:
            with self._verbs.doing(f"open a queue pair of {self._name}"):
                self._seek_gid()
            return
        with self._verbs.doing(f"read the GIDs of {self._name}"):
            gid = ipaddress.IPv6Address(self._context.query_gid(self._number, self._gid_index).gid)
        if str(gid) != self.datagrams.address.gid:
            self._gone = f"{self._name}: the GID of {self._ip} is no longer at the same index"

    def _place(self) -> Place:
        return Place(
            domain=self._domain,
            queue=self._queue,
            port=self._number,
            gid_index=self._gid_index,
            mtu=self._context.query_port(self._number).active_mtu,
            clock=self._clock,
            neighbours=self._neighbours,
        )

    def _find_node(self, before: dict[int, str], sysfs: Path) -> tuple[Path, int]:
        for number, target in _open_files().items():
            if before.get(number) != target and target.startswith("/dev/infiniband/uverbs"):
                path = sysfs / "class/infiniband_verbs" / Path(target).name
                return path, path.stat().st_ino
        raise LinkError(f"{self._name}: it was opened, but no file of /dev/infiniband is open")

    def _take_file(self, before: dict[int, str], what: str) -> int:
        new = [number for number, target in _open_files().items() if target == EVENT_FILE and number not in before]
        if len(new) != 1:
            raise LinkError(f"{self._name}: {len(new)} files of {what} instead of one in /proc/self/fd")
        os.set_blocking(new[0], False)
        return new[0]

    def _read(self, file: int, take: Callable[[], None]) -> None:
        self._loop.add_reader(file, take)
        self._readers.append(file)

    def _take_events(self) -> None:
        try:
            while not self._closed and not self._gone and _is_readable(self._events):
                with self._verbs.doing(f"read the events of {self._name}"):
                    event = self._context.get_async_event()
                    kind = int(event.event_type)
                    event.ack()
                self._tell(kind)
        except LinkError as error:
            self._lose(str(error))

    def _tell(self, kind: int) -> None:
        at_ns, enums = self._clock.monotonic_ns(), self._verbs.enums
        if kind == enums.IBV_EVENT_DEVICE_FATAL:
            self._lose(f"the RDMA device {self._name} failed or was removed (IBV_EVENT_DEVICE_FATAL)")
        elif kind == enums.IBV_EVENT_GID_CHANGE:
            self._gid_changed()
            self._on_event(PortEvent.GONE if self._gone else PortEvent.GID_CHANGE, at_ns)
        elif kind in (enums.IBV_EVENT_PORT_ACTIVE, enums.IBV_EVENT_PORT_ERR):
            one = PortEvent.ACTIVE if kind == enums.IBV_EVENT_PORT_ACTIVE else PortEvent.ERROR
            self._on_event(one if self._ports == 1 else PortEvent.SOME_PORT, at_ns)

    def _take_completions(self) -> None:
        try:
            with self._verbs.doing(f"read the completions of {self._name}"):
                while not self._closed and _is_readable(self._completions):
                    self._channel.get_cq_event(self._queue)
                    self._queue.ack_events(1)
                if self._closed:
                    return
                self._queue.req_notify()  # before the queue is drained: later completions make an event
                self._empty_queue()
        except LinkError as error:
            self._lose(str(error))

    def _empty_queue(self) -> None:
        while not self._closed:
            count, found = self._queue.poll(A_TURN)
            at_ns = self._clock.monotonic_ns()
            for one in found:
                take = self._takers.get(one.qp_num)
                if take is not None:
                    take(
                        WorkCompletion(
                            id=one.wr_id,
                            status=one.status,
                            why=_words(self._verbs, one.status),
                            length=one.byte_len,
                            at_ns=at_ns,
                        )
                    )
            if count < A_TURN:
                return

    def _lose(self, why: str) -> None:
        if not self._gone:
            self._gone = why
            self._on_event(PortEvent.GONE, self._clock.monotonic_ns())


def _open_files() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the file of the listing itself
            continue
    return found


def _is_readable(file: int) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))


def _words(verbs: Any, status: int) -> str:
    if status == verbs.enums.IBV_WC_SUCCESS:
        return ""
    if status == verbs.enums.IBV_WC_RETRY_EXC_ERR:
        return "retry count exceeded (IBV_WC_RETRY_EXC_ERR)"
    return f"work completion status {status}"
