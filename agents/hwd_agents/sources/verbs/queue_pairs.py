"""Queue pairs of a real RDMA device: UD for datagrams, RC for connections."""

import ipaddress
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hwd_agents.sources.verbs.gid import long_form
from hwd_agents.sources.verbs.library import Verbs
from hwd_agents.sources.verbs.verbs import OnDatagram, OnSent, Retries
from hwd_agents.wire import VerbsAddress
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError

Q_KEY: Final = 0x6877_6431
"""The Q_Key of all our UD queue pairs; one with the highest bit set would be privileged (IBA 1.7, 10.2.5)."""
HEADER_BYTES: Final = 40
"""Size of the global route header, which precedes each received datagram (ibv_post_recv(3))."""
SLOT_BYTES: Final = 1024
"""The largest datagram: the MTU of RoCE on an Ethernet of 1500 bytes."""
SENDS: Final = 64
RECEIVES: Final = 128
RC_BYTES: Final = 8
RC_RECEIVES: Final = 16
HOPS: Final = 64
RNR_RETRIES_FOR_EVER: Final = 7
RNR_TIMER: Final = 12
"""0.64 ms (IBA 1.7, table 45)."""
COMPLETE: Final = "0x2"
"""A flag of /proc/net/arp: the link-layer address is known (ATF_COM)."""
_SEND: Final = 1 << 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The objects of a device that a queue pair is made on."""

    domain: Any
    queue: Any
    port: int
    gid_index: int
    mtu: int
    clock: Clock
    neighbours: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCompletion:
    """A work completion. `why` says why it failed; empty when it succeeded."""

    id: int
    status: int
    why: str
    length: int
    at_ns: int


class UdPair:
    """VerbsDatagrams."""

    def __init__(self, verbs: Verbs, place: Place, on_datagram: OnDatagram, *, gid: str) -> None:
        self._verbs = verbs
        self._place = place
        self._on_datagram = on_datagram
        self._ways: dict[str, tuple[str, Any]] = {}  # by GID: the link-layer address of the handle, and the handle
        self._free = deque(range(SENDS))
        self._sends = _memory(verbs, place, SENDS * SLOT_BYTES)
        self._receives = _memory(verbs, place, RECEIVES * (HEADER_BYTES + SLOT_BYTES))
        self._pair = _queue_pair(verbs, place, verbs.enums.IBV_QPT_UD, SENDS, RECEIVES)
        attributes = verbs.qp.QPAttr(port_num=place.port)
        attributes.qkey = Q_KEY
        self._pair.to_rts(attributes)
        self.address = VerbsAddress(gid=gid, qpn=int(self._pair.qp_num), qkey=Q_KEY)
        self.last_failure = ""
        for slot in range(RECEIVES):
            self._offer(slot)

    def reaches(self, address: VerbsAddress) -> bool:
        """Whether an address handle for `address` exists or can be made without a wait.

        The kernel looks the link-layer address up when a handle is made, and stops this whole process for up to a
        second meanwhile (addr_resolve in drivers/infiniband/core/addr.c). So a handle is made only for a link-layer
        address that the kernel knows already. The handle stays valid after the kernel has forgotten the address.
        """
        known = self._ways.get(address.gid)
        link_layer = neighbour(self._place.neighbours, address.gid)
        if link_layer is None or (known is not None and known[0] == link_layer):
            return known is not None
        try:
            with self._verbs.doing(f"make a way to {address.gid}"):
                self._ways[address.gid] = (
                    link_layer,
                    self._verbs.addr.AH(self._place.domain, attr=_way(self._verbs, self._place, address.gid)),
                )
        except LinkError as error:
            self.last_failure = str(error)
            return known is not None
        return True

    def send(self, payload: bytes, address: VerbsAddress) -> bool:
        if len(payload) > SLOT_BYTES:
            return self._failed(f"{len(payload)} bytes are over the {SLOT_BYTES} of a UD datagram")
        if not self.reaches(address):
            return self._failed(self.last_failure or f"the link-layer address of {address.gid} is not known yet")
        if not self._free:
            return self._failed(f"{SENDS} sends are not complete yet")
        slot = self._free.popleft()
        self._sends.write(payload, len(payload), slot * SLOT_BYTES)
        place = self._verbs.wr.SGE(self._sends.buf + slot * SLOT_BYTES, len(payload), self._sends.lkey)
        request = self._verbs.wr.SendWR(
            wr_id=_SEND | slot,
            opcode=self._verbs.enums.IBV_WR_SEND,
            num_sge=1,
            sg=[place],
            send_flags=self._verbs.enums.IBV_SEND_SIGNALED,
        )
        request.set_wr_ud(self._ways[address.gid][1], address.qpn, address.qkey)
        try:
            with self._verbs.doing(f"send to {address.gid}"):
                self._pair.post_send(request)
        except LinkError as error:
            self._free.append(slot)
            return self._failed(str(error))
        return True

    def completed(self, one: WorkCompletion) -> None:
        if one.id & _SEND:
            self._free.append(one.id & ~_SEND)
            if one.why:
                self.last_failure = one.why
            return
        if not one.why and one.length >= HEADER_BYTES:
            start = one.id * (HEADER_BYTES + SLOT_BYTES) + HEADER_BYTES
            payload = self._receives.read(one.length - HEADER_BYTES, start)
            self._offer(one.id)
            self._on_datagram(payload, one.at_ns)

    def close(self) -> None:
        ways = [way for _, way in self._ways.values()]
        give_back(self._verbs, self._pair, *ways, self._sends, self._receives)

    def _offer(self, slot: int) -> None:
        size = HEADER_BYTES + SLOT_BYTES
        place = self._verbs.wr.SGE(self._receives.buf + slot * size, size, self._receives.lkey)
        self._pair.post_recv(self._verbs.wr.RecvWR(wr_id=slot, num_sge=1, sg=[place]))

    def _failed(self, why: str) -> bool:
        self.last_failure = why
        return False


class RcPair:
    """VerbsConnection. `on_closed` is called when it was closed, whoever closed it."""

    def __init__(self, verbs: Verbs, place: Place, retries: Retries, on_closed: "Callable[[RcPair], None]") -> None:
        self._verbs = verbs
        self._place = place
        self._retries = retries
        self._on_closed = on_closed
        self._waiting: deque[OnSent] = deque()
        self._closed = False
        with verbs.doing("make an RC queue pair"):
            self._memory = _memory(verbs, place, (1 + RC_RECEIVES) * RC_BYTES)
            self._pair = _queue_pair(verbs, place, verbs.enums.IBV_QPT_RC, SENDS, RC_RECEIVES)
            self.qpn = int(self._pair.qp_num)

    def connect(self, gid: str, qpn: int) -> bool:
        if neighbour(self._place.neighbours, gid) is None:
            return False
        attributes = self._verbs.qp.QPAttr(port_num=self._place.port)
        attributes.dest_qp_num = qpn
        attributes.path_mtu = self._place.mtu
        attributes.rq_psn = _first_psn(qpn)
        attributes.sq_psn = _first_psn(self.qpn)
        attributes.timeout = self._retries.ack_timeout
        attributes.retry_cnt = self._retries.count
        attributes.rnr_retry = RNR_RETRIES_FOR_EVER
        attributes.min_rnr_timer = RNR_TIMER
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        attributes.ah_attr = _way(self._verbs, self._place, gid)
        with self._verbs.doing(f"connect an RC queue pair to number {qpn} at {gid}"):
            self._pair.to_rts(attributes)
            for slot in range(RC_RECEIVES):
                self._offer(slot)
        return True

    def send(self, on_sent: OnSent) -> None:
        """Send a message of 8 bytes. Raises LinkError."""
        place = self._verbs.wr.SGE(self._memory.buf, RC_BYTES, self._memory.lkey)
        request = self._verbs.wr.SendWR(
            wr_id=_SEND,
            opcode=self._verbs.enums.IBV_WR_SEND,
            num_sge=1,
            sg=[place],
            send_flags=self._verbs.enums.IBV_SEND_SIGNALED,
        )
        with self._verbs.doing(f"send on RC queue pair {self.qpn}"):
            self._pair.post_send(request)
        self._waiting.append(on_sent)

    def completed(self, one: WorkCompletion) -> None:
        """Process a completion of this pair; sends complete in the order in which they were posted."""
        if self._closed:
            return
        if one.id & _SEND:
            if self._waiting:
                self._waiting.popleft()(one.why, one.at_ns)
        elif not one.why:
            with self._verbs.doing(f"receive on RC queue pair {self.qpn}"):
                self._offer(one.id)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._waiting.clear()
            give_back(self._verbs, self._pair, self._memory)
            self._on_closed(self)

    def _offer(self, slot: int) -> None:
        place = self._verbs.wr.SGE(self._memory.buf + (1 + slot) * RC_BYTES, RC_BYTES, self._memory.lkey)
        self._pair.post_recv(self._verbs.wr.RecvWR(wr_id=slot, num_sge=1, sg=[place]))


def neighbour(table: Path, gid: str) -> str | None:
    """The link-layer address that the kernel knows for the IPv4 address in `gid`; None when it knows none.

    `table` is /proc/net/arp (proc(5)).
    """
    ip = ipaddress.IPv6Address(gid).ipv4_mapped
    for line in table.read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 6 and fields[0] == str(ip) and int(fields[2], 16) & int(COMPLETE, 16):
            return fields[3]
    return None


def give_back(verbs: Verbs, *held: Any) -> None:
    """Close each of them, also when one refuses (EIO), as those of a removed device do: nothing is left of it then."""
    for one in held:
        try:
            with verbs.doing(f"close a {type(one).__name__}"):
                one.close()
        except LinkError as error:
            _log.debug("%s", error)


def _memory(verbs: Verbs, place: Place, size: int) -> Any:
    return verbs.mr.MR(place.domain, size, verbs.enums.IBV_ACCESS_LOCAL_WRITE)


def _queue_pair(verbs: Verbs, place: Place, kind: int, sends: int, receives: int) -> Any:
    limits = verbs.qp.QPCap(max_send_wr=sends, max_recv_wr=receives, max_send_sge=1, max_recv_sge=1)
    return verbs.qp.QP(place.domain, verbs.qp.QPInitAttr(qp_type=kind, scq=place.queue, rcq=place.queue, cap=limits))


def _way(verbs: Verbs, place: Place, gid: str) -> Any:
    route = verbs.addr.GlobalRoute(dgid=verbs.addr.GID(long_form(gid)), sgid_index=place.gid_index, hop_limit=HOPS)
    return verbs.addr.AHAttr(gr=route, is_global=1, port_num=place.port)


def _first_psn(qpn: int) -> int:
    """The first packet sequence number: both ends can compute it, and it differs for each pair (24 bits)."""
    return qpn * 0x9E37 & 0xFF_FFFF
