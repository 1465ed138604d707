"""ReadyWait: the wait for ready links, and the reasons why links are not ready.

A wait ends early where a switch or all agents are unreachable, or where a port has no interface: then a link cannot
become ready, or nobody would report it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet

from hwd.fabric.diagnosis import Transfers
from hwd.model.circuit import Observed
from hwd.model.hang import Hang
from hwd.model.host import HostEvent
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plan import PlannedLink
from hwd.model.plural import plural
from hwd.rack.links import Links
from hwd.reconfigure.apply.agent_watch import AgentWatch
from hwd.reconfigure.apply.reconfiguration import Outcome, Reconfiguration
from hwd.reconfigure.apply.switches import Switches
from hwd_agents.wire.events import CarrierData, LightData, WrongPeerData
from hwd_drivers.core.errors import NotReadyError, NotRolledBackError
from hwd_drivers.core.values import Crossconnect, CrossconnectState, natural_key
from hwd_drivers.switching.moves import SwitchMoves

SWITCH_AWAY_S = 2.0
"""A switch that only lost its session is connected again by then: the first attempts come within 1.5 s."""
AGENTS_AWAY_S = 5.0
"""Agents that restart, or connect to a restarted broker, are back by then."""
INTERFACE_AWAY_S = 5.0
"""An interface that its driver makes anew, as after a reset of its firmware, is back by then."""
LOOK_S = 0.25

DARKENED = {CrossconnectState.FAILED: "as failed", CrossconnectState.BLOCKED: "as held dark"}
"""States in which a crossconnect carries no light, as text."""

NAMED = 8
"""The most links, and ports where something fell, that are named; the rest is a number."""


class ReadyWait:
    """Waits for the links of reconfigurations on one testbed."""

    def __init__(self, switches: Switches, agent_watch: AgentWatch, links: Links) -> None:
        self._switches = switches
        self._agent_watch = agent_watch
        self._links = links

    async def wait(self, reconfiguration: Reconfiguration, *, within_s: float) -> str | None:
        """Wait until all links are ready or somebody ends the reconfiguration; returns why they are not ready, else
        None.
        """
        id, loop = reconfiguration.id, asyncio.get_running_loop()
        since_s = loop.time()
        watch = asyncio.create_task(self._agent_watch.keep(reconfiguration), name=f"hwd:reconfigure/observe-{id}")
        ready = asyncio.create_task(reconfiguration.all_ready_or_ending(), name=f"hwd:reconfigure/ready-{id}")
        away = asyncio.create_task(self._lasting_absence(reconfiguration), name=f"hwd:reconfigure/away-{id}")
        try:
            await asyncio.wait([ready, away], timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            is_ready, is_given_up = ready.done(), away.done()
            if is_given_up:
                away.result()
        finally:
            for task in (watch, ready, away):
                task.cancel()
            await asyncio.gather(watch, ready, away, return_exceptions=True)
        if is_ready:
            return None
        given_up_after_s = loop.time() - since_s if is_given_up else None
        reconfiguration.hangs = self._found(reconfiguration)
        return self._why_not_ready(reconfiguration, within_s=within_s, given_up_after_s=given_up_after_s)

    def _why_not_ready(
        self, reconfiguration: Reconfiguration, *, within_s: float, given_up_after_s: float | None
    ) -> str:
        hangs = {hang.link: hang for hang in reconfiguration.hangs}
        links = reconfiguration.not_ready
        late = ", ".join(self._link_text(link, hangs.get(link)) for link in links[:NAMED])
        if (more := len(links) - NAMED) > 0:
            late += f" and {plural(more, 'more link')}"
        if given_up_after_s is None:
            why = f"not ready within {within_s:g} s: {late}"
        else:
            why = f"not ready, and given up after {given_up_after_s:.1f} of {within_s:g} s: {late}"
        switches = sorted(reconfiguration.switches, key=natural_key)
        if away := [*self._agent_watch.silent(reconfiguration), *self._switches.away(switches)]:
            why += f". Nothing was heard of {'; '.join(away)}"
        if between := self._interruptions(reconfiguration):
            why += f". Meanwhile: {'; '.join(between)}"
        return why

    def _found(self, reconfiguration: Reconfiguration) -> tuple[Hang, ...]:
        """Where the links hang that are not ready, as far as that is known."""
        transfers = Transfers(ready=reconfiguration.ready, wrong_peers=_wrong_peers(reconfiguration))
        late = [one.routed for one in reconfiguration.plan.links if one.routed.link in reconfiguration.not_ready]
        hangs = (self._links.hang(one, transfers=transfers) for one in late)
        return tuple(hang for hang in hangs if hang is not None)

    def _link_text(self, link: Link, hang: Hang | None) -> str:
        """A link with its ends that have no interface, `h0.eth0<->h1.eth0 (h0.eth0: there is no interface eth0)`, else
        with where it hangs.
        """
        missing = "; ".join(f"{end}: {why}" for end, why in self._agent_watch.missing(link).items())
        why = missing or (hang.words if hang is not None else "")
        return f"{link} ({why})" if why else link

    def _interruptions(self, reconfiguration: Reconfiguration) -> list[str]:
        """Absences, fallen light and lost crossconnects since the start, as text."""
        plan, zero_ns = reconfiguration.plan, reconfiguration.started_ns
        absences = [one.text(zero_ns=zero_ns) for one in reconfiguration.absences.over()]
        fell = _falls(reconfiguration.events, plan.links, zero_ns=zero_ns)
        reachable = {
            name: latest for name, latest in self._switches.latest().items() if not self._switches.away((name,))
        }
        steps = [] if plan.order is None else plan.order.steps[reconfiguration.step :]
        to_come = {(move.switch, one) for step in steps for move in step.moves for one in move.add}
        return [*absences, *fell, *_gone(reachable, plan.moves, to_come)]

    async def _lasting_absence(self, reconfiguration: Reconfiguration) -> None:
        """Wait until a switch of links that are not ready, an interface or all agents have been away for too long."""
        loop = asyncio.get_running_loop()
        since_s: dict[str, float] = {}
        while True:
            within_s = dict.fromkeys(self._switches_away(reconfiguration), SWITCH_AWAY_S)
            if self._agent_watch.all_away(reconfiguration):
                within_s["their agents"] = AGENTS_AWAY_S
            missing = [end for link in reconfiguration.not_ready for end in self._agent_watch.missing(link)]
            within_s |= dict.fromkeys(missing, INTERFACE_AWAY_S)
            since_s = {what: since_s.get(what, loop.time()) for what in within_s}
            if any(loop.time() - since_s[what] >= seconds for what, seconds in within_s.items()):
                return
            await asyncio.sleep(LOOK_S)

    def _switches_away(self, reconfiguration: Reconfiguration) -> list[str]:
        """Unreachable switches of links that are not ready, those of the daemon only."""
        pending = [one for one in reconfiguration.plan.links if one.routed.link in reconfiguration.not_ready]
        switches = {over.switch for one in pending for over in one.routed.crossconnects}
        return [
            name for name in sorted(switches & reconfiguration.switches, key=natural_key) if self._switches.away([name])
        ]


def not_ready_error(reconfiguration: Reconfiguration) -> NotReadyError:
    """The error for links that were not ready in time: the outcome, and where to look."""
    look = f"`hwd watch --after 0 --kind timeline` has its timeline ({reconfiguration.id}): which stage was not reached"
    said = f"reconfiguration {reconfiguration.id} ({reconfiguration.plan.what}): {reconfiguration.why}"
    if not reconfiguration.journaled:
        return NotReadyError(f"{said}. No switch had been moved, so none was moved back; {look}")
    if reconfiguration.outcome is Outcome.FAILED:
        return NotRolledBackError(
            f"{said}. The journal holds it open, and it is tried again until it is done; {look}",
            switches=reconfiguration.not_back,
        )
    return NotReadyError(f"{said}. Outcome: {reconfiguration.outcome}. {look}")


def _falls(events: Iterable[HostEvent], links: Iterable[PlannedLink], *, zero_ns: int) -> Iterator[str]:
    """Where light fell again, or the carrier at ports without light readings: `light fell at h0.eth0 (2.014 s)`.

    Light of a link that moves falls once by the move itself; that fall is left out.
    """
    links = list(links)
    ends: dict[str, bool] = {end: planned.kept for planned in links for end in planned.routed.link.ends}
    at_ends = [event for event in events if _port(event) in ends]
    # sorted, since events of an earlier boot of an agent come late
    events = sorted(at_ends, key=lambda event: event.latest_ns)

    def find(fallen: Callable[[HostEvent], bool | None]) -> Iterator[tuple[str, float]]:
        there = dict(ends)
        for event in events:
            port = _port(event)
            match fallen(event):
                case True if there[port]:
                    there[port] = False
                    yield port, (event.latest_ns - zero_ns) / 1e9
                case False:
                    there[port] = True

    light = list(find(_dark))
    seen = {_port(event) for event in events if _dark(event) is not None}
    carrier = [one for one in find(_without_carrier) if one[0] not in seen]
    for what, found in (("light", light), ("carrier", carrier)):
        if found:
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            yield f"{what} fell at {', '.join(f'{port} ({at_s:.3f} s)' for port, at_s in found[:NAMED])}{more}"


def _gone(
    observed: Observed, moves: Iterable[SwitchMoves], to_come: AbstractSet[tuple[str, Crossconnect]]
) -> Iterator[str]:
    """Wanted crossconnects that a switch reports as dark or not at all: `ocs1 reports 1A-4B no more`. Those `to_come`
    were not commanded yet.
    """
    for move in moves:
        if (readings := observed.get(move.switch)) is None:
            continue
        states = {reading.crossconnect: reading.state for reading in readings}
        found: dict[str, list[str]] = {}
        for one in (*move.add, *move.keep):
            state = states.get(one)
            if state is None and (move.switch, one) in to_come:
                continue
            if (how := "no more" if state is None else DARKENED.get(state)) is not None:
                found.setdefault(how, []).append(one)
        for how, ones in found.items():
            yield f"{move.switch} reports {', '.join(ones)} {how}"


def _wrong_peers(reconfiguration: Reconfiguration) -> dict[NicPortId, str]:
    """The port that answered the probe of each end in place of the peer."""
    return {
        NicPortId(host=event.host, port=event.port): f"the peer is {data.found}, and should be {data.expected}"
        for event in reconfiguration.events
        if event.port is not None
        and isinstance(data := event.data, WrongPeerData)
        and data.reconfiguration == reconfiguration.id
    }


def _port(event: HostEvent) -> str:
    return f"{event.host}.{event.port}"


def _dark(event: HostEvent) -> bool | None:
    return event.type == "dark" if isinstance(event.data, LightData) else None


def _without_carrier(event: HostEvent) -> bool | None:
    return not event.data.carrier if isinstance(event.data, CarrierData) else None
