"""The recorded times of each device, and from them the predicted time of a plan with those devices."""

import heapq
import random
from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.instant import Instant, InstantName, Knowledge
from hwd.model.link import Link
from hwd.model.plan import PlannedLink
from hwd.model.plan_summary import PlanOrder
from hwd.model.plural import plural
from hwd.model.prediction import P50_NEEDS, P99_NEEDS, PlanPrediction, PredictedTime
from hwd.model.timeline import Timeline
from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.moves import SwitchMoves

REMEMBERED: Final = 200
"""Observations of one device; older ones say little about today's rack, and p99 needs 99."""
READ_AT_ONCE: Final = 16
ENDS_READ_MOST: Final = 10_000
"""Ends of links that are read at a start, of the newest timelines: one of a large rack alone has a thousand."""
DRAWS: Final = 1000
"""Draws of the sum of several steps: ten lie above p99."""

Device = tuple[str, tuple[str, ...]]
"""A switch, `("ocs1", ())`, or a NIC port with the switches that moved for its link: `("h0.eth0", ("ocs1",))`."""


class DeviceTimes:
    """The last times of each device, in seconds. A sink, and read from the records after a restart.

    Of a switch: from its command to its answer. Of a NIC port: from the first command for its link until its own
    transfers succeeded.
    """

    TAKES: ClassVar = (Timeline,)

    def __init__(self) -> None:
        self._times: dict[Device, _Times] = {}

    async def load(self, records: Records) -> None:
        """Take the newest times that earlier processes of the daemon recorded."""
        before: int | None = None
        newest: list[Timeline] = []
        ends = 0
        while ends < ENDS_READ_MOST:
            older = await records.newest([Timeline.KIND], limit=READ_AT_ONCE, before=before)
            if not older:
                break
            found = [one.document.fact for one in older if isinstance(one.document.fact, Timeline)]
            ends += sum(1 + len(one.ends) for one in found)
            newest += found
            before = older[-1].id
        for timeline in reversed(newest):
            self._take(timeline)

    def __call__(self, document: Document) -> None:
        if isinstance(document.fact, Timeline):
            self._take(document.fact)

    def add(self, device: Device, seconds: float) -> None:
        """Take one observation."""
        if (times := self._times.get(device)) is None:
            times = self._times[device] = _Times()
        times.add(seconds)

    def predict(
        self,
        moves: Iterable[SwitchMoves],
        links: Iterable[PlannedLink],
        *,
        waits: bool,
        steps: PlanOrder | None = None,
    ) -> PlanPrediction:
        """The times of a plan: the largest of those of its devices, which are taken to be independent of each other.

        With `steps`, a step begins when the links of the one before it are ready, if the plan `waits` for that.
        """
        adds = {move.switch: frozenset(move.add) for move in moves if not move.is_empty}
        ends = {link.routed.link: _ends(link, adds) for link in links if not link.kept}
        if steps is None or len(steps.steps) < 2:
            devices: list[Device] = [(switch, ()) for switch in adds]
            ready = [end for both in ends.values() for end in both]
            return PlanPrediction(
                acknowledged=self._predicted(devices), ready=self._predicted(ready) if ready else None
            )
        return self._of_steps(ends, steps, waits=waits)

    def _of_steps(self, ends: Mapping[Link, Sequence[Device]], order: PlanOrder, *, waits: bool) -> PlanPrediction:
        ready = [[end for link in step.made for end in ends.get(link, ())] for step in order.steps]
        last: list[Device] = [(move.switch, ()) for move in order.steps[-1].moves]
        if not waits or not all(ready[:-1]):
            why = "a step without links to wait for ends when it is read back, and no record has how long that takes"
            unknown = PredictedTime(p50_s=None, p99_s=None, observations=0, of="steps", why=why)
            return PlanPrediction(acknowledged=unknown, ready=unknown if waits else None)
        return PlanPrediction(
            acknowledged=self._predicted_sum([*ready[:-1], last]),
            ready=self._predicted_sum(ready) if ready[-1] else None,
        )

    def _predicted(self, devices: Iterable[Device]) -> PredictedTime:
        """Predict the largest time of several devices: the product of their empirical distributions."""
        devices = [*dict.fromkeys(devices)]
        fewest, found = self._fewest(devices)
        known = [quantile for quantile, needs in ((0.5, P50_NEEDS), (0.99, P99_NEEDS)) if fewest >= needs]
        chance = fewest / (fewest + 1)
        quantiles: list[float | None] = []
        if known:
            quantiles = [*_largest([times.ascending for times in found], known, chance=chance)]
        return _predicted(quantiles, fewest, self._named(devices))

    def _predicted_sum(self, steps: Sequence[Sequence[Device]]) -> PredictedTime:
        """Predict the sum of the largest times of several steps, by draws from what was observed."""
        devices = [*dict.fromkeys(device for step in steps for device in step)]
        fewest, _ = self._fewest(devices)
        quantiles: list[float | None] = []
        if fewest >= P50_NEEDS:
            draw = random.Random(0)  # the same plan from the same records says the same
            sums = [0.0] * DRAWS
            for step in steps:
                drawn = [draw.choices(self._times[device].ascending, k=DRAWS) for device in sorted(step)]
                sums = [
                    before + largest for before, largest in zip(sums, map(max, zip(*drawn, strict=True)), strict=True)
                ]
            sums.sort()
            quantiles = [sums[DRAWS // 2 - 1], sums[DRAWS * 99 // 100 - 1]]
        return _predicted(quantiles, fewest, self._named(devices))

    def _fewest(self, devices: Iterable[Device]) -> "tuple[int, list[_Times]]":
        found = [times for device in devices if (times := self._times.get(device)) is not None]
        is_whole = len(found) == sum(1 for _ in devices)
        return (min(len(times.ascending) for times in found) if found and is_whole else 0), found

    def _named(self, devices: Iterable[Device]) -> str:
        """The device with the fewest observations: `h0.eth0 over ocs1`."""
        name, over = min(devices, key=lambda one: len(self._times[one].ascending) if one in self._times else 0)
        return f"{name} over {'+'.join(over)}" if over else name

    def _take(self, timeline: Timeline) -> None:
        for command in timeline.commands:
            sent, answered = command.commanded, command.acknowledged
            if sent.knowledge is Knowledge.SEEN and answered.knowledge is Knowledge.SEEN:
                self.add((command.switch, ()), (answered.at_ns - sent.at_ns) / 1e9)
        moved = {
            link.link: (tuple(sorted(link.switches)), sent.at_ns)
            for link in timeline.links
            if link.switches is not UNSET and link.switches and not link.kept
            if (sent := link.instant(InstantName.COMMANDED)).knowledge is Knowledge.SEEN
        }
        for end in timeline.ends:
            if end.link in moved and end.instants:
                ready = end.instant(InstantName.READY)
                switches, sent_ns = moved[end.link]
                if ready.knowledge is Knowledge.SEEN:
                    self.add((end.end, switches), (ready.at_ns - sent_ns) / 1e9)


class _Times:
    """The last `REMEMBERED` times of one device, in order of time and in order of size."""

    __slots__ = ("_latest", "_oldest", "ascending")

    def __init__(self) -> None:
        self.ascending = array("d")
        self._latest = array("d")
        self._oldest = 0

    def add(self, seconds: float) -> None:
        if len(self._latest) < REMEMBERED:
            self._latest.append(seconds)
        else:
            del self.ascending[bisect_left(self.ascending, self._latest[self._oldest])]
            self._latest[self._oldest] = seconds
            self._oldest = (self._oldest + 1) % REMEMBERED
        insort(self.ascending, seconds)


def measured(timeline: Timeline, prediction: PlanPrediction) -> PlanPrediction:
    """The prediction with what the timeline says it was."""
    commands = timeline.commands
    sent = [command.commanded.at_ns for command in commands if command.commanded.knowledge is Knowledge.SEEN]
    answers = [command.acknowledged for command in commands]
    links = [link.instant(InstantName.READY) for link in timeline.links if not link.kept]

    def time_s(ends: Sequence[Instant]) -> float | None:
        if not sent or not ends or any(one.knowledge is not Knowledge.SEEN for one in ends):
            return None
        return (max(one.at_ns for one in ends) - min(sent)) / 1e9

    ready = prediction.ready
    return PlanPrediction(
        acknowledged=replace(prediction.acknowledged, measured_s=time_s(answers)),
        ready=None if ready is None else replace(ready, measured_s=time_s(links)),
    )


def _ends(link: PlannedLink, adds: Mapping[str, frozenset[Crossconnect]]) -> tuple[Device, Device]:
    """Both ends of a link with the switches that add something for it."""
    switches = tuple(
        sorted({one.switch for one in link.routed.crossconnects if one.crossconnect in adds.get(one.switch, ())})
    )
    one, other = link.routed.link.ends
    return (one, switches), (other, switches)


def _predicted(quantiles: Sequence[float | None], fewest: int, of: str) -> PredictedTime:
    p50_s, p99_s, *_ = (*quantiles, None, None)
    known = fewest >= P99_NEEDS
    needed = P99_NEEDS if fewest >= P50_NEEDS else P50_NEEDS
    seen = plural(fewest, "observation")
    return PredictedTime(
        p50_s=p50_s,
        p99_s=p99_s if known else None,
        observations=fewest,
        of=of,
        why="" if known else f"{seen} of {of}, {needed} needed",
    )


def _largest(times: Sequence[Sequence[float]], quantiles: Sequence[float], *, chance: float) -> Iterator[float]:
    """Quantiles of the largest of independent values, each drawn from one ascending sequence; ascending themselves.

    The chance that all are at most t is the product of their empirical distributions. It is followed downwards from the
    largest value, which takes few steps for a high quantile. `chance`: that the next ones are at most the largest so
    far: n/(n+1) where devices that are alike have n observations each. Raises ValueError where a quantile is above it.
    """
    if chance < max(quantiles):
        raise ValueError(f"{max(quantiles)} is above the chance {chance}")
    heap = [(-values[-1], number, len(values)) for number, values in enumerate(times)]
    heapq.heapify(heap)
    at_most = -heap[0][0]
    found: list[float] = []
    for quantile in sorted(quantiles, reverse=True):
        while chance >= quantile:
            value, number, count = heap[0]
            at_most = -value
            chance *= (count - 1) / count
            if count > 1:
                heapq.heapreplace(heap, (-times[number][count - 2], number, count - 1))
            else:
                break
        found.append(at_most)
    return reversed(found)
