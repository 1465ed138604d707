"""Probe: the readiness probe, the first transfer between the two ends of a link, both ways, over the link itself."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import UNSET

from hwd_agents.probes import datagrams as probe_wire
from hwd_agents.probes.token_bucket import Bucket
from hwd_agents.probes.verbs_ports import VerbsPorts
from hwd_agents.process.config import PortConfig, ProbeConfig
from hwd_agents.sources.kernel.udp import Datagrams, DatagramSource
from hwd_agents.sources.verbs.verbs import VerbsDatagrams
from hwd_agents.spool.outbox import Emit
from hwd_agents.watchers.poll_timer import PollTimer
from hwd_agents.wire import Observation, Peer
from hwd_agents.wire.events import ReadyData, WrongPeerData
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ProtocolError

SOURCE: Final = "probe"
OUTSTANDING_MOST: Final = 64
"""Attempts whose reply may still arrive; at the fastest pace 0.1 s of them."""
UDP: Final = "udp"
UD: Final = "verbs-ud"
OPEN_AGAIN_S: Final = 1.0
BURST_PARTS: Final = 50
"""The bucket holds one 50th of a second's packets: 20 ports may start at once."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Watch:
    """One port that is observed.

    `outstanding`: by nonce, the latest time at which the attempt before it had failed, and how it was sent.
    """

    reconfiguration: str
    peer: Peer
    begun_ns: int
    failed_ns: int
    interval_s: float
    timer: asyncio.TimerHandle | None = None
    sent: int = 0
    refused: str = ""
    ready_ns: int | None = None
    succeeded: int = 0
    wrong: set[str] = field(default_factory=set)
    outstanding: dict[int, tuple[int, str]] = field(default_factory=dict)
    ended_ns: int | None = None


