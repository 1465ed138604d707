"""Builds the timeline of one reconfiguration from the data of its documents."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET, UnsetType

from hwd.model.host import ClockStepped, HostEvent
from hwd.model.instant import Instant, InstantName, Knowledge, Origin
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationStarted, StartedLink
from hwd.model.timeline import EndTimeline, LinkTimeline, SwitchCommand, Timeline
from hwd.timeline.end import end_timeline, falls_after_ready, falls_of_kept
from hwd.timeline.host_action import HostAction
from hwd.timeline.port_observation import PortObserver
from hwd.timeline.rules import breaches
from hwd.timeline.stage import stages
from hwd_agents.wire import Observation

DAEMON = "daemon"
"""Source of the instants that the daemon stamps: first byte sent, answer complete. Where a host drove its own switch,
the data name it.
"""


def build_timeline(
    *,
    started: ReconfigurationStarted,
    commanded: Sequence[ReconfigurationCommanded],
    events: Iterable[HostEvent],
    sampled: Mapping[str, Mapping[str, Observation]],
    switch_origins: Mapping[str, Origin],
    actions: Sequence[HostAction] = (),
    dwells_s: Mapping[str, float] | None = None,
    clock_steps: Sequence[ClockStepped] = (),
) -> Timeline:
    """Build it from the documents of a reconfiguration and of its hosts, and what the agents say that they sampled.

    Each link of `started` names its `switches`, or its `crossconnects` (`ocs1:1A-2B`): only a switch that had to add
    something for it counts; a link that names neither waits for every switch that moved. `sampled`: see `PortObserver`.
    `switch_origins`: the origin of the answers of each switch, since a twin's are drawn; a switch that is missing is
    hardware. `actions`: settings of NIC ports that were changed meanwhile. `dwells_s` by link text. `clock_steps`: by
    host; each is reported as a breach, with the violations of order that it causes, and widens no bound to hide them.
    """
    observed = PortObserver(started.reconfiguration, events, sampled)
    by_step = _commands(commanded, switch_origins)
    commands = [command for of_step in by_step.values() for command in of_step]
    since_ns = min((command.commanded.earliest_ns or 0 for command in commands), default=0)
    ends: list[EndTimeline] = []
    links: list[LinkTimeline] = []
    broken: list[str] = []
    explained: list[str] = []
    for command in commands:
        broken += breaches(command.switch, _by_name([command.commanded, command.acknowledged]))
    added = {move.switch: frozenset(f"{move.switch}:{one}" for one in move.add) for move in started.moves}
    for entry in started.links:
        link, kept = entry.link, entry.kept
        switches = _switches(entry, added)
        sent, answered = _switch_instants(kept, switches, by_step.get(entry.step, []))
        link_since_ns = sent.earliest_ns if sent.knowledge is Knowledge.SEEN else since_ns
        both = []
        for id in link.ends:
            port = observed.port(id)
            end = end_timeline(link, port, since_ns=link_since_ns, kept=kept)
            both.append(end)
            broken += breaches(id, _by_name([sent, *end.instants]))
            falls = (
                falls_of_kept(link, port, since_ns=link_since_ns, actions=actions)
                if kept
                else falls_after_ready(end, port, actions)
            )
            broken += falls.broken
            explained += falls.explained
        instants = (sent, answered, *(_roll_up(name, both) for name in InstantName if name not in _OF_SWITCHES))
        dwell_s = (dwells_s or {}).get(link)
        ends += both
        links.append(
            LinkTimeline(
                link=link,
                kept=kept,
                instants=instants,
                stages=stages(_by_name(instants)),
                dwell_s=dwell_s,
                switches=switches,
            )
        )
    return Timeline(
        reconfiguration=started.reconfiguration,
        run=started.run,
        what=started.what,
        commands=commands,
        ends=ends,
        links=links,
        breaches=[
            *observed.unreadable,
            *(step.text(zero_ns=since_ns) for step in clock_steps),
            *broken,
        ],
        explained=explained,
        sweep=started.sweep,
        settings=started.settings,
    )


_OF_SWITCHES = (InstantName.COMMANDED, InstantName.ACKNOWLEDGED)


def _commands(
    commanded: Sequence[ReconfigurationCommanded], origins: Mapping[str, Origin]
) -> dict[int | UnsetType, list[SwitchCommand]]:
    """The commands by step of the plan, one for each switch; several exchanges with one switch count as one command,
    from the first byte to the last answer.
    """
    parts: dict[tuple[int | UnsetType, str], list[ReconfigurationCommanded]] = {}
    for one in commanded:
        parts.setdefault((one.step, one.switch), []).append(one)
    by_step: dict[int | UnsetType, list[SwitchCommand]] = {}
    for (step, switch), some in parts.items():
        by_step.setdefault(step, []).append(_command(switch, some, origins))
    return by_step


def _command(switch: str, parts: list[ReconfigurationCommanded], origins: Mapping[str, Origin]) -> SwitchCommand:
    sent_ns = [part.commanded_ns for part in parts if part.commanded_ns is not None]
    answered_ns = [part.acknowledged_ns for part in parts if part.acknowledged_ns is not None]
    origin = origins.get(switch, Origin.MEASURED)
    source, error_ns = parts[0].source or DAEMON, max(part.error_ns or 0 for part in parts)
    if not sent_ns:
        commanded = Instant.unknown(InstantName.COMMANDED, f"nothing was sent to {switch}")
    else:
        commanded = _stamp(InstantName.COMMANDED, min(sent_ns), Origin.MEASURED, source, error_ns)
    if len(answered_ns) < len(parts):
        acknowledged = Instant.unknown(InstantName.ACKNOWLEDGED, f"{switch} did not answer")
    else:
        acknowledged = _stamp(InstantName.ACKNOWLEDGED, max(answered_ns), origin, source, error_ns)
    count = sum(part.commands for part in parts)
    return SwitchCommand(
        switch=switch,
        commands=count,
        instants=(commanded, acknowledged),
        made=parts[0].made,
        removed=parts[0].removed,
    )


def _stamp(name: InstantName, at_ns: int, origin: Origin, source: str, error_ns: int) -> Instant:
    """Make an instant by the clock of the process that drives the switch; a host's clock is known to an error."""
    return Instant.seen(
        name,
        earliest_ns=at_ns - error_ns,
        latest_ns=at_ns + error_ns,
        best_ns=at_ns,
        source=source,
        origin=origin,
    )


