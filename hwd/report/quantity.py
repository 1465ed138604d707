"""Formats figures for people."""

import math

MISSING = "–"  # noqa: RUF001 - the typographer's dash for an empty cell
"""For an unknown value: unknown is not zero."""


def duration(seconds: float | None) -> str:
    """Three to four digits and a unit: `75.0 µs`, `101 ms`, `6.251 s`."""
    if seconds is None:
        return MISSING
    size = abs(seconds)
    if size == 0:
        return "0"
    if size < 999.5e-9:
        return f"{_digits(seconds * 1e9, 3)} ns"
    if size < 999.5e-6:
        return f"{_digits(seconds * 1e6, 3)} µs"
    if size < 0.9995:
        return f"{_digits(seconds * 1e3, 3)} ms"
    return f"{_digits(seconds, 4)} s"


def stated(low_s: float, high_s: float) -> str:
    """A paper's figure without zeros that it does not print: `6 s`, `41.44 ms`, `70 to 80 µs`."""
    factor, unit = (1e6, "µs") if high_s < 1e-3 else (1e3, "ms") if high_s < 1 else (1.0, "s")
    values = dict.fromkeys(f"{value * factor:.4g}" for value in (low_s, high_s))
    return f"{' to '.join(values)} {unit}"


def interval(low_s: float | None, high_s: float | None) -> str:
    """`6.1 s to 6.3 s`, with the unit once where it is the same."""
    if low_s is None or high_s is None:
        return MISSING
    low, high = duration(low_s), duration(high_s)
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}"


def is_resolved(seconds: float, error_s: float | None) -> bool:
    """Whether a duration is known to be longer than nothing: its bound is not larger than itself."""
    return error_s is None or error_s <= seconds


def resolved(seconds: float | None, error_s: float | None) -> str:
    """The duration, or `not resolved (± 0.3 ms)` where its bound is larger than itself: it may be nothing."""
    if seconds is None or is_resolved(seconds, error_s):
        return duration(seconds)
    return f"not resolved ({bound(error_s)})"


def only_resolved(seconds: float | None, error_s: float | None) -> str:
    """The duration, or a dash where its bound is larger than itself: for a figure beside one that says so."""
    return duration(seconds) if seconds is not None and is_resolved(seconds, error_s) else MISSING


def bound(seconds: float | None) -> str:
    """`± 0.2 ms`."""
    return MISSING if seconds is None else f"± {duration(seconds)}"


def _digits(value: float, digits: int) -> str:
    value = float(f"{value:.{digits}g}")  # 99.95 is 100 in three digits
    whole = max(1, math.floor(math.log10(abs(value))) + 1)
    return f"{value:.{max(0, digits - whole)}f}"
