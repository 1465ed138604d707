"""What --at means: the next such time of this machine's own clock."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hwd.cli.times import begin_at, due_at, in_seconds
from hwd.model.local_time import date_and_time, local_time, time_of_day
from hwd_drivers.core.errors import ConfigError

from ..answers import Answer, check_answers

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


def test_times_and_durations_are_read_as_the_file_has_them(zone: Callable[[str], None]) -> None:
    """Times: what it is now, and what is typed; what that is for --at and for --since. Clocks of Berlin go from 03:00
    back to 02:00 on 2026-10-25, and from 02:00 to 03:00 on 2027-03-28.
    """

    def in_zone(name: str) -> Callable[[str], list[str]]:
        def said(asked: str) -> list[str]:
            zone(name)
            now, _, typed = asked.partition(" |")
            found = [answer(read, typed.strip(), unix_ns(now) // 10**9) for read in (due_at, begin_at)]
            return [
                one if isinstance(one, str) else f"{datetime.fromtimestamp(one, UTC).astimezone()}" for one in found
            ]

        return said

    def seconds(asked: str) -> str:
        try:
            return f"{in_seconds(asked, option='--in')} s"
        except ConfigError as error:
            return str(error)

    answers: dict[str, Answer] = {name: in_zone(name) for name in ("UTC", "Europe/Berlin")}
    check_answers(Path(__file__).with_name("times.txt"), {**answers, "durations": seconds})


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
