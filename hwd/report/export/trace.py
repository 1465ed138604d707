"""A run as a Perfetto trace: a track for each link under its switch and for each port under its host, flows from
commands to their effects.
"""

import heapq
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

from hwd.model.host import ClockAligned, HostEvent
from hwd.model.instant import Instant, InstantName, Knowledge
from hwd.model.reconfiguration import ReconfigurationFact
from hwd.model.recorded_run import Run
from hwd.model.run import RunStatus
from hwd.model.run_facts import RunStep
from hwd.report.export.tracks import Notes, Tracks, id_of
from hwd.report.figures.bars import bars
from hwd.report.reconfigurations import Reassembly, RecordedReconfiguration
from hwd.timeline import EndTimeline, LinkTimeline, SwitchCommand, Timeline
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchPower, SwitchRead

SLACK_NS = 1_000_000_000
"""How much earlier than the beginning of its reconfiguration an instant can be: by the bounds of its clock."""
STEPPED_NS = 1_000_000
"""A larger change of the wall clock is a step, a smaller one is slewing."""
_NS_IN_S = 1e9
_STEPS, _RECONFIGURATIONS, _SWITCHES, _HOSTS = range(4)
_DRAWN_APART = (RunStep, RunStatus, HostEvent, SwitchPower, SwitchRead, ClockAligned, ReconfigurationFact)


def perfetto(run: Run, documents: Iterable[Document], to: BinaryIO) -> None:
    """Opens in ui.perfetto.dev. Memory is bounded by the longest reconfiguration. Raises ConfigError
    without the extra `export`.
    """
    _Story(run, to).tell(documents)


class _Lanes:
    """Parallel tracks for things that may happen at once: each takes the first that is free."""

    def __init__(self, tracks: Tracks, name: str, rank: int) -> None:
        self._tracks, self._name, self._rank = tracks, name, rank
        self._free: list[int] = []
        self._made = 0

    def take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._made += 1
        return self._made

    def give(self, lane: int) -> None:
        heapq.heappush(self._free, lane)

    def track(self, lane: int) -> int:
        return self._tracks.track(self._name if lane == 1 else f"{self._name} {lane}", rank=self._rank)


