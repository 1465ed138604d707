"""What --at means: the next such time of this machine's own clock."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from hwd.cli.times import begin_at, due_at, in_seconds
from hwd.model.local_time import date_and_time, local_time, time_of_day
from hwd_drivers.core.errors import ConfigError

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NOW_NS = round(NOON.timestamp() * 1e9)


ZONES = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana"
"""Lord Howe moves its clocks by half an hour, Havana at midnight."""


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def choose(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    choose("UTC")
    yield choose
    monkeypatch.undo()
    time.tzset()


def unix_ns(text: str) -> int:
    """Of `2026-10-25 02:45 +0200`."""
    return round(datetime.strptime(text, "%Y-%m-%d %H:%M %z").timestamp() * 1e9)


BERLIN = [  # clocks go from 03:00 back to 02:00 on 2026-10-25, from 02:00 to 03:00 on 2027-03-28
    ("2026-10-25 02:45 +0200", "02:50", "2026-10-25 02:50 +0200", "2026-10-24 02:50 +0200"),
    ("2026-10-25 02:45 +0100", "02:50", "2026-10-25 02:50 +0100", "2026-10-25 02:50 +0200"),
    ("2026-10-25 02:45 +0200", "02:30", "2026-10-25 02:30 +0100", "2026-10-25 02:30 +0200"),
    ("2026-10-25 02:45 +0100", "02:30", "2026-10-26 02:30 +0100", "2026-10-25 02:30 +0100"),
    ("2026-10-25 01:00 +0200", "02:50", "2026-10-25 02:50 +0200", "2026-10-24 02:50 +0200"),
    ("2026-10-25 12:00 +0100", "02:50", "2026-10-26 02:50 +0100", "2026-10-25 02:50 +0100"),
    ("2026-10-24 22:00 +0200", "08:00", "2026-10-25 08:00 +0100", "2026-10-24 08:00 +0200"),
    ("2026-10-25 02:45 +0100", "2026-10-25 02:50", "2026-10-25 02:50 +0100", "2026-10-25 02:50 +0200"),
    ("2027-03-28 04:00 +0200", "02:30", "2027-03-29 02:30 +0200", None),
    ("2027-03-28 01:00 +0100", "02:30", None, "2027-03-27 02:30 +0100"),
    ("2027-03-27 12:00 +0100", "02:30", None, "2027-03-27 02:30 +0100"),
    ("2027-03-28 01:00 +0100", "2027-03-28 02:30", None, None),
    ("2027-03-28 01:00 +0100", "03:30", "2027-03-28 03:30 +0200", "2027-03-27 03:30 +0100"),
]
"""Now, what is typed, and what it is for --at and for --since; None where clocks leave it out."""


@pytest.mark.parametrize(("now", "text", "due", "begin"), BERLIN)
def test_time_about_a_change_of_clocks_is_the_next_or_the_last_that_they_show(
    zone: Callable[[str], None], now: str, text: str, due: str | None, begin: str | None
) -> None:
    zone("Europe/Berlin")
    for read, wanted in ((due_at, due), (begin_at, begin)):
        if wanted is None:
            words = r"clocks leave out 02:30:00 on 2027-03-28: they are set forward from \+0100 to \+0200 then\. "
            with pytest.raises(ConfigError, match=rf"{words}.*such as 2027-03-28 03:30:00"):
                read(text, unix_ns(now))
        else:
            assert read(text, unix_ns(now)) == unix_ns(wanted)


@pytest.mark.parametrize("name", ZONES)
def test_every_time_of_day_is_found_within_a_day_in_every_zone(zone: Callable[[str], None], name: str) -> None:
    """Every 13 minutes of the days about each change of clocks of a year: what was found is shown by a clock as typed,
    and nothing that a clock shows as typed lies between now and it.
    """
    zone(name)
    begin_s = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    changes = [at for at in range(begin_s, begin_s + 366 * 86_400, 3600) if offset_s(at) != offset_s(at + 3600)]
    assert len(changes) == 2
    for change in changes:
        is_forward = offset_s(change + 3600) > offset_s(change)
        for now in range(change - 4 * 3600, change + 4 * 3600, 29 * 60):
            for typed in range(now - 3 * 3600, now + 3 * 3600, 1800):
                text = shown(typed)
                near = [at for at in range(typed - 86_400 - 7200, typed + 86_400 + 7201, 1800) if shown(at) == text]
                due, begin = answer(due_at, text, now), answer(begin_at, text, now)
                assert due == min(at for at in near if at > now) or (is_forward and "clocks leave out" in str(due))
                assert begin == max(at for at in near if at <= now) or (is_forward and "clocks leave out" in str(begin))


def answer(read: Callable[[str, int], int], text: str, now_s: int) -> float | str:
    try:
        return read(text, now_s * 10**9) / 1e9
    except ConfigError as error:
        return str(error)


def offset_s(at: int) -> float:
    offset = datetime.fromtimestamp(at, UTC).astimezone().utcoffset()
    assert offset is not None
    return offset.total_seconds()


def shown(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC).astimezone():%H:%M}"


@pytest.mark.parametrize("text", ["9999-12-31 23:59", "2028-01-10 22:30", "9999-01-01 00:00"])
@pytest.mark.parametrize("name", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_time_in_a_far_year_is_refused(zone: Callable[[str], None], name: str, text: str) -> None:
    zone(name)
    with pytest.raises(ConfigError, match=rf"--at {text}: (is more than 366 days away|this machine cannot)"):
        due_at(text, NOW_NS)
    with pytest.raises(ConfigError, match=rf"--since {text}: (is in the future|this machine cannot count so far)"):
        begin_at(text, NOW_NS)


@pytest.mark.parametrize("name", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_time_in_the_first_year_is_refused_or_long_ago(zone: Callable[[str], None], name: str) -> None:
    zone(name)
    with pytest.raises(ConfigError, match=r"--at 0001-01-01 00:00: (is in the past|this machine cannot count so far)"):
        due_at("0001-01-01 00:00", NOW_NS)


def test_hour_that_clocks_show_twice_is_printed_with_its_offset(zone: Callable[[str], None]) -> None:
    zone("Europe/Berlin")
    first, second = unix_ns("2026-10-25 02:50 +0200"), unix_ns("2026-10-25 02:50 +0100")
    assert date_and_time(first) == "2026-10-25 02:50:00 +0200"
    assert date_and_time(second) == local_time(second, now_wall_ns=None) == "2026-10-25 02:50:00 +0100"
    assert time_of_day(second) == local_time(second, now_wall_ns=first) == "02:50:00 +0100"
    assert date_and_time(second + 3600 * 10**9) == "2026-10-25 03:50:00"
    assert date_and_time(second + 3600 * 10**9, offset=True) == "2026-10-25 03:50:00 +0100"
    assert time_of_day(unix_ns("2027-03-28 03:30 +0200")) == "03:30:00"


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
