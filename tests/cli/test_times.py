"""What --at means: the next such time of this machine's own clock."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from hwd.cli.times import begin_at, due_at, in_seconds
from hwd_drivers.core.errors import ConfigError

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NOW_NS = round(NOON.timestamp() * 1e9)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("22:30", datetime(2026, 11, 21, 22, 30, tzinfo=UTC)),
        ("11:59", datetime(2026, 11, 22, 11, 59, tzinfo=UTC)),
        ("12:00:00", datetime(2026, 11, 22, 12, 0, tzinfo=UTC)),
        ("2027-01-10 22:30", datetime(2027, 1, 10, 22, 30, tzinfo=UTC)),
        ("2027-01-10T22:30:05", datetime(2027, 1, 10, 22, 30, 5, tzinfo=UTC)),
    ],
)
def test_time_is_read(text: str, due: datetime) -> None:
    assert due_at(text, NOW_NS) == round(due.timestamp() * 1e9)


@pytest.mark.parametrize("text", ["", "soon", "25:00", "2027-13-01 10:00", "22:30 tomorrow"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write it as 22:30"):
        due_at(text, NOW_NS)


def test_what_is_over_is_refused() -> None:
    with pytest.raises(ConfigError, match="is in the past; it is 2026-11-21 12:00:00 now"):
        due_at("2026-11-21 11:00", NOW_NS)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("0.5", 0.5), ("90s", 90), ("15m", 900), ("1h", 3600), ("1.5h", 5400)]
)
def test_so_long_is_read_in_seconds_minutes_and_hours(text: str, seconds: float) -> None:
    assert in_seconds(text, option="--in") == seconds


@pytest.mark.parametrize("text", ["", "h", "soon", "1h30", "1 day"])
def test_what_is_no_duration_is_refused_with_the_forms_that_are_taken(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write a duration as 90 \(seconds\), 90s, 15m or 1.5h"):
        in_seconds(text, option="--in")


@pytest.mark.parametrize("text", ["-5", "nan", "inf", "9000h"])
def test_what_is_over_or_more_than_a_year_away_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--in .*: not between 0 s and 31622400 s"):
        in_seconds(text, option="--in")


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("5m", datetime(2026, 11, 21, 11, 55, tzinfo=UTC)),
        ("90", datetime(2026, 11, 21, 11, 58, 30, tzinfo=UTC)),
        ("11:59", datetime(2026, 11, 21, 11, 59, tzinfo=UTC)),
        ("12:00:00", datetime(2026, 11, 21, 12, 0, tzinfo=UTC)),
        ("22:30", datetime(2026, 11, 20, 22, 30, tzinfo=UTC)),
        ("2026-11-20 08:00", datetime(2026, 11, 20, 8, 0, tzinfo=UTC)),
    ],
)
def test_since_is_so_long_ago_or_the_last_such_time(text: str, begin: datetime) -> None:
    assert begin_at(text, NOW_NS) == round(begin.timestamp() * 1e9)


def test_since_a_time_to_come_is_refused() -> None:
    with pytest.raises(ConfigError, match="--since 2026-11-22 08:00: is in the future; it is 2026-11-21 12:00:00 now"):
        begin_at("2026-11-22 08:00", NOW_NS)


@pytest.mark.parametrize("text", ["", "yesterday", "25:00"])
def test_since_that_is_no_time_is_refused_with_the_forms_that_are_taken(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write it as 5m \(so long ago\), 22:30 or 2027-01-10 22:30"):
        begin_at(text, NOW_NS)