def _switches(link: StartedLink, added: Mapping[str, frozenset[str]]) -> list[str]:
    """Switches that had to add a crossconnect of this link. `added`: those of each switch that moved, `ocs1:1A-2B`."""
    if link.crossconnects is UNSET:
        moved = [switch for switch, crossconnects in added.items() if crossconnects]
        return [switch for switch in moved if link.switches is UNSET or switch in link.switches]
    return [switch for switch, crossconnects in added.items() if not crossconnects.isdisjoint(link.crossconnects)]


def _switch_instants(kept: bool, switches: Sequence[str], commands: Sequence[SwitchCommand]) -> tuple[Instant, Instant]:
    """The earliest `commanded` and the latest `acknowledged` of the switches that count for a link."""
    if kept:
        never = (Instant.never_left(name, "kept link") for name in _OF_SWITCHES)
        return next(never), next(never)
    by_switch = {command.switch: command for command in commands}
    if missing := [switch for switch in switches if switch not in by_switch]:
        why = f"no command is recorded for {', '.join(missing)}"
    elif not switches:
        why = "no switch had to move for it"
    else:
        used = [by_switch[switch] for switch in switches]
        return (
            _extreme(InstantName.COMMANDED, [(command.switch, command.commanded) for command in used], latest=False),
            _extreme(InstantName.ACKNOWLEDGED, [(c.switch, c.acknowledged) for c in used], latest=True),
        )
    return Instant.unknown(InstantName.COMMANDED, why), Instant.unknown(InstantName.ACKNOWLEDGED, why)


def _roll_up(name: InstantName, ends: Sequence[EndTimeline]) -> Instant:
    return _extreme(name, [(end.end, end.instant(name)) for end in ends], latest=name is not InstantName.DARK)


def _extreme(name: InstantName, subjects: Sequence[tuple[str, Instant]], *, latest: bool) -> Instant:
    """The earliest or latest of some instants; unknown if one is unknown; those that never left do not
    count unless all did.
    """
    unknown = [f"{subject}: {one.why}" for subject, one in subjects if one.knowledge is Knowledge.UNKNOWN]
    if unknown:
        return Instant.unknown(name, "; ".join(unknown))
    seen = [(subject, one) for subject, one in subjects if one.knowledge is Knowledge.SEEN]
    never = [f"{subject}: {one.why}" for subject, one in subjects if one.knowledge is Knowledge.NEVER_LEFT]
    if not seen:
        whys = dict.fromkeys(one.why for _, one in subjects)
        return Instant.never_left(name, never[0].partition(": ")[2] if len(whys) == 1 else "; ".join(never))
    pick = max if latest else min
    deciding, decider = pick(seen, key=lambda pair: pair[1].at_ns)
    origin = decider.origin
    for _, one in seen:
        origin = origin.weakest(one.origin)
    return Instant.seen(
        name,
        earliest_ns=pick(one.earliest_ns for _, one in seen),
        latest_ns=pick(one.latest_ns for _, one in seen),
        best_ns=decider.at_ns,
        source=f"{deciding} {decider.source}",
        origin=origin,
        sampling_ns=max(one.sampling_ns for _, one in seen),
        why="; ".join(f"never left at {text}" for text in never),
    )


def _by_name(instants: Iterable[Instant]) -> dict[InstantName, Instant]:
    return {instant.name: instant for instant in instants}
