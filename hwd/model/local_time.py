"""A unix time for people, in the time zone of this machine."""

from datetime import UTC, datetime


def local_time(wall_ns: int, *, now_wall_ns: int | None) -> str:
    """`12:03:05`, or `2026-05-04 12:03:05` where that is another day than `now_wall_ns`, or now is not known."""
    at = _local(wall_ns)
    if now_wall_ns is not None and _local(now_wall_ns).date() == at.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _local(wall_ns: int) -> datetime:
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).astimezone()
