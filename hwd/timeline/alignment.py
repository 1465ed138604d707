"""Alignment: the conversion from an agent's clock to the daemon's, with an error bound that always holds.

Each four-timestamp exchange gives two facts about the offset (agent minus daemon): a request cannot arrive before it
was sent, so the offset at `t2` is at most `t2 - t1`; a reply cannot arrive before it was sent, so the offset at `t3` is
at least `t3 - t4`. The offset is a straight line (its slope is the drift), so all facts together leave a polygon of
possible lines. Its middle is the estimate and its extent the bound, which holds for any delays, symmetric or not. The
exchanges with the smallest delays determine it (Moon, Skelly and Towsley, INFOCOM 1999); the others are dropped.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from hwd.model.host import ClockAligned, ClockStepReport
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain, to_plain

DRIFT_MOST_PPM = 200.0
"""Quartz of computers is specified within 100 ppm; more between two hosts is a fault, and counts as steps."""
_SLOPE_MOST = DRIFT_MOST_PPM * 1e-6 / (1 - DRIFT_MOST_PPM * 1e-6)
"""The drift is relative to the daemon's clock, the slope of the line to the agent's."""
WANDER_PPM = 0.1
"""How much the drift itself may change within the window: the temperature of a machine moves quartz by some
0.1 ppm a degree.
"""
WINDOW_NS = 60_000_000_000
SLOT_NS = 1_000_000_000
"""The length of a slot of the window, of which only the tightest facts are kept."""
_SLACK_NS = 2.0
"""Stamps are whole nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One exchange: sent by the daemon, received and sent by the agent, received by the daemon; each
    on its own clock.
    """

    t1_ns: int
    t2_ns: int
    t3_ns: int
    t4_ns: int

    @property
    def round_trip_ns(self) -> int:
        """The time that both messages were on the way; the agent's time in between does not count."""
        return (self.t4_ns - self.t1_ns) - (self.t3_ns - self.t2_ns)

    @property
    def possible(self) -> bool:
        """Whether time ran forwards on both sides, within the drift that a clock may have."""
        drift_ns = DRIFT_MOST_PPM * 1e-6 * (self.t3_ns - self.t2_ns) + 2 * _SLACK_NS
        return self.t1_ns <= self.t4_ns and self.t2_ns <= self.t3_ns and self.round_trip_ns >= -drift_ns


class Alignment(msgspec.Struct, frozen=True, kw_only=True):
    """The clock of one boot of an agent against the daemon's. Everything needed to convert is in these fields.

    `offset_ns`: agent minus daemon when the agent's clock showed `at_agent_ns`, right within `error_ns`. `drift_ppm`:
    how much the offset grows in a million of the agent's clock, right within `drift_error_ppm`. `samples`: exchanges
    used. `round_trip_ns`: the shortest of them.
    """

    boot: str
    offset_ns: int
    drift_ppm: float
    error_ns: int
    at_agent_ns: int = msgspec.field(name="agent_ns")
    samples: int
    drift_error_ppm: float
    round_trip_ns: int

    @classmethod
    def of(cls, fact: ClockAligned) -> "Alignment":
        """Read the alignment as it was emitted. Raises ProtocolError where an older version left a field out."""
        try:
            return from_plain(fact.to_data(), cls)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"clock of {fact.host}: {reason_of(error)}") from error

    def fact(self, host: str, *, stepped: bool, via: str, why_not_udp: str) -> ClockAligned:
        """The document of it."""
        return ClockAligned(host=host, **to_plain(self), stepped=stepped, via=via, why_not_udp=why_not_udp)

    def __str__(self) -> str:
        return f"offset {self.offset_ns / 1e9:.6f} s +- {self.error_ns / 1e3:.0f} us, drift {self.drift_ppm:.1f} ppm"

    def to_daemon(self, agent_ns: int) -> tuple[int, int]:
        """Convert a time of the agent to the daemon's clock, with its error, which grows with the distance
        from the samples.
        """
        away_ns = agent_ns - self.at_agent_ns
        mid_ns = agent_ns - self.offset_ns - round(self.drift_ppm * 1e-6 * away_ns)
        return mid_ns, self.error_ns + math.ceil((self.drift_error_ppm + WANDER_PPM) * 1e-6 * abs(away_ns)) + 1

    def to_agent(self, daemon_ns: int) -> tuple[int, int]:
        """Convert a time of the daemon to the agent's clock, with its error."""
        away_ns = (daemon_ns + self.offset_ns - self.at_agent_ns) / (1 - self.drift_ppm * 1e-6)
        agent_ns = self.at_agent_ns + round(away_ns)
        return agent_ns, self.to_daemon(agent_ns)[1] + 1


