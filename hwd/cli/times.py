"""Times and lengths of time, as options of the command line have them."""

from datetime import datetime, timedelta
from typing import Final

from hwd_drivers.core.errors import ConfigError

TIMES: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M")
DAY_TIMES: Final = ("%H:%M", "%H:%M:%S")
IN_MOST_S: Final = 366 * 86_400.0
"""A time in more than a year is a typing error."""
UNITS_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


def in_seconds(text: str, *, option: str) -> float:
    """Seconds from `90`, `90s`, `15m`, `1.5h`. Raises ConfigError for other texts, and beyond a year."""
    number, unit_s = (text[:-1], UNITS_S[text[-1]]) if text[-1:] in UNITS_S else (text, 1.0)
    try:
        seconds = float(number) * unit_s
    except ValueError:
        raise ConfigError(f"{option} {text}: write it as 90 (seconds), 90s, 15m or 1.5h") from None
    if not 0 <= seconds <= IN_MOST_S:
        raise ConfigError(f"{option} {text}: not between 0 and {IN_MOST_S:.0f} seconds, a year and a day")
    return seconds


def due_at(text: str, now_ns: int) -> int:
    """Unix time of a local time; a time of day is the next one. Raises ConfigError for other texts,
    and for the past.
    """
    now = datetime.fromtimestamp(now_ns / 1e9).astimezone()
    for form in TIMES + DAY_TIMES:
        try:
            read = datetime.strptime(text, form)  # noqa: DTZ007 - a local time; its zone is added below
        except ValueError:
            continue
        if form in DAY_TIMES:
            due = datetime.combine(now.date(), read.time()).astimezone()
            if due <= now:
                due = datetime.combine(now.date() + timedelta(days=1), read.time()).astimezone()
        else:
            due = read.astimezone()
        if due <= now:
            raise ConfigError(f"--at {text}: is in the past; it is {now:%Y-%m-%d %H:%M:%S} now")
        return round(due.timestamp() * 1e9)
    raise ConfigError(f"--at {text}: write it as 22:30 or 2027-01-10 22:30")
