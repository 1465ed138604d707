"""Times and lengths of time, as options of the command line have them."""

from datetime import datetime, timedelta
from typing import Final

from hwd_drivers.core.errors import ConfigError

TIMES: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M")
DAY_TIMES: Final = ("%H:%M", "%H:%M:%S")
IN_MOST_S: Final = 366 * 86_400.0
"""A time in more than a year is a typing error."""
UNITS_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
FORMS: Final = "90 (seconds), 90s, 15m or 1.5h"
"""All that a duration may look like."""


def in_seconds(text: str, *, option: str, least_s: float = 0.0, most_s: float = IN_MOST_S) -> float:
    """Seconds from a duration: `90`, `90s`, `15m`, `1.5h`. Raises ConfigError for others, and beyond the limits."""
    number, unit_s = (text[:-1], UNITS_S[text[-1]]) if text[-1:] in UNITS_S else (text, 1.0)
    try:
        seconds = float(number) * unit_s
    except ValueError:
        raise ConfigError(f"{option} {text}: write a duration as {FORMS}") from None
    if not least_s <= seconds <= most_s:
        raise ConfigError(f"{option} {text}: not between {_plain(least_s)} and {_plain(most_s)}")
    return seconds


def due_at(text: str, now_ns: int) -> int:
    """Unix time of a local time; a time of day is the next one. Raises ConfigError for other texts,
    and for the past.
    """
    now = _local(now_ns)
    due = _read(text, now, next_day=True)
    if due is None:
        raise ConfigError(f"--at {text}: write it as 22:30 or 2027-01-10 22:30")
    if due <= now:
        raise ConfigError(f"--at {text}: is in the past; it is {now:%Y-%m-%d %H:%M:%S} now")
    return round(due.timestamp() * 1e9)


def begin_at(text: str, now_ns: int) -> int:
    """Unix time of --since: a duration before now, or a local time; a time of day is the last one. Raises ConfigError
    for other texts, and for the future.
    """
    if text[-1:] in UNITS_S or text.isdigit():
        return now_ns - round(in_seconds(text, option="--since") * 1e9)
    now = _local(now_ns)
    begin = _read(text, now, next_day=False)
    if begin is None:
        raise ConfigError(f"--since {text}: write it as 5m (so long ago), 22:30 or 2027-01-10 22:30")
    if begin > now:
        raise ConfigError(f"--since {text}: is in the future; it is {now:%Y-%m-%d %H:%M:%S} now")
    return round(begin.timestamp() * 1e9)


def _read(text: str, now: datetime, *, next_day: bool) -> datetime | None:
    """The local time in a text; a time of day is the next one, or else the last one. None for other texts."""
    for form in TIMES + DAY_TIMES:
        try:
            read = datetime.strptime(text, form)  # noqa: DTZ007 - a local time; its zone is added below
        except ValueError:
            continue
        if form not in DAY_TIMES:
            return read.astimezone()
        day = now.date()
        found = datetime.combine(day, read.time()).astimezone()
        if next_day and found <= now:
            day += timedelta(days=1)
        elif not next_day and found > now:
            day -= timedelta(days=1)
        return datetime.combine(day, read.time()).astimezone()
    return None


def _local(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns / 1e9).astimezone()


def _plain(seconds: float) -> str:
    """`0.001 s`, `86400 s`."""
    return f"{seconds:.10g} s"