class _Story:
    def __init__(self, run: Run, to: BinaryIO) -> None:
        self._run = run
        self._tracks = Tracks(to, root=f"run {run.id}")
        self._reassembly = Reassembly(run)
        self._steps = _Lanes(self._tracks, "steps", _STEPS)
        self._step_lanes: dict[str, int] = {}
        self._reconfigurations = _Lanes(self._tracks, "reconfigurations", _RECONFIGURATIONS)
        self._lane_of: dict[str, int] = {}
        self._lit: set[tuple[str, str]] = set()
        self._dark: set[tuple[str, str]] = set()
        self._last_ns = 0

    def tell(self, documents: Iterable[Document]) -> None:
        run = self._run
        time = "virtual time" if run.virtual_time else "real time"
        self._tracks.track(says=f"{run.playbook} on {run.testbed}, {time}, hwd {run.version}")
        for document in documents:
            self._last_ns = max(self._last_ns, document.at_ns)
            self._tracks.clock(document.at_ns, document.wall_ns, within_ns=STEPPED_NS)
            self._take(document)
            since_ns = self._reassembly.open_since_ns
            self._tracks.write_until((document.at_ns if since_ns is None else since_ns) - SLACK_NS)
        for one in self._reassembly.rest():
            self._reconfigured(one)
        for lane in self._step_lanes.values():
            self._tracks.end(self._steps.track(lane), self._last_ns)
        for switch, end in sorted(self._dark):
            self._tracks.end(self._power(switch, end, dark=True), self._last_ns)
        self._tracks.close()

    def _take(self, document: Document) -> None:
        fact = document.fact
        match fact:
            case RunStep():
                self._step(document.at_ns, fact)
            case SwitchPower():
                self._powers(document.at_ns, fact)
            case ReconfigurationFact(reconfiguration=id) if id not in self._lane_of:
                self._lane_of[id] = self._reconfigurations.take()
        if not isinstance(fact, _DRAWN_APART):
            data = fact.to_data()
            self._tracks.instant(self._place(data), document.kind, document.at_ns, data)
        if (one := self._reassembly.take(document)) is not None:
            self._reconfigured(one)

    def _place(self, data: Mapping[str, Any]) -> int:
        for key, rank in (("switch", _SWITCHES), ("host", _HOSTS)):
            if isinstance(name := data.get(key), str):
                return self._tracks.track(f"{key} {name}", rank=rank)
        return self._tracks.track("documents", rank=_STEPS)

    def _step(self, at_ns: int, step: RunStep) -> None:
        key = f"{step.branch or ''}{step.step}"
        if step.state == "started":
            lane = self._step_lanes[key] = self._steps.take()
            notes = {"step": key, "total": step.total, "expected_s": step.expected_s}
            self._tracks.begin(self._steps.track(lane), step.what, at_ns, notes)
        elif (started := self._step_lanes.pop(key, None)) is not None:
            if step.state != "done":
                self._tracks.instant(self._steps.track(started), f"step {step.state}", at_ns, {"step": key})
            self._tracks.end(self._steps.track(started), at_ns)
            self._steps.give(started)

    def _powers(self, at_ns: int, power: SwitchPower) -> None:
        """A counter has no absent value: while there is no light it keeps its last value, and a parallel track says
        that it is dark. A port that never had light has none.
        """
        switch = power.switch
        for end, power_dbm in power.power_dbm.items():
            place = (switch, end)
            if power_dbm is not None:
                self._lit.add(place)
                if place in self._dark:
                    self._dark.remove(place)
                    self._tracks.end(self._power(switch, end, dark=True), at_ns)
                self._tracks.value(self._power(switch, end), at_ns, power_dbm)
            elif place in self._lit and place not in self._dark:
                self._dark.add(place)
                self._tracks.begin(self._power(switch, end, dark=True), "dark", at_ns)

    def _power(self, switch: str, end: str, *, dark: bool = False) -> int:
        self._switch(switch)
        if dark:
            return self._tracks.track(f"switch {switch}", f"power {end}, dark", rank=3)
        return self._tracks.track(f"switch {switch}", f"power {end}", rank=2, unit="dBm")

    def _switch(self, name: str) -> int:
        return self._tracks.track(f"switch {name}", rank=_SWITCHES)

    # --- reconfigurations

    def _reconfigured(self, one: RecordedReconfiguration) -> None:
        timeline = one.timeline
        lane = self._lane_of.pop(timeline.reconfiguration)
        self._states(one, lane)
        through = self._flows(one)
        for command in timeline.commands:
            self._command(command, one, lane, through.get(command.switch, ()))
        for link in timeline.links:
            if not link.kept:
                self._link(one, link)
        for end in timeline.ends:
            self._end(timeline, end, through)

    def _states(self, one: RecordedReconfiguration, lane: int) -> None:
        id = one.timeline.reconfiguration
        track = self._reconfigurations.track(lane)
        until_ns = one.ended_ns if one.ended_ns is not None else self._last_ns
        notes: Notes = {
            "reconfiguration": id,
            "outcome": one.outcome or "its end is not recorded",
            "why": one.why or None,
            "made": " ".join(f"{switch}:{count}" for switch, count in one.made.items()),
            "removed": " ".join(f"{switch}:{count}" for switch, count in one.removed.items()),
            "breaches": "; ".join(one.timeline.breaches) or None,
        }
        self._tracks.begin(track, one.timeline.what or id, one.started_ns, notes)
        states = [(at_ns, state) for at_ns, state in one.states if at_ns <= until_ns]
        for (at_ns, state), (end_ns, _) in zip(states, [*states[1:], (until_ns, "")], strict=True):
            self._tracks.slice(track, state, at_ns, end_ns)
        self._tracks.end(track, until_ns)
        self._reconfigurations.give(lane)

    def _flows(self, one: RecordedReconfiguration) -> dict[str, list[int]]:
        """The flows of each switch that was commanded, and for `""`, of all of them: a flow for each end that it
        affected.
        """
        commanded = {command.switch for command in one.timeline.commands if _seen(command.commanded)}
        flows: dict[str, list[int]] = {"": []}
        for end in one.timeline.ends:
            if not any(_seen(instant) for instant in end.instants):
                continue
            moved = commanded.intersection(one.switches.get(end.link) or commanded)
            flow = _flow(one.timeline, end)
            for switch in sorted(moved):
                flows.setdefault(switch, []).append(flow)
            if moved:
                flows[""].append(flow)
        return flows

    def _command(self, command: SwitchCommand, one: RecordedReconfiguration, lane: int, flows: Iterable[int]) -> None:
        """Add a command to the switch's own track; to parallel lanes for reconfigurations at the same time."""
        if not _seen(command.commanded):
            return
        timeline = one.timeline
        track = self._switch(command.switch)
        if lane > 1:
            track = self._tracks.track(f"switch {command.switch}", f"commands {lane}")
        notes = {
            "reconfiguration": timeline.reconfiguration,
            "commands": command.commands,
            "made": one.made.get(command.switch),
            "removed": one.removed.get(command.switch),
        }
        answered = command.acknowledged
        if _seen(answered):
            notes |= _notes(answered)
            self._tracks.slice(track, f"command {timeline.what}", command.commanded.at_ns, answered.at_ns, notes, flows)
        else:
            notes["acknowledged"] = answered.why
            self._tracks.instant(track, f"command {timeline.what}, no answer", command.commanded.at_ns, notes, flows)

    def _link(self, one: RecordedReconfiguration, link: LinkTimeline) -> None:
        """The stages of a link, one after the other, on a track under the first switch of its path."""
        parts = [bar for bar in bars(link) if bar.end_s != float("inf")]
        if not parts:
            return
        switches = one.switches.get(link.link) or tuple(one.made)
        name = link.link
        parent = [f"switch {switches[0]}"] if switches else []
        if parent:
            self._switch(switches[0])
        track = self._tracks.track(*parent, name, rank=1)
        start_ns = link.instant(InstantName.COMMANDED).at_ns
        notes: Notes = {
            "reconfiguration": one.timeline.reconfiguration,
            "outcome": one.outcome,
            "dwell_s": link.dwell_s,
            "switches": " ".join(switches),
            "stages": "; ".join(str(stage) for stage in link.stages),
        }
        self._tracks.begin(track, one.timeline.what or name, start_ns, notes)
        for bar in parts:
            self._tracks.slice(
                track,
                str(bar.stage or "unknown"),
                start_ns + round(bar.start_s * _NS_IN_S),
                start_ns + round(bar.end_s * _NS_IN_S),
                {"error_s": bar.error_s, "says": bar.title},
            )
        self._tracks.end(track, start_ns + round(parts[-1].end_s * _NS_IN_S))

    def _end(self, timeline: Timeline, end: EndTimeline, through: Mapping[str, list[int]]) -> None:
        """The instants of an end; the flow of its command passes through them and ends in the last."""
        self._tracks.track(f"host {end.end.host}", rank=_HOSTS)
        track = self._tracks.track(f"host {end.end.host}", end.end, rank=1)
        seen = sorted((one for one in end.instants if _seen(one)), key=lambda instant: instant.at_ns)
        flow = _flow(timeline, end)
        flows = [flow] if flow in through[""] else []
        for index, instant in enumerate(seen):
            last = index == len(seen) - 1
            notes = {"reconfiguration": timeline.reconfiguration, "link": end.link, **_notes(instant)}
            self._tracks.instant(
                track, str(instant.name), instant.at_ns, notes, () if last else flows, flows if last else ()
            )


def _flow(timeline: Timeline, end: EndTimeline) -> int:
    return id_of("flow", timeline.reconfiguration, end.link, end.end)


def _seen(instant: Instant) -> bool:
    return instant.knowledge is Knowledge.SEEN


def _notes(instant: Instant) -> dict[str, object]:
    return {
        "earliest_ns": instant.earliest_ns,
        "latest_ns": instant.latest_ns,
        "origin": str(instant.origin),
        "source": instant.source,
        "remark": instant.why or None,
    }
