"""Times and lengths of time, as options of the command line have them."""

from datetime import datetime, timedelta
from typing import Final

from hwd.model.local_time import date_and_time
from hwd_drivers.core.errors import ConfigError

TIMES: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M")
DAY_TIMES: Final = ("%H:%M", "%H:%M:%S")
IN_MOST_S: Final = 366 * 86_400.0
"""A time in more than a year is a typing error."""
UNITS_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
FORMS: Final = "90 (seconds), 90s, 15m or 1.5h"
"""The forms that a duration may have."""


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
    """Unix time of a local time; a time of day is the next one, and so is a time that clocks show twice.
    Raises ConfigError for other texts, for a time that clocks leave out, for the past, and beyond a year.
    """
    found = _read(text, now_ns, option="--at", later=True)
    if found is None:
        raise ConfigError(f"--at {text}: write it as 22:30 or 2027-01-10 22:30")
    due_ns = next((at_ns for at_ns in found if at_ns > now_ns), None)
    if due_ns is None:
        raise ConfigError(f"--at {text}: is in the past; it is {date_and_time(now_ns)} now")
    if due_ns - now_ns > IN_MOST_S * 1e9:
        raise ConfigError(
            f"--at {text}: is more than {IN_MOST_S / 86_400:g} days away; it is {date_and_time(now_ns)} now"
        )
    return due_ns


def begin_at(text: str, now_ns: int) -> int:
    """Unix time of --since: a duration before now, or a local time; a time of day is the last one, and so is a time
    that clocks show twice. Raises ConfigError for other texts, for a time that clocks leave out, and for
    the future.
    """
    if text[-1:] in UNITS_S or text.isdigit():
        return now_ns - round(in_seconds(text, option="--since") * 1e9)
    found = _read(text, now_ns, option="--since", later=False)
    if found is None:
        raise ConfigError(f"--since {text}: write it as 5m (so long ago), 22:30 or 2027-01-10 22:30")
    begin_ns = next((at_ns for at_ns in reversed(found) if at_ns <= now_ns), None)
    if begin_ns is None:
        raise ConfigError(f"--since {text}: is in the future; it is {date_and_time(now_ns)} now")
    return begin_ns


def _read(text: str, now_ns: int, *, option: str, later: bool) -> list[int] | None:
    """The unix times at which clocks show what a text says, two where they are set back between. A time of day is one
    of the day at which it is next, or else was last. None for other texts.
    """
    for form in TIMES + DAY_TIMES:
        try:
            read = datetime.strptime(text, form)  # noqa: DTZ007 - a local time: what it is in unix time follows
        except ValueError:
            continue
        if form not in DAY_TIMES:
            return _unix_times(read, option, text)
        now = datetime.fromtimestamp(now_ns / 1e9)  # noqa: DTZ006 - what clocks show now
        day = datetime.combine(now.date(), read.time())
        if day > now if later else day <= now:
            return _unix_times(day, option, text)  # clocks have not shown it before today, or have by now
        today = _unix_times(day, option, text, left_out=True)
        if any(at_ns > now_ns if later else at_ns <= now_ns for at_ns in today):
            return today
        return _unix_times(day + timedelta(days=1 if later else -1), option, text)
    return None


def _unix_times(shown: datetime, option: str, text: str, *, left_out: bool = False) -> list[int]:
    """When clocks of this machine show this: once, or twice where they are set back (PEP 495). Raises ConfigError for a
    time that they leave out, but with `left_out`, and for one that this machine cannot count.
    """
    try:
        at_s = sorted({shown.replace(fold=fold).timestamp() for fold in (0, 1)})
        found = [one for one in at_s if datetime.fromtimestamp(one).replace(fold=0) == shown]  # noqa: DTZ006 - as shown
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"{option} {text}: this machine cannot count so far: name a year nearer to this one"
        ) from None
    if not found and not left_out:
        before, after = (datetime.fromtimestamp(one).astimezone() for one in at_s)
        raise ConfigError(
            f"{option} {text}: clocks leave out {shown:%H:%M:%S} on {shown:%Y-%m-%d}: they are set forward from "
            f"{before:%z} to {after:%z} then. Name another time, such as {after:%Y-%m-%d %H:%M:%S}"
        )
    return [round(one * 1e9) for one in found]


def _plain(seconds: float) -> str:
    """`0.001 s`, `86400 s`."""
    return f"{seconds:.10g} s"
