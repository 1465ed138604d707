"""One end of a link: which observation is chosen for each instant, and what the absence of one means.

The rules:
- `dark` is the first loss of light after the command, `ready` the first transfer;
- `light`, `firmware`, `carrier`, `rdma` are the last rise after the command that may not be after `ready`; a fall that
  may be after `ready` does not belong to this reconfiguration, and one that surely is gets reported separately;
- of several sources that saw one instant, the one of the best origin is chosen, then the narrowest interval, then the
  earliest;
- a state whose source says that it is down at the end is unknown, and so is one that no source watched;
- never left: there was no change, the agent watched it, and reports that it was never lost.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from hwd.model.instant import Instant, InstantName, Knowledge, Origin
from hwd.model.link import Link
from hwd.model.plural import plural
from hwd.model.timeline import END_INSTANTS, EndTimeline
from hwd.timeline.host_action import HostAction, taken_down_by
from hwd.timeline.port_observation import Change, PortObserved

_UPS = (InstantName.LIGHT, InstantName.FIRMWARE, InstantName.CARRIER, InstantName.RDMA)
_NS_IN_MS = 1e6
WAS_DOWN, NO_EVENT, NO_TRANSFER = "down when", "no event reports it", "no transfer succeeded"
"""How the reason of an unknown instant begins whose state was watched, and did not come."""


def end_timeline(link: Link, port: PortObserved, *, since_ns: int, kept: bool) -> EndTimeline:
    """`since_ns`: the earliest time at which the link was commanded; anything that is surely earlier does not count."""
    changes = [change for change in port.changes if change.event.latest_ns >= since_ns]
    if kept and all(change.up for change in changes):
        instants = tuple(Instant.never_left(name, "kept link") for name in END_INSTANTS)
        return EndTimeline(link=link, end=port.id, instants=instants, observations=())
    observations = list(_observations(changes))
    chosen = []
    for name in END_INSTANTS:
        candidates = [instant for instant in observations if instant.name is name]
        chosen.append(min(candidates, key=_rank) if candidates else _unseen(name, port, changes))
    carrier = chosen[END_INSTANTS.index(InstantName.CARRIER)]
    return EndTimeline(
        link=link,
        end=port.id,
        instants=tuple(chosen),
        observations=tuple(observations),
        rc=UNSET if port.rc is None else port.rc.with_carrier(carrier),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Falls:
    """Texts of unexpected falls. `explained`: those that a run caused by a setting of the link's NIC ports."""

    broken: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()


def falls_after_ready(end: EndTimeline, port: PortObserved, actions: Sequence[HostAction]) -> Falls:
    """Falls after the first transfer: one text for each source that saw them."""
    ready = end.instant(InstantName.READY)
    if ready.knowledge is not Knowledge.SEEN:
        return Falls()
    found = []
    for name in _UPS:
        for source, changes in _by_source(change for change in port.changes if change.name is name):
            falls = [change for change in changes if not change.up and change.event.earliest_ns > ready.latest_ns]

            def words(falls: Sequence[Change], name: InstantName = name, source: str = source) -> str:
                after_ms = (falls[0].instant(name).at_ns - ready.at_ns) / _NS_IN_MS
                count = plural(len(falls), "time")
                return f"{end.end}: {name} fell again {after_ms:.3f} ms after ready ({source}, {count})"

            found.append(_split_falls(falls, end.link, actions, words))
    return Falls(
        broken=tuple(text for one in found for text in one.broken),
        explained=tuple(text for one in found for text in one.explained),
    )


def falls_of_kept(link: Link, port: PortObserved, *, since_ns: int, actions: Sequence[HostAction]) -> Falls:
    """The first fall after `since_ns` on a kept link."""
    falls = [change for change in port.changes if not change.up and change.event.earliest_ns >= since_ns]
    return _split_falls(
        falls,
        link,
        actions,
        lambda falls: f"{port.id}: kept link {link} lost its {falls[0].name} ({falls[0].event.source})",
    )


