"""LightJudge: from samples of a module's memory to `dark` and `light` with their bounds. Pure.

A latched flag of loss of signal is cleared by the read. A set flag says that the light was away at some time since the
previous read; a clear one says that it was there all the time in between. Hence light came back before the end of the
last read with a set flag, which the next read proves: `light` is reported one sample late, with exact bounds. A module
that reports loss of signal as a state shows only the moment of the read. So does received power, which is used when a
module's own sign of loss does not work.

A read clears a flag also while it is dark, and the module sets it again after a delay. So a clear flag proves something
only after time for that delay, and for a new power measurement; undeclared times are taken from the standards. `light`
is reported so much later, and came before the flag could have been set again.

A read may show an old state: a module needs time to report a loss and to measure again (`ModuleTiming`). So each change
may have come so much earlier than two reads say. If the time of this part is not declared, the earliest time is
unknown.
"""

from dataclasses import dataclass
from typing import Final, Literal

from hwd_agents.process.config import ModuleTiming
from hwd_agents.sources.modules.module_memory import Los, ModuleMemory

LATE_NS: Final = 100_000_000
"""Default when undeclared: SFF-8636, SFF-8472 and CMIS allow this time from a loss of light to its flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LightSample:
    """One read of a module between two stamps."""

    before_ns: int
    after_ns: int
    lost: bool
    """For some lane: light was away at some time since the previous sample (latched), or is away (state)."""
    dark: bool
    """Some lane's power is too low to be light; False when the module does not measure power."""
    lanes: tuple[float | None, ...]
    los: Los = Los.LATCHED
    late_by_flag_ns: int | None = 0
    """Largest age of the sign of loss; None: unknown."""
    late_by_power_ns: int | None = 0
    """Largest age of the powers; None: unknown."""

    @classmethod
    def of(
        cls,
        memory: ModuleMemory,
        *,
        before_ns: int,
        after_ns: int,
        lanes: int,
        dark_dbm: float,
        timing: ModuleTiming | None,
    ) -> "LightSample":
        """Take the first `lanes` lanes of a module, or as many as it has."""
        powers = memory.rx_power_dbm[:lanes]
        lost = any(memory.rx_los[:lanes])
        is_dark = any(power_dbm is None or power_dbm < dark_dbm for power_dbm in powers)
        return cls(
            before_ns=before_ns,
            after_ns=after_ns,
            lost=lost,
            dark=memory.rx_measured and is_dark,
            los=memory.los,
            late_by_flag_ns=_ns(None if timing is None else timing.los_s),
            late_by_power_ns=_ns(None if timing is None else timing.monitor_s),
            lanes=tuple(None if power_dbm is None else round(power_dbm, 2) for power_dbm in powers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LightChange:
    """Light went or came between the two stamps; `sampling_ns` is the time between the reads that show it.

    `earliest_ns` None: the earliest time is unknown.
    """

    kind: Literal["dark", "light"]
    earliest_ns: int | None
    at_ns: int
    sampling_ns: int
    lanes: tuple[float | None, ...]


class LightJudge:
    """One port. `lit` is the known state; None before the first proof."""

    def __init__(self) -> None:
        self.lit: bool | None = None
        self._last: LightSample | None = None
        self._set: tuple[LightSample, LightSample] | None = (
            None  # the last sample with its flag set, and the one before it
        )
        self._flags_work = False

    @property
    def latched(self) -> bool:
        """Whether no loss between two samples can be missed: this module's flags were seen to work."""
        return self._flags_work

    def feed(self, sample: LightSample) -> tuple[LightChange, ...]:
        """Process the next sample; returns the changes that it proves, in order of time."""
        last, self._last = self._last, sample
        if sample.los is not Los.LATCHED:
            self._flags_work = False
        elif sample.lost:
            self._flags_work = True
            self._set = last or sample, sample
        elif sample.dark and self._is_fresh(sample):
            self._flags_work = False  # light is away now, and the flag does not show it
        if last is None:
            # A flag may have been set long ago: the next sample decides.
            late = sample.lost and sample.los is Los.LATCHED
            self.lit = False if sample.dark or (sample.lost and not late) else None if late else True
            return ()
        if self._flags_work:
            return self._by_flags(sample, last)
        return self._by_state(sample, last)

    def _is_fresh(self, sample: LightSample) -> bool:
        """Whether all values of the module are newer than the last read of a set flag, which cleared it."""
        if self._set is None:
            return True
        late_ns = max(_or_standard(sample.late_by_flag_ns), _or_standard(sample.late_by_power_ns))
        return sample.before_ns - self._set[1].after_ns >= late_ns

    def _by_flags(self, sample: LightSample, last: LightSample) -> tuple[LightChange, ...]:
        if sample.lost:
            was, self.lit = self.lit, False
            return (_change("dark", last, sample, sample, late_ns=sample.late_by_flag_ns),) if was else ()
        if self.lit or not self._is_fresh(sample):
            return ()
        was, self.lit = self.lit, True
        if was is None or self._set is None:
            return ()
        since, until = self._set
        late_ns = sample.late_by_flag_ns
        return (_change("light", since, until, sample, late_ns=late_ns, again_ns=_or_standard(late_ns)),)

    def _by_state(self, sample: LightSample, last: LightSample) -> tuple[LightChange, ...]:
        """Judge by the sign of loss at the read, if there is one, and the power. Either may show it: the later bounds
        it.
        """
        was, self.lit = self.lit, not (sample.dark or (sample.lost and sample.los is Los.STATE))
        if was is None or was == self.lit:
            return ()
        late_ns = sample.late_by_power_ns
        if sample.los is Los.STATE:
            late_ns = (
                None if late_ns is None or sample.late_by_flag_ns is None else max(late_ns, sample.late_by_flag_ns)
            )
        return (_change("light" if self.lit else "dark", last, sample, sample, late_ns=late_ns),)


def _change(
    kind: Literal["dark", "light"],
    since: LightSample,
    until: LightSample,
    proof: LightSample,
    *,
    late_ns: int | None,
    again_ns: int = 0,
) -> LightChange:
    return LightChange(
        kind=kind,
        earliest_ns=None if late_ns is None else since.before_ns - late_ns,
        at_ns=until.after_ns + again_ns,
        sampling_ns=until.after_ns - since.before_ns,
        lanes=proof.lanes,
    )


def _or_standard(late_ns: int | None) -> int:
    return LATE_NS if late_ns is None else late_ns


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)
