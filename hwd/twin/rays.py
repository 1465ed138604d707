"""The light of a rack: the power at each receiver by lane, and the sum that enters each switch. Only what a change
affects is traced again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hwd.fabric.light import LightMap, Onward, Trace
from hwd.model.link import SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Module, NicPort, Testbed
from hwd_drivers.core.values import Crossconnect, FibreEnd, Side, sum_dbm

PACKET_BELOW_MAX_DB = 2.0
"""Ports of packet switches send this much below the maximum of the module at the other end: their own
modules are not stated.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedEnds:
    """The receivers and switch ends that a change affected; each once, in a deterministic order."""

    receivers: tuple[NicPortId, ...] = ()
    switch_ends: tuple[FibreEnd, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedLight:
    """The light at one port: the power of each lane, None where it is dark, and its sender: None for no sender, or more
    than one.
    """

    sender: NicPortId | None
    lanes_dbm: tuple[float | None, ...]


@dataclass(slots=True)
class _Ray:
    """The light of one transmitter: the receivers and switch ends that it reaches, each with the loss up to there."""

    receivers: dict[FibreEnd, float] = field(default_factory=dict)
    entered: dict[FibreEnd, float] = field(default_factory=dict)


class Rays:
    """Light of the transmitters in `sent_dbm` (power by lane) and of packet switches; all other transmitters of the
    testbed are dark.

    rays = Rays(testbed, {NicPortId.parse("h0.eth0"): (1.0, 1.2, 0.9, 1.1)})
    touched = rays.pass_through("ocs1", {Crossconnect.parse("1A-5B"): 0.9})
    """

    def __init__(self, testbed: Testbed, sent_dbm: Mapping[NicPortId, tuple[float, ...]]) -> None:
        self._map = LightMap(testbed)
        self._sent_dbm = sent_dbm
        self._packet_switches = testbed.packet_switches
        self._ports: dict[NicPortId, NicPort] = {port.id: port for port in testbed.ports()}
        self._passing: dict[str, dict[Crossconnect, float]] = {}
        self._joined: dict[FibreEnd, Onward] = {}
        self._rays: dict[FibreEnd, _Ray] = {
            source: _Ray() for source in self._map.sources if self._sends(port_of(source))
        }
        self._through: dict[FibreEnd, dict[FibreEnd, float]] = {}
        """Light that enters a switch end, by transmitter, with the loss."""
        self._lit: dict[FibreEnd, dict[FibreEnd, float]] = {}
        """Light at a receiver's fibre, by transmitter, with the loss."""
        self._weaker_db: dict[NicPortId, float] = {}
        self._silent: dict[NicPortId, None] = {}
        self._deaf: dict[NicPortId, None] = {}
        self._follow(self._rays)

    def weaken(self, id: NicPortId, loss_db: float) -> AffectedEnds:
        """Reduce the power of a port by so much."""
        self._weaker_db[id] = loss_db
        rays = [ray for source, ray in self._rays.items() if port_of(source) == id]
        receivers = dict.fromkeys(port_of(end) for ray in rays for end in ray.receivers)
        return AffectedEnds(receivers=tuple(receivers), switch_ends=tuple(end for ray in rays for end in ray.entered))

    def silence(self, id: NicPortId, on: bool) -> AffectedEnds:
        """Keep all of a port's light out of its fibre, or (`on` false) let it in again."""
        if on:
            self._silent[id] = None
        else:
            self._silent.pop(id, None)
        return self._follow([source for source in self._rays if port_of(source) == id])

    def deafen(self, id: NicPortId, on: bool) -> AffectedEnds:
        """Keep all light of a port's fibre from its receiver, or (`on` false) let it in again."""
        if on:
            self._deaf[id] = None
        else:
            self._deaf.pop(id, None)
        return AffectedEnds(receivers=(id,))

    def pass_through(self, switch: str, passing: Mapping[Crossconnect, float]) -> AffectedEnds:
        """Let these crossconnects of a switch pass light, each with its loss in dB, and no others."""
        before = self._passing.get(switch, {})
        if before == passing:
            return AffectedEnds()
        moved = before.items() ^ passing.items()
        self._passing[switch] = dict(passing)
        for crossconnect, _ in moved:
            named = SwitchCrossconnect(switch=switch, crossconnect=crossconnect)
            self._map.join(self._joined, named, passing.get(crossconnect))
        ends = {
            FibreEnd(owner=switch, port=end.port, side=end.side)
            for crossconnect, _ in moved
            for end in crossconnect.ends
        }
        return self._follow(
            dict.fromkeys(source for source in self._rays if not ends.isdisjoint(self._rays[source].entered))
        )

    def all_affected(self) -> AffectedEnds:
        """All receivers and switch ends that have light now."""
        return AffectedEnds(receivers=tuple(dict.fromkeys(map(port_of, self._lit))), switch_ends=tuple(self._through))

    def received(self, id: NicPortId) -> ReceivedLight:
        """The light at a NIC port now."""
        port = self._ports[id]
        lanes_dbm: list[float | None] = []
        senders: list[FibreEnd] = []
        for end in port.ends(Side.RX):
            arriving = {} if id in self._deaf else self._lit.get(end, {})
            senders += arriving
            lanes_dbm += self._lanes(arriving, port.module, end)
        owners = {port_of(source) for source in senders}
        garbled = len(owners) != 1 or len(senders) > len(port.ends(Side.RX))
        return ReceivedLight(
            sender=None if garbled else next(iter(owners)),
            lanes_dbm=tuple((lanes_dbm + [None] * port.module.lanes)[: port.module.lanes]),
        )

    def lights(self, id: NicPortId) -> bool:
        """Whether a port of a packet switch receives any light."""
        return any(port_of(end) == id for end in self._lit)

    def sender_to(self, id: NicPortId) -> NicPortId | None:
        """Whose light a port of a packet switch receives; None where nobody's, or that of more than one."""
        senders = {port_of(source) for end, arriving in self._lit.items() if port_of(end) == id for source in arriving}
        return next(iter(senders)) if len(senders) == 1 else None

    def at_switch(self, end: FibreEnd) -> float | None:
        """The total power that enters a switch end, in dBm, None where it is dark."""
        arriving = self._through.get(end, {})
        like = next(iter(self._ports.values())).module
        powers = [power_dbm - loss for source, loss in arriving.items() for power_dbm in self._powers(source, like)]
        return sum_dbm(*powers) if powers else None

    def is_packet_switch(self, id: NicPortId) -> bool:
        return id.host in self._packet_switches

    def _follow(self, sources: Iterable[FibreEnd]) -> AffectedEnds:
        sources = list(sources)
        fresh: dict[FibreEnd, _Ray] = {source: _Ray() for source in sources}
        for trace in self._map.follow(self._joined, [one for one in sources if port_of(one) not in self._silent]):
            self._enter(fresh[trace.source], trace)
        receivers: dict[NicPortId, None] = {}
        switch_ends: dict[FibreEnd, None] = {}
        for source, ray in fresh.items():
            old, self._rays[source] = self._rays[source], ray
            receivers |= dict.fromkeys(
                port_of(end) for end in _replace(self._lit, source, old.receivers, ray.receivers)
            )
            switch_ends |= dict.fromkeys(_replace(self._through, source, old.entered, ray.entered))
        return AffectedEnds(receivers=tuple(receivers), switch_ends=tuple(switch_ends))

    def _enter(self, ray: _Ray, trace: Trace) -> None:
        (ray.receivers if trace.end.side is Side.RX else ray.entered)[trace.end] = trace.loss_db

    def _lanes(self, arriving: Mapping[FibreEnd, float], module: Module, end: FibreEnd) -> Sequence[float | None]:
        """Powers of the light in one fibre: by wavelength where it carries the whole port, all in one where
        it is one lane's.
        """
        beams = [[power_dbm - loss for power_dbm in self._powers(source, module)] for source, loss in arriving.items()]
        if end.lane:
            together = [power_dbm for beam in beams for power_dbm in beam]
            return [sum_dbm(*together) if together else None]
        powers = [[beam[lane] for beam in beams if lane < len(beam)] for lane in range(module.lanes)]
        return [sum_dbm(*lane) if lane else None for lane in powers]

    def _powers(self, source: FibreEnd, like: Module) -> tuple[float, ...]:
        """Power of each lane in one transmitter's fibre; a packet switch has a module like the one at the other end."""
        sent = self._sent_dbm.get(port_of(source))
        if sent is None:
            sent = (like.tx_max_dbm - PACKET_BELOW_MAX_DB,) * like.lanes
        if weaker_db := self._weaker_db.get(port_of(source)):
            sent = tuple(power_dbm - weaker_db for power_dbm in sent)
        return sent[source.lane - 1 : source.lane] if source.lane else sent

    def _sends(self, id: NicPortId) -> bool:
        return id in self._sent_dbm or self.is_packet_switch(id)


def port_of(end: FibreEnd) -> NicPortId:
    """The NIC port, or port of a packet switch, of a transmitter or receiver."""
    return NicPortId(host=end.owner, port=end.port)


def _replace(
    table: dict[FibreEnd, dict[FibreEnd, float]],
    source: FibreEnd,
    old: Mapping[FibreEnd, float],
    new: Mapping[FibreEnd, float],
) -> list[FibreEnd]:
    """Replace the entries of one transmitter in `table`; returns the ends where that made a difference."""
    moved = [end for end in {**old, **new} if old.get(end) != new.get(end)]
    for end in moved:
        at_end = table.setdefault(end, {})
        at_end.pop(source, None)
        if end in new:
            at_end[source] = new[end]
        elif not at_end:
            del table[end]
    return moved