def _split_falls(
    falls: Iterable[Change], link: Link, actions: Sequence[HostAction], words: Callable[[Sequence[Change]], str]
) -> Falls:
    broken: list[Change] = []
    planned: list[Change] = []
    causes: list[HostAction] = []
    for fall in falls:
        cause = taken_down_by(actions, link, earliest_ns=fall.event.earliest_ns, latest_ns=fall.event.latest_ns)
        if cause is None:
            broken.append(fall)
        else:
            planned.append(fall)
            causes.append(cause)
    return Falls(
        broken=(words(broken),) if broken else (),
        explained=(f"{words(planned)}: {causes[0].port} was set, {causes[0].words}",) if planned else (),
    )


def _observations(changes: list[Change]) -> Iterable[Instant]:
    """Find the one observation of each instant by each source that saw it."""
    for _, darks in _by_source(change for change in changes if change.name is InstantName.LIGHT and not change.up):
        yield darks[0].instant(InstantName.DARK)
    readies = [change for change in changes if change.name is InstantName.READY]
    ready = min(readies, key=lambda change: change.event.latest_ns, default=None)
    for name in _UPS:
        for _, seen in _by_source(change for change in changes if change.name is name):
            up = _last_up(seen, ready)
            if up is not None:
                yield up.instant(name)
    for _, transfers in _by_source(readies):
        yield transfers[0].instant(InstantName.READY)


def _last_up(changes: Sequence[Change], ready: Change | None) -> Change | None:
    """The rise that was followed by `ready`; else the first one after it. None where the state was down at the end."""
    latest_ns = None if ready is None else ready.event.latest_ns
    ups = [index for index, change in enumerate(changes) if change.up]
    before = [index for index in ups if latest_ns is None or changes[index].event.earliest_ns <= latest_ns]
    if before:
        fall = next((change for change in changes[before[-1] :] if not change.up), None)
        if fall is None or (ready is not None and fall.event.latest_ns >= ready.event.earliest_ns):
            return changes[before[-1]]
    return next((changes[index] for index in ups if index not in before), None)


def _unseen(name: InstantName, port: PortObserved, changes: list[Change]) -> Instant:
    state = InstantName.LIGHT if name is InstantName.DARK else name
    lost = f"; {plural(port.lost, 'event')} of {port.id.host} lost" if port.lost else ""
    if name is InstantName.READY and port.wrong_peer:
        return Instant.unknown(name, port.wrong_peer)
    own = [change for change in changes if change.name is state]
    if own and name is InstantName.DARK:
        return Instant.unknown(name, f"{own[0].event.source} saw the return of the light only{lost}")
    if own:
        return Instant.unknown(name, f"{WAS_DOWN} {own[-1].event.source} last saw it{lost}")
    watch = port.watches.get(state)
    if watch is None:
        silence = (
            f"no source for {state}" if port.settled else f"the agent of {port.id.host} did not say what it watched"
        )
        return Instant.unknown(name, f"{silence}{lost}")
    if not watch.seen and state is not InstantName.READY:
        return Instant.unknown(name, f"{watch.why_not or 'it could not be looked at'}{lost}")
    how = f"{plural(watch.looks, 'sample')}, longest gap {watch.longest_gap_ns / _NS_IN_MS:.3f} ms"
    if state is InstantName.READY:
        return Instant.unknown(name, f"{NO_TRANSFER} in {plural(watch.looks, 'try', many='tries')}{lost}")
    never_lost = watch.at_begin is True and watch.now is True and watch.lost == 0
    if never_lost and not port.lost:
        return Instant.never_left(name, f"never away in {how}")
    return Instant.unknown(name, f"{NO_EVENT} ({how}){lost}")


def _rank(instant: Instant) -> tuple[int, int, int, str]:
    return (
        list(Origin).index(instant.origin),
        instant.latest_ns - instant.earliest_ns,
        instant.earliest_ns,
        instant.source,
    )


def _by_source(changes: Iterable[Change]) -> list[tuple[str, list[Change]]]:
    sources: dict[str, list[Change]] = {}
    for change in changes:
        sources.setdefault(change.event.source, []).append(change)
    return sorted(sources.items())
