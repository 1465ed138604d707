"""Simulated RDMA devices and cables for tests: they implement `hwd_agents.sources.verbs.verbs` in virtual time."""

import asyncio
from dataclasses import dataclass, field

from hwd_agents.sources.verbs.verbs import OnDatagram, OnEvent, OnSent, PortEvent, Retries
from hwd_agents.wire import VerbsAddress
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError

CABLE_S = 0.0001
"""One way."""


@dataclass(slots=True)
class Cable:
    """Between two ports; dark, it loses all."""

    lit: bool = True
    ends: "list[PlayedPort]" = field(default_factory=list)

    def other(self, end: "PlayedPort") -> "PlayedPort | None":
        others = [one for one in self.ends if one is not end]
        return others[0] if self.lit and others else None


class PlayedVerbs:
    """VerbsSource: `missing` says why a device cannot be opened. A port that is opened anew has other queue pairs."""

    def __init__(self, clock: Clock, *devices: str) -> None:
        self.clock = clock
        self.missing: dict[str, str] = {}
        self.cables = {device: Cable() for device in devices}
        self.ports: dict[str, PlayedPort] = {}
        self.opened = 0

    def open(self, device: str, ip: str | None, on_event: OnEvent, on_datagram: OnDatagram) -> "PlayedPort":
        if device in self.missing or device not in self.cables:
            raise LinkError(self.missing.get(device, f"there is no RDMA device {device}"))
        self.opened += 1
        port = self.ports[device] = PlayedPort(self, self.cables[device], ip, on_event, on_datagram)
        return port


class PlayedPort:
    """VerbsPort. `known`: GIDs whose link-layer address the kernel knows; None: all. `gone`: why it cannot be used."""

    def __init__(
        self, verbs: PlayedVerbs, cable: Cable, ip: str | None, on_event: OnEvent, on_datagram: OnDatagram
    ) -> None:
        self.verbs = verbs
        self.cable = cable
        self.known: set[str] | None = None
        self.gone = ""
        self.closed = False
        self.pairs: dict[int, PlayedConnection] = {}
        self.on_datagram = on_datagram
        self.datagrams = None if ip is None else PlayedDatagrams(self, VerbsAddress(gid=f"::ffff:{ip}", qpn=17, qkey=7))
        self.why_no_datagrams = "no ip is configured for it" if ip is None else ""
        self._on_event = on_event
        self._waiting: list[PortEvent] = []
        cable.ends.append(self)

    def happen(self, *events: PortEvent) -> None:
        """Let the device tell these, on the next turn of the loop or when it is drained."""
        self._waiting += events
        asyncio.get_running_loop().call_soon(self.drain)

    def drain(self) -> None:
        while self._waiting:
            self._on_event(self._waiting.pop(0), self.verbs.clock.monotonic_ns())

    def connection(self, retries: Retries) -> "PlayedConnection":
        pair = PlayedConnection(self, 100 + self.verbs.opened * 100 + len(self.pairs), retries)
        self.pairs[pair.qpn] = pair
        return pair

    def why_gone(self) -> str:
        return self.gone

    def close(self) -> None:
        self.closed = True
        self.cable.ends.remove(self)
        for pair in self.pairs.values():
            pair.close()

    def knows(self, gid: str) -> bool:
        return self.known is None or gid in self.known


class PlayedDatagrams:
    """VerbsDatagrams."""

    def __init__(self, port: PlayedPort, address: VerbsAddress) -> None:
        self.address = address
        self.last_failure = ""
        self.sent = 0
        self._port = port

    def reaches(self, address: VerbsAddress) -> bool:
        return self._port.knows(address.gid)

    def send(self, payload: bytes, address: VerbsAddress) -> bool:
        if not self.reaches(address):
            self.last_failure = f"the link-layer address of {address.gid} is not known yet"
            return False
        self.sent += 1
        other = self._port.cable.other(self._port)
        if other is not None and other.datagrams is not None and other.datagrams.address == address:
            asyncio.get_running_loop().call_later(CABLE_S, _arrive, other, payload)
        return True


class PlayedConnection:
    """VerbsConnection. A send is retried `count` times, one ACK timeout apart, then fails (IBA 1.7, 9.7.6.1.3)."""

    def __init__(self, port: PlayedPort, qpn: int, retries: Retries) -> None:
        self.qpn = qpn
        self.joined: tuple[str, int] | None = None
        self.closed = False
        self._port = port
        self._retries = retries
        self._broken = False

    def connect(self, gid: str, qpn: int) -> bool:
        if not self._port.knows(gid):
            return False
        self.joined = (gid, qpn)
        return True

    def send(self, on_sent: OnSent) -> None:
        if self.joined is None or self._broken:
            raise LinkError(f"queue pair {self.qpn} is not ready to send")
        self._try(on_sent, self._retries.count)

    def close(self) -> None:
        self.closed = True

    def _try(self, on_sent: OnSent, left: int) -> None:
        if self.closed:
            return
        loop = asyncio.get_running_loop()
        if self._answers():
            loop.call_later(2 * CABLE_S, self._complete, on_sent)
        elif left:
            loop.call_later(self._retries.ack_timeout_s, self._try, on_sent, left - 1)
        else:
            loop.call_later(self._retries.ack_timeout_s, self._fail, on_sent)

    def _complete(self, on_sent: OnSent) -> None:
        if not self.closed:
            on_sent("", self._port.verbs.clock.monotonic_ns())

    def _fail(self, on_sent: OnSent) -> None:
        if not self.closed:
            self._broken = True
            on_sent("retry count exceeded", self._port.verbs.clock.monotonic_ns())

    def _answers(self) -> bool:
        other = self._port.cable.other(self._port)
        if other is None or self.joined is None or other.datagrams is None:
            return False
        gid, qpn = self.joined
        pair = other.pairs.get(qpn)
        here = self._port.datagrams
        return (
            other.datagrams.address.gid == gid
            and pair is not None
            and not pair.closed
            and here is not None
            and pair.joined == (here.address.gid, self.qpn)
        )


def join(one: PlayedVerbs, other: PlayedVerbs, device: str = "mlx5_0") -> Cable:
    """A cable between the same device of two hosts; call it before they are opened."""
    one.cables[device] = other.cables[device] = Cable()
    return one.cables[device]


def _arrive(port: PlayedPort, payload: bytes) -> None:
    if not port.closed and port.cable.lit:
        port.on_datagram(payload, port.verbs.clock.monotonic_ns())