class Probe:
    """The probe of readiness emits events `ready` and `wrong-peer`.

    An observed port with carrier sends requests to its peer's address, ever slower, until a valid reply arrives. A
    valid reply names the expected port, this reconfiguration and us as its peer, and neither end reports that its RDMA
    port is down. A port answers only for the reconfiguration that it observes, so that neither a wrong patch nor a
    stale reconfiguration can pass. All ports together keep to a stated rate, replies to another of the same size.

    If both ends have verbs, requests are UD sends of the RDMA ports, else UDP bound to the interface. A reply counts
    only if it came by the transport of its request.
    """

    def __init__(
        self,
        host: str,
        ports: Mapping[str, PortConfig],
        source: DatagramSource,
        clock: Clock,
        emit: Emit,
        *,
        carrier: Callable[[str], bool | None],
        rdma: Callable[[str], bool | None],
        config: ProbeConfig,
        origin: str,
        on_port: Callable[[], None],
        verbs: VerbsPorts | None = None,
    ) -> None:
        self.on_offer: list[Callable[[str, probe_wire.Offer], None]] = []
        self._verbs = verbs
        if verbs is not None:
            verbs.on_datagram.append(lambda name, payload, at_ns: self._take(name, payload, None, at_ns))
        self._host = host
        self._ports = ports
        self._source = source
        self._clock = clock
        self._emit = emit
        self._carrier = carrier
        self._rdma = rdma
        self._config = config
        self._origin = origin
        self._on_port = on_port
        self._open: dict[str, Datagrams] = {}
        self._why_not = {
            name: "not opened yet" if port.ip else "no ip is configured for it" for name, port in ports.items()
        }
        self._watches: dict[str, _Watch] = {}
        self._nonces = itertools.count(1)  # never reused: old replies may arrive after a port begins anew
        self._poll_timer = PollTimer()
        most = max(1.0, config.packets_per_s / BURST_PARTS)
        self._requests = Bucket(per_s=config.packets_per_s, most=most)
        self._replies = Bucket(per_s=config.packets_per_s, most=most)
        self.garbage = 0
        self.unanswered = 0
        """Requests that were not for us, or beyond the rate."""

    async def run(self) -> None:
        """Open a UDP port on each interface, retry when that fails, until cancelled; then close them."""
        try:
            while True:
                for name, port in self._ports.items():
                    if port.ip_address is not None and name not in self._open:
                        await self._try_open(name, port.interface, port.ip_address)
                await self._poll_timer.wait(OPEN_AGAIN_S)
        finally:
            for name in list(self._watches):
                self.end(name)
            for datagrams in self._open.values():
                datagrams.close()
            self._open.clear()

    def hurry(self) -> None:
        """Retry at once to open what could not be opened."""
        self._poll_timer.hurry()

    def udp_port(self, port: str) -> int | None:
        """The UDP port of a NIC port; None when it has none."""
        return self._open[port].port if port in self._open else None

    def say(self, port: str, peer: Peer, offer: probe_wire.Offer) -> bool:
        """Send an offer to a peer by UDP, within the rate of all requests; False: not now."""
        datagrams = self._open.get(port)
        if datagrams is None or not self._requests.take():
            return False
        return datagrams.send(probe_wire.encode(offer), (peer.peer_ip, peer.peer_probe_port))

    def why_not(self, port: str) -> str:
        """Why a port cannot be probed; empty when it can."""
        return "" if port in self._open else self._why_not[port]

    def begin(self, reconfiguration: str, peer: Peer) -> None:
        """Observe the port that `peer` names: probe it whenever it has carrier, and answer for it."""
        name = _local(peer.port)
        self.end(name)
        now_ns = self._clock.monotonic_ns()
        self._watches[name] = _Watch(
            reconfiguration=reconfiguration,
            peer=peer,
            begun_ns=now_ns,
            failed_ns=now_ns,
            interval_s=self._config.first_s,
        )
        if self._carrier(name):
            self._attempt(name)

    def end(self, port: str) -> None:
        """Stop the observation: neither ask nor answer."""
        watch = self._watches.get(port)
        if watch is not None and watch.ended_ns is None:
            watch.ended_ns = self._clock.monotonic_ns()
            _stop(watch)

    def observation(self, port: str) -> Observation:
        """Whether the port became ready since `begin`."""
        watch = self._watches.get(port)
        if watch is None:
            return Observation(seen=False, why_not=self.why_not(port) or "not observed")
        return Observation(
            seen=watch.sent > 0,
            why_not="" if watch.sent else self.why_not(port) or watch.refused or "it had no carrier",
            now=watch.ready_ns is not None,
            looks=watch.sent,
            failed=watch.sent - watch.succeeded,
            from_ns=watch.begun_ns,
            upto_ns=watch.ended_ns or self._clock.monotonic_ns(),
        )

    def carrier_changed(self, port: str, *, carrier: bool, earliest_ns: int) -> None:
        """Start at carrier on, at the fastest pace; stop at carrier off. Either ends the ready state.

        Carrier on without a carrier off before it means that the fall was not seen.
        """
        watch = self._watches.get(port)
        if watch is None or watch.ended_ns is not None:
            return
        _stop(watch)
        watch.ready_ns = None
        watch.outstanding.clear()  # their replies would have crossed the light that is gone
        if carrier:
            watch.failed_ns = max(watch.begun_ns, earliest_ns)
            watch.interval_s = self._config.first_s
            self._attempt(port)

    def rdma_changed(self, port: str) -> None:
        """Ask at once when the RDMA port became active: all attempts since it went down have failed."""
        watch = self._watches.get(port)
        if watch is not None and watch.ended_ns is None and self._carrier(port):
            _stop(watch)
            watch.ready_ns = None
            watch.interval_s = self._config.first_s
            self._attempt(port)

    def interface_changed(self, port: str, *, present: bool) -> None:
        """The interface was removed, or created anew."""
        if present:
            self.hurry()
        if present and port in self._open and not self._open[port].reopen():
            _log.debug("%s: %s", port, self._open[port].last_failure)

    async def _try_open(self, name: str, interface: str, ip: str) -> None:
        try:
            self._open[name] = await self._source.open(interface, ip, 0, partial(self._take, name))
        except OSError as error:
            self._why_not[name] = f"cannot open a UDP port on {interface}: {error.strerror or error}"
            return
        self._on_port()
        watch = self._watches.get(name)
        if watch is not None and watch.timer is None and self._carrier(name):
            self._attempt(name)

    def _attempt(self, name: str) -> None:
        watch = self._watches[name]
        watch.timer = None
        datagrams = self._open.get(name)
        if datagrams is None or watch.ended_ns is not None:
            return
        if not self._requests.take():
            self._later(name, watch, self._requests.wait_s())
            return
        nonce = next(self._nonces)
        request = probe_wire.Request(
            reconfiguration=watch.reconfiguration, nonce=nonce, port=watch.peer.port, rdma=self._rdma(name)
        )
        sent_ns = self._clock.monotonic_ns()
        way = self._send(watch.peer, name, probe_wire.encode(request), datagrams)
        if way is not None:
            watch.outstanding[nonce] = (watch.failed_ns, way)
            if len(watch.outstanding) > OUTSTANDING_MOST:
                del watch.outstanding[next(iter(watch.outstanding))]
        else:
            watch.refused = self._last_failure(name, datagrams)
        watch.sent += 1
        watch.failed_ns = sent_ns
        self._later(name, watch, watch.interval_s)
        watch.interval_s = min(watch.interval_s * self._config.growth, self._config.most_s)

    def _later(self, name: str, watch: _Watch, wait_s: float) -> None:
        watch.timer = asyncio.get_running_loop().call_later(wait_s, self._attempt, name)

    def _send(self, peer: Peer, name: str, payload: bytes, datagrams: Datagrams) -> str | None:
        """Send a request; returns how it was sent, or None when that failed.

        A peer's RDMA port can be reached only when its link-layer address is known. Until then it is asked by UDP,
        which makes the kernel look the address up. Replies to that do not count.
        """
        address = (peer.peer_ip, peer.peer_probe_port)
        pair = self._pair(name)
        if pair is None or peer.peer_verbs is None:
            return UDP if datagrams.send(payload, address) else None
        if not pair.reaches(peer.peer_verbs):
            datagrams.send(payload, address)
            return None
        return UD if pair.send(payload, peer.peer_verbs) else None

    def _pair(self, name: str) -> VerbsDatagrams | None:
        port = None if self._verbs is None else self._verbs.port(name)
        return None if port is None else port.datagrams

    def _last_failure(self, name: str, datagrams: Datagrams) -> str:
        pair = self._pair(name)
        return (pair.last_failure if pair is not None else "") or datagrams.last_failure

    def _why_udp(self, name: str, peer: Peer) -> str:
        """Why a port with an RDMA device is probed by UDP; empty when it is not, or has no such device."""
        if self._verbs is None or self._ports[name].rdma is None:
            return ""
        here = self._verbs.why_no_datagrams(name)
        return here or ("" if peer.peer_verbs is not None else f"{peer.peer} is not probed by verbs")

    def _take(self, name: str, payload: bytes, address: tuple[str, int] | None, at_ns: int) -> None:
        """Process a message from a UDP address, or one over verbs."""
        try:
            message = probe_wire.decode(payload)
        except ProtocolError:
            self.garbage += 1
            return
        if isinstance(message, probe_wire.Offer):
            for call in self.on_offer:
                call(name, message)
            return
        watch = self._watches.get(name)
        if watch is None or watch.ended_ns is not None or message.reconfiguration != watch.reconfiguration:
            self.unanswered += 1
            return
        match message:
            case probe_wire.Request():
                self._answer(name, watch, message, address, at_ns)
            case probe_wire.Reply():
                self._judge(name, watch, message, at_ns, way=UD if address is None else UDP)

    def _answer(
        self, name: str, watch: _Watch, request: probe_wire.Request, address: tuple[str, int] | None, at_ns: int
    ) -> None:
        if request.port != watch.peer.peer:
            self._tell_wrong(name, watch, request.port, at_ns)
        if not self._replies.take():
            self.unanswered += 1
            return
        reply = probe_wire.Reply(
            reconfiguration=watch.reconfiguration,
            nonce=request.nonce,
            port=watch.peer.port,
            peer=watch.peer.peer,
            rdma=self._rdma(name),
        )
        if address is not None:
            self._open[name].send(probe_wire.encode(reply), address)
        elif (pair := self._pair(name)) is not None and watch.peer.peer_verbs is not None:
            pair.send(probe_wire.encode(reply), watch.peer.peer_verbs)

    def _judge(self, name: str, watch: _Watch, reply: probe_wire.Reply, at_ns: int, *, way: str) -> None:
        attempt = watch.outstanding.get(reply.nonce)
        if attempt is None or attempt[1] != way or watch.ready_ns is not None:
            return
        del watch.outstanding[reply.nonce]
        if reply.port != watch.peer.peer or reply.peer != watch.peer.port:
            self._tell_wrong(name, watch, reply.port, at_ns)
            return
        here, there = self._rdma(name), reply.rdma
        if here is False or there is False:
            return  # it was sent too early: a failed attempt
        failed_ns, _ = attempt
        watch.ready_ns = at_ns
        watch.succeeded += 1
        _stop(watch)
        unseen = [end for end, state in (("here", here), ("there", there)) if state is None]
        why_udp = self._why_udp(name, watch.peer) if way == UDP else ""
        self._emit(
            "ready",
            name,
            earliest_ns=min(failed_ns, at_ns),
            at_ns=at_ns,
            source=SOURCE,
            origin=self._origin,
            sampling_ns=max(0, at_ns - failed_ns),
            data=ReadyData(
                reconfiguration=watch.reconfiguration,
                peer=watch.peer.peer,
                via=way if not unseen else f"{way}, rdma unseen {' and '.join(unseen)}",
                sent=watch.sent,
                failed=watch.sent - watch.succeeded,
                why_udp=why_udp or UNSET,
            ),
        )

    def _tell_wrong(self, name: str, watch: _Watch, found: str, at_ns: int) -> None:
        if found in watch.wrong:
            return
        watch.wrong.add(found)
        self._emit(
            "wrong-peer",
            name,
            earliest_ns=watch.begun_ns,
            at_ns=at_ns,
            source=SOURCE,
            origin=self._origin,
            data=WrongPeerData(reconfiguration=watch.reconfiguration, expected=watch.peer.peer, found=found),
        )


def _stop(watch: _Watch) -> None:
    if watch.timer is not None:
        watch.timer.cancel()
        watch.timer = None


def _local(port: str) -> str:
    """`eth0` of `h0.eth0`."""
    return port.rpartition(".")[2]
