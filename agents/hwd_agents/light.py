"""LightJudge: from samples of a module's memory to `dark` and `light` with their bounds. Pure.

Loss of signal is latched in a flag that a read clears, so a flag that is set says that the light was away at some time since the read before, and a
clear one that it was there all the time in between. Hence light came back before the last read with a set flag had ended, which the read after it
proves: `light` is told one sample late and exact. Received power is for people, and judges only where a module's flags do not work.
"""

from dataclasses import dataclass
from typing import Literal

from hwd_agents.sources.sff8636 import ModuleMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class LightSample:
    """One read of a module between two stamps."""

    before_ns: int
    after_ns: int
    lost: bool
    """Some lane's flag: light was away at some time since the sample before."""
    dark: bool
    """Some lane's power is too low to be light."""
    lanes: tuple[float | None, ...]

    @classmethod
    def of(cls, memory: ModuleMemory, *, before_ns: int, after_ns: int, lanes: int, dark_dbm: float) -> "LightSample":
        """Take the first `lanes` lanes of a module."""
        powers = memory.rx_power_dbm[:lanes]
        return cls(
            before_ns=before_ns,
            after_ns=after_ns,
            lost=any(memory.rx_los[:lanes]),
            dark=any(power_dbm is None or power_dbm < dark_dbm for power_dbm in powers),
            lanes=tuple(None if power_dbm is None else round(power_dbm, 2) for power_dbm in powers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LightChange:
    """Light went or came between the two stamps; `sampling_ns` is the distance of the reads that say so."""

    kind: Literal["dark", "light"]
    earliest_ns: int
    at_ns: int
    sampling_ns: int
    lanes: tuple[float | None, ...]


class LightJudge:
    """One port. `lit` is what is known: None before it can be."""

    def __init__(self) -> None:
        self.lit: bool | None = None
        self._last: LightSample | None = None
        self._before_last: LightSample | None = None
        self._flags_work = False

    @property
    def latched(self) -> bool:
        """Whether a loss between two samples cannot be missed: this module's flags were seen to work."""
        return self._flags_work

    def feed(self, sample: LightSample) -> tuple[LightChange, ...]:
        """Take the next sample; returns what it proves, in order of time."""
        if sample.lost:
            self._flags_work = True
        elif sample.dark:
            self._flags_work = False  # light is away right now, and the flag does not say so
        last, before_last = self._last, self._before_last
        self._last, self._before_last = sample, last
        if last is None:
            # The flag may be as old as the module: the next sample tells.
            self.lit = False if sample.dark else None if sample.lost else True
            return ()
        if self._flags_work:
            return self._by_flags(sample, last, before_last)
        return self._by_power(sample, last)

    def _by_flags(
        self, sample: LightSample, last: LightSample, before_last: LightSample | None
    ) -> tuple[LightChange, ...]:
        match self.lit, sample.lost:
            case None, lost:
                self.lit = not lost
            case True, True:
                self.lit = False
                return (_change("dark", last, sample, sample),)
            case False, False:
                self.lit = True
                return (_change("light", before_last or last, last, sample),)
        return ()

    def _by_power(self, sample: LightSample, last: LightSample) -> tuple[LightChange, ...]:
        was, self.lit = self.lit, not sample.dark
        if was is None or was == self.lit:
            return ()
        return (_change("light" if self.lit else "dark", last, sample, sample),)


def _change(kind: Literal["dark", "light"], since: LightSample, until: LightSample, shown: LightSample) -> LightChange:
    return LightChange(
        kind=kind,
        earliest_ns=since.before_ns,
        at_ns=until.after_ns,
        sampling_ns=until.after_ns - since.before_ns,
        lanes=shown.lanes,
    )
