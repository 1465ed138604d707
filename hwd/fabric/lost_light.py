"""Where the light of one circuit is lost: its way is followed from the transmitter to the first place without light."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10

from hwd.fabric.light_way import Place, light_way
from hwd.model.circuit import Circuit
from hwd.model.hang import Power
from hwd.model.nic_port import NicPortId
from hwd.model.switch import SwitchStatus
from hwd.model.testbed import Module, Testbed
from hwd_drivers.core.values import CrossconnectState, Side, sum_dbm

STOPPED = {
    CrossconnectState.FAILED: "as failed",
    CrossconnectState.BLOCKED: "as held dark",
    CrossconnectState.TUNING: "as tuning still",
}
"""States in which a crossconnect passes no light, as text."""
MONITOR_DB = 1.0
"""Monitors of switches are good to some 0.1 dB; connectors that are not in the testbed file lose some tenths each."""
MODULE_MONITOR_DB = 3.0
"""SFF-8636 and SFF-8472 allow the powers that a module reports to be wrong by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LightAt:
    """The light that is known at one end of the link: whether all lanes have it, and the module's powers by lane.

    None: not known. A lane of `sent_dbm` or `received_dbm` is None where its power is too low to be measured.
    """

    lit: bool | None = None
    sent_dbm: Sequence[float | None] | None = None
    received_dbm: Sequence[float | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostLight:
    """The place where light is lost: `why`, and the powers on the way that are known. `near`: the NIC port on whose
    fibre it is lost; None for a place behind a switch. `certain`: a switch says by itself that it does not pass this
    light. `doubtful`: the module says that it lost the light, and measured light on all lanes when it did: a short
    loss, or a late measurement.
    """

    why: str
    powers: tuple[Power, ...]
    near: NicPortId | None = None
    certain: bool = False
    doubtful: bool = False


class CircuitLight:
    """The light of one circuit, as far as it is known, from the transmitter to the receiver. `source`, `target`: of
    these two.

    The monitor at side A of a switch shows the light that enters, any other one the light that leaves. `ages_s`: of the
    powers of switches that were read before the light was lost, which are no evidence.
    """

    def __init__(
        self,
        circuit: Circuit,
        source: LightAt,
        target: LightAt,
        *,
        testbed: Testbed,
        switches: Mapping[str, SwitchStatus],
        ages_s: Mapping[str, float],
    ) -> None:
        self._circuit = circuit
        self._target = target
        ports = testbed.hosts[circuit.target.owner].ports
        self._module = next(port.module for port in ports if port.id.port == circuit.target.port)
        self._points: list[_Point] = []
        for place in light_way(circuit, testbed):
            if place.end == circuit.source:
                point = _module_point(place, source.sent_dbm, dark=False)
            elif place.end == circuit.target:
                point = _module_point(place, target.received_dbm, dark=target.lit is False)
            else:
                point = _switch_point(place, switches.get(place.end.owner), ages_s.get(place.end.owner))
            self._points.append(point)

    def lost(self) -> LostLight | None:
        """The place where light is lost; None where light arrives, or where nothing is known that is dark."""
        if self._target.lit:
            return None
        points = self._points
        powers = tuple(point.power for point in points if point.power is not None)
        for number, point in enumerate(points):
            if point.stop:
                return LostLight(why=point.stop, powers=powers, certain=True)
            if not point.dark:
                continue
            lit = [one for one in points[:number] if one.total_dbm is not None]
            first = lit[-1] if lit else None
            if point is points[-1] and (weak := _weak(point, first, self._module)):
                return LostLight(why=f"{weak}{_excess(lit)}", powers=powers)
            if point is points[-1] and point.power is not None and None not in point.power.dbm:
                why = f"{point.at} reports loss of signal, and measured light when it did"
                return LostLight(why=why, powers=powers, doubtful=True)
            return _between(first or points[0], point, points, powers, known=first is not None)
        return None

    def weak(self) -> LostLight | None:
        """Light that arrives and is below what the receiver needs: loss of signal is cleared far below the sensitivity.

        A switch is asked for its powers more often than a module tells its own: both are compared with the need.
        """
        module, (*points, last) = self._module, self._points
        lit = [point for point in points if point.total_dbm is not None]
        powers = tuple(point.power for point in lit if point.power is not None)
        need = f"the receiver needs {module.rx_min_dbm:g} dBm"
        received = [power for power in last.power.dbm if power is not None] if last.power is not None else []
        if received and last.power is not None and min(received) < module.rx_min_dbm:
            weakest, excess = min(received), _excess([*lit, last])
            why = f"the light at {last.at} is too weak, {weakest:.1f} dBm on one lane; {need}"
            return LostLight(why=f"{why}{excess}", powers=(*powers, last.power))
        monitors = [point for point in lit if point.place.end != self._circuit.source]
        if monitors and (expected_dbm := _expected_dbm(monitors[-1], last, module)) < module.rx_min_dbm:
            why = f"the light at {monitors[-1].at} leaves about {expected_dbm:.1f} dBm a lane for {last.at}; {need}"
            return LostLight(why=f"{why}{_excess(lit)}", powers=powers)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A place of the way. `stop`: why no light passes there, by what a switch says. `total_dbm`: of all lanes."""

    place: Place
    dark: bool = False
    total_dbm: float | None = None
    power: Power | None = None
    stop: str = ""

    @property
    def at(self) -> str:
        return self.place.end


def _module_point(place: Place, powers_dbm: Sequence[float | None] | None, *, dark: bool) -> _Point:
    """`dark`: the module says so itself. A lane of a parallel module has its own fibre."""
    found = tuple(powers_dbm or ())
    if place.end.lane:
        found = found[place.end.lane - 1 : place.end.lane]
    lit = [power for power in found if power is not None]
    if dark and place.end.lane and lit:  # another lane is
        dark = False
    known = bool(lit) or (dark and bool(found))
    return _Point(
        place=place,
        dark=dark,
        total_dbm=sum_dbm(*lit) if lit else None,
        power=Power(at=place.end, dbm=found, by_lane=not place.end.lane) if known else None,
    )


def _switch_point(place: Place, switch: SwitchStatus | None, age_s: float | None) -> _Point:
    """`age_s`: of its powers, where they were read before the light was lost."""
    at = place.end
    if switch is None or not switch.up:
        return _Point(place=place)
    monitored = (place.end.side is Side.A) is (place.crossconnect is None)
    name = place.end.port_side
    stop = ""
    if place.crossconnect is not None:
        pair = place.crossconnect.crossconnect
        state = next((one.state for one in switch.readings if one.crossconnect == pair), None)
        held = [end for end in pair.ends if end in switch.blocked]
        if state is None:
            stop = f"{switch.switch} does not have {pair}"
        elif held:
            stop = f"{switch.switch} holds {', '.join(held)} dark by an override"
        elif state in STOPPED:
            stop = f"{switch.switch} reports {pair} {STOPPED[state]}"
    if not monitored or name not in switch.power_dbm:
        return _Point(place=place, stop=stop)
    power_dbm = switch.power_dbm[name]
    if age_s is not None:
        return _Point(place=place, power=Power(at=at, dbm=(power_dbm,), age_s=age_s), stop=stop)
    return _Point(
        place=place,
        dark=power_dbm is None,
        total_dbm=power_dbm,
        power=Power(at=at, dbm=(power_dbm,)),
        stop=stop,
    )


def _between(
    lit: _Point, dark: _Point, points: Sequence[_Point], powers: tuple[Power, ...], *, known: bool
) -> LostLight:
    """Light is lost after `lit`, the last place where it was seen, if it was (`known`)."""
    first, last = points[0], points[-1]
    steps = points.index(dark) - points.index(lit)
    near = None
    if lit is first and steps <= 2:  # the fibre, or the first switch if that has no monitor where light enters
        near = _port(first)
    elif dark is last and steps == 1:
        near = _port(last)
    crossconnect = dark.place.crossconnect
    if not known:
        why = f"no light at {dark.at}, and nothing is known of it before"
    elif crossconnect is not None and steps == 1:
        why = f"light is lost inside {crossconnect.switch}, in {crossconnect.crossconnect}"
    else:
        why = f"light is lost between {lit.at} and {dark.at}"
    return LostLight(why=why, powers=powers, near=near)


def _weak(point: _Point, lit: _Point | None, module: Module) -> str:
    """Text for light that arrives and is below loss of signal; empty where that is not known."""
    limit = f"below loss of signal ({module.los_deassert_dbm:g} dBm)"
    if point.power is not None and (some := [power for power in point.power.dbm if power is not None]):
        return f"the light at {point.at} is {limit}" if min(some) < module.los_deassert_dbm else ""
    if lit is None or (expected_dbm := _expected_dbm(lit, point, module)) >= module.los_deassert_dbm:
        return ""
    return f"the light at {lit.at} leaves about {expected_dbm:.1f} dBm a lane for {point.at}, {limit}"


def _expected_dbm(lit: _Point, receiver: _Point, module: Module) -> float:
    """The power of one of equal lanes at the receiver, at the greatest stated loss after `lit`."""
    assert lit.total_dbm is not None
    shares_db = 0.0 if receiver.place.end.lane else 10 * log10(module.lanes)
    return lit.total_dbm - shares_db - (receiver.place.loss_db_max - lit.place.loss_db_max)


def _excess(lit: Sequence[_Point]) -> str:
    """`; 17.5 dB are lost between ...`: the greatest loss over the stated one; empty where none is."""
    worst, text = 0.0, ""
    for before, after in pairwise(lit):
        assert before.total_dbm is not None
        assert after.total_dbm is not None
        lost_db = before.total_dbm - after.total_dbm
        stated_db = after.place.loss_db_max - before.place.loss_db_max
        by_module = Side.TX is before.place.end.side or Side.RX is after.place.end.side
        over_db = lost_db - stated_db - (MODULE_MONITOR_DB if by_module else MONITOR_DB)
        if over_db > worst:
            worst = over_db
            text = (
                f"; {lost_db:.1f} dB are lost between {before.at} and {after.at}, at most {stated_db:.1f} dB are stated"
            )
    return text


def _port(point: _Point) -> NicPortId:
    return NicPortId(host=point.place.end.owner, port=point.place.end.port)