class Aligner:
    """Collects the samples of one boot. It reads no clock: the newest sample is the present.

    ```
    aligner = Aligner("8f14...")
    stepped = aligner.add(Sample(t1_ns=..., t2_ns=..., t3_ns=..., t4_ns=...))
    at_ns, error_ns = aligner.alignment.to_daemon(agent_ns)
    ```
    """

    def __init__(self, boot: str, *, window_ns: int = WINDOW_NS) -> None:
        self.boot = boot
        self.steps = 0
        """How many steps of the agent's clock were found."""
        self.last_step: ClockStepReport | None = None
        self._window_ns = window_ns
        self._slots: deque[_Slot] = deque()
        self._origin: Sample | None = None
        self._polygon: list[_Line] = []
        self.alignment: Alignment | None = None
        """The present alignment; None before the first sample."""

    def add(self, sample: Sample) -> bool:
        """Add a sample; return True where it contradicts the earlier ones: a clock was stepped, and they are dropped.

        Raises ValueError for a sample that is not `possible`.
        """
        if not sample.possible:
            raise ValueError(f"time ran backwards in {sample}")
        stepped = self._take(sample)
        self.alignment = self._align()
        return stepped

    def _take(self, sample: Sample) -> bool:
        before = self.alignment
        if before is None:
            self._begin(sample)
            return False
        polygon = self._clip(self._polygon, self._facts(sample, 0.0))
        if not polygon:  # by a change of the drift, or by a step
            polygon = self._clip(self._rebuild(sample), self._facts(sample, 0.0))
            if not polygon:
                self.steps += 1
                self.last_step = self._step(before, sample)
                self._begin(sample)
                return True
        self._polygon = polygon
        self._keep(sample)
        return False

    def _align(self) -> Alignment:
        assert self._origin is not None
        newest = self._slots[-1].newest
        at_ns = newest.t3_ns
        x = float(at_ns - self._origin.t2_ns)
        offsets = [line.offset + line.slope * x for line in self._polygon]
        slopes = [line.slope for line in self._polygon]
        low, high = min(offsets), max(offsets)
        offset_ns = round((low + high) / 2)
        drift = (min(slopes) + max(slopes)) / 2
        return Alignment(
            boot=self.boot,
            offset_ns=self._zero_ns + offset_ns,
            drift_ppm=drift * 1e6,
            error_ns=math.ceil((high - low) / 2 + WANDER_PPM * 1e-6 * (at_ns - self._slots[0].newest.t3_ns)) + 1,
            at_agent_ns=at_ns,
            samples=sum(slot.samples for slot in self._slots),
            drift_error_ppm=(max(slopes) - min(slopes)) / 2 * 1e6,
            round_trip_ns=min(slot.shortest_ns for slot in self._slots),
        )

    @property
    def _zero_ns(self) -> int:
        """The offset that all lines are relative to, to keep floats exact."""
        assert self._origin is not None
        return self._origin.t2_ns - self._origin.t1_ns

    def _step(self, before: Alignment, sample: Sample) -> ClockStepReport:
        """The step between the last sample that agreed and this one, which does not."""
        expected_ns, error_ns = before.to_agent((sample.t1_ns + sample.t4_ns) // 2)
        found_ns = (sample.t2_ns + sample.t3_ns) // 2
        return ClockStepReport(
            by_ns=found_ns - expected_ns,
            error_ns=error_ns + sample.round_trip_ns // 2 + 1,
            earliest_ns=self._slots[-1].newest.t1_ns,
            latest_ns=sample.t4_ns,
        )

    def _begin(self, sample: Sample) -> None:
        self._origin = sample
        self._slots.clear()
        self._keep(sample)
        self._polygon = self._clip(_EVERYTHING, self._facts(sample, 0.0))

    def _keep(self, sample: Sample) -> None:
        """Store the sample in its slot; rebuild the polygon when a sample leaves the window, so that
        expired facts are dropped.
        """
        slot = sample.t3_ns // SLOT_NS
        if not self._slots or self._slots[-1].number != slot:
            self._slots.append(_Slot(slot, sample))
        self._slots[-1].take(sample)
        oldest_ns = sample.t3_ns - self._window_ns
        if self._slots[0].number * SLOT_NS < oldest_ns:
            while len(self._slots) > 1 and self._slots[0].number * SLOT_NS < oldest_ns:
                self._slots.popleft()
            self._polygon = self._rebuild(sample)

    def _rebuild(self, newest: Sample) -> "list[_Line]":
        """Collect all stored facts, each loosened by the possible change of drift since; relative to the oldest, so
        that numbers stay small.
        """
        self._origin = self._slots[0].binding[0]
        polygon = _EVERYTHING
        for slot in self._slots:
            for sample in slot.binding:
                slack_ns = WANDER_PPM * 1e-6 * abs(newest.t3_ns - sample.t3_ns)
                polygon = self._clip(polygon, self._facts(sample, slack_ns))
        return polygon

    def _facts(self, sample: Sample, slack_ns: float) -> "Iterable[_Fact]":
        assert self._origin is not None
        x2, x3 = float(sample.t2_ns - self._origin.t2_ns), float(sample.t3_ns - self._origin.t2_ns)
        most = float(sample.t2_ns - sample.t1_ns - self._zero_ns) + slack_ns + _SLACK_NS
        least = float(sample.t3_ns - sample.t4_ns - self._zero_ns) - slack_ns - _SLACK_NS
        return (_Fact(x2, most, 1.0), _Fact(x3, least, -1.0))

    def _clip(self, polygon: "list[_Line]", facts: "Iterable[_Fact]") -> "list[_Line]":
        for fact in facts:
            polygon = fact.clip(polygon)
        return polygon


@dataclass(frozen=True, slots=True)
class _Line:
    """offset(x) = offset + slope * x: one point of the polygon."""

    offset: float
    slope: float


@dataclass(frozen=True, slots=True)
class _Fact:
    """A bound of the offset at x: at most `bound` (sign 1), or at least (sign -1)."""

    x: float
    bound: float
    sign: float

    def clip(self, polygon: list[_Line]) -> list[_Line]:
        """Cut off what violates the fact (Sutherland and Hodgman); empty where all of it does."""
        over = [self.sign * (line.offset + line.slope * self.x - self.bound) for line in polygon]
        if all(each <= 0 for each in over):
            return polygon
        kept: list[_Line] = []
        for index, line in enumerate(polygon):
            before, line_before = over[index - 1], polygon[index - 1]
            if (before > 0) != (over[index] > 0):
                part = before / (before - over[index])
                offset = line_before.offset + part * (line.offset - line_before.offset)
                kept.append(_Line(offset, line_before.slope + part * (line.slope - line_before.slope)))
            if over[index] <= 0:
                kept.append(line)
        return kept


_FAR_NS = 3.6e12
_EVERYTHING = [
    _Line(-_FAR_NS, -_SLOPE_MOST),
    _Line(_FAR_NS, -_SLOPE_MOST),
    _Line(_FAR_NS, _SLOPE_MOST),
    _Line(-_FAR_NS, _SLOPE_MOST),
]
"""All possible lines: an hour around the offset of the origin, and the drift that a clock may have."""


class _Slot:
    """The tightest samples of a second: shortest request, shortest reply, shortest round trip."""

    def __init__(self, number: int, sample: Sample) -> None:
        self.number = number
        self.samples = 0
        self.newest = sample
        self.binding: tuple[Sample, ...] = (sample,)
        self.shortest_ns = sample.round_trip_ns

    def take(self, sample: Sample) -> None:
        self.samples += 1
        self.newest = sample
        self.shortest_ns = min(self.shortest_ns, sample.round_trip_ns)
        candidates = (*self.binding, sample)
        there = min(candidates, key=lambda each: each.t2_ns - each.t1_ns)
        back = min(candidates, key=lambda each: each.t4_ns - each.t3_ns)
        self.binding = (there,) if there is back else (there, back)
