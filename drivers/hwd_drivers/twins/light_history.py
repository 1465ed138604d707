"""Light history: the power at a monitor over the last moments, and its true average over a window."""

import math


class LightHistory:
    """Light at one end, step by step, for the longest window that can be asked for.

    Exact: light of a mirror is constant between two changes. Powers are averaged in milliwatts, as a photodiode does.
    """

    __slots__ = ("_steps", "_window_ns")

    def __init__(self, window_ns: int, dbm: float | None = None) -> None:
        """Start with constant light."""
        self._window_ns = window_ns
        self._steps: list[tuple[float, float]] = [(-math.inf, _mw(dbm))]  # start (ns), milliwatts

    def moved(self, now_ns: float, dbm: float | None) -> None:
        """Record the light from `now_ns` on; a time before the last change counts as the time of that change."""
        steps = self._steps
        power_mw = _mw(dbm)
        if power_mw == steps[-1][1]:
            return
        now_ns = max(now_ns, steps[-1][0])
        if steps[-1][0] == now_ns:
            steps[-1] = (now_ns, power_mw)
        else:
            steps.append((now_ns, power_mw))
        old = 0
        while old + 1 < len(steps) and steps[old + 1][0] <= now_ns - self._window_ns:
            old += 1
        del steps[:old]

    def average_dbm(self, now_ns: int, averaging_ns: int) -> float | None:
        """The average over the last `averaging_ns`; None where it was dark all the time."""
        start_ns, until_ns, energy = now_ns - averaging_ns, float(now_ns), 0.0
        for since_ns, power_mw in reversed(self._steps):
            if since_ns < until_ns:
                energy += power_mw * (until_ns - max(since_ns, start_ns))
                until_ns = since_ns
            if since_ns <= start_ns:
                break
        return 10 * math.log10(energy / averaging_ns) if energy > 0 else None


def _mw(dbm: float | None) -> float:
    return 0.0 if dbm is None else 10 ** (dbm / 10)
