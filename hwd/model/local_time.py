"""A unix time for people, in the time zone of this machine. An hour that clocks show twice has its offset from UTC."""

from datetime import UTC, datetime


def local_time(wall_ns: int, *, now_wall_ns: int | None) -> str:
    """`12:03:05`, or `2026-05-04 12:03:05` where that is another day than `now_wall_ns`, or now is not known."""
    if now_wall_ns is not None and _local(now_wall_ns).date() == _local(wall_ns).date():
        return time_of_day(wall_ns)
    return date_and_time(wall_ns)


def time_of_day(wall_ns: int) -> str:
    """`12:03:05`, or `02:50:00 +0100`."""
    at = _local(wall_ns)
    return f"{at:%H:%M:%S %z}" if _is_double(at) else f"{at:%H:%M:%S}"


def date_and_time(wall_ns: int, *, offset: bool = False) -> str:
    """`2026-05-04 12:03:05`; with `offset`, for a time that somebody has typed, always `2026-05-04 12:03:05 +0200`."""
    at = _local(wall_ns)
    return f"{at:%Y-%m-%d %H:%M:%S %z}" if offset or _is_double(at) else f"{at:%Y-%m-%d %H:%M:%S}"


def _local(wall_ns: int) -> datetime:
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).astimezone()


def _is_double(at: datetime) -> bool:
    """Whether clocks show it twice, since they are set back between (PEP 495)."""
    shown = at.replace(tzinfo=None)
    return shown.replace(fold=0).timestamp() != shown.replace(fold=1).timestamp()
