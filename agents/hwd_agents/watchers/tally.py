"""Tally: counts what one source saw of one port during a reconfiguration."""

from hwd_agents.wire import Observation


class Tally:
    """Counts up to an Observation."""

    def __init__(self, *, from_ns: int, latched: bool, state: bool | None) -> None:
        self._from_ns = self._last_ns = from_ns
        self._upto_ns: int | None = None
        self._latched = latched
        self._at_begin = self._now = state
        self._why_not = ""
        self._lost = self._looks = self._failed = self._gap_ns = 0

    def look(self, at_ns: int, state: bool | None, *, lost: int = 0, latched: bool | None = None) -> None:
        """Process a reading or a report: `state` now, and left `lost` times since the previous one."""
        if self._upto_ns is not None:
            return
        if latched is not None:
            self._latched = latched
        self._gap_ns = max(self._gap_ns, at_ns - self._last_ns)
        self._last_ns = at_ns
        self._looks += 1
        self._lost += lost
        self._now = state
        if self._at_begin is None and not self._lost:
            self._at_begin = state
        if state is not None:
            self._why_not = ""

    def fail(self, why: str) -> None:
        if self._upto_ns is None:
            self._failed += 1
            self._why_not = why

    def end(self, at_ns: int) -> None:
        if self._upto_ns is None:
            self._upto_ns = at_ns

    def observation(self, now_ns: int, *, polled: bool) -> Observation:
        """What was seen so far; for a source that is not polled, silence is no gap."""
        upto_ns = now_ns if self._upto_ns is None else self._upto_ns
        return Observation(
            seen=self._now is not None,
            why_not=self._why_not if self._now is None else "",
            at_begin=self._at_begin,
            now=self._now,
            lost=self._lost,
            latched=self._latched,
            looks=self._looks,
            failed=self._failed,
            longest_gap_ns=max(self._gap_ns, upto_ns - self._last_ns) if polled else 0,
            from_ns=self._from_ns,
            upto_ns=upto_ns,
        )
