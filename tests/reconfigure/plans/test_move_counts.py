"""Counts of moves in their windows, over restarts and steps of the wall clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from hwd.daemon.installed_drivers import load_text
from hwd.interlocks import NO_MOTION
from hwd.model.interlock import InterlockRules
from hwd.model.testbed import Testbed
from hwd.reconfigure.plans.move_counts import HOUR_NS, READ_AT_ONCE, MoveCounts
from hwd.records.entry import entry
from hwd.records.records import Records
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.facts import SwitchCommand

from .conftest import TWO_HOSTS

S = 1_000_000_000
LIMITS = InterlockRules(moves_per_hour_max={"ocs1": 9}, changes_max={"ocs1": 9}, rate_s=60.0)


class SetClock:
    """A clock whose two times a test sets."""

    def __init__(self, *, monotonic_s: float = 1000, wall_s: float = 1_700_000_000) -> None:
        self.monotonic_s, self.wall_s = monotonic_s, wall_s

    def monotonic_ns(self) -> int:
        return round(self.monotonic_s * S)

    def wall_ns(self) -> int:
        return round(self.wall_s * S)

    def kernel_bounds_ns(self, stamp_ns: int) -> tuple[int, int]:
        return 0, self.monotonic_ns()

    def from_kernel_ns(self, stamp_ns: int) -> int:
        return self.monotonic_ns()

    def pass_s(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds

    def document(self, *moved: str) -> Document:
        fact = SwitchCommand(
            switch="ocs1", verb="connect", outcome="done", seconds=0.1, code="", text="", moved=[*moved]
        )
        return Document(at_ns=self.monotonic_ns(), wall_ns=self.wall_ns(), fact=fact)


def limited(rules: InterlockRules = LIMITS) -> Testbed:
    return replace(load_text(TWO_HOSTS, file="testbed.yaml").require(), interlocks=rules)


@asynccontextmanager
async def recorded(*documents: Document) -> AsyncIterator[Records]:
    records = Records("sqlite://", InlineOffload())
    await records.open()
    await records.add([entry(one, run=None) for one in documents])
    try:
        yield records
    finally:
        records.close()


def test_a_change_leaves_each_window_when_its_time_is_over() -> None:
    clock = SetClock()
    counts = MoveCounts(limited(), clock)
    counts(clock.document("1A", "2B"))
    clock.pass_s(59)
    counts(clock.document("1A"))
    assert counts.of(["ocs1"]).changes == {"ocs1": 2}
    clock.pass_s(1)
    assert counts.of(["ocs1"]).changes == {"ocs1": 1}
    assert counts.of(["ocs1"]).in_hour == {"ocs1": {"1A": 2, "2B": 1}}
    clock.pass_s(3600 - 60)
    assert {element: count for element, count in counts.of(["ocs1"]).in_hour["ocs1"].items() if count} == {"1A": 1}
    clock.pass_s(60)
    assert counts.of(["ocs1"]).in_hour == {"ocs1": {}}
    assert counts.of(["ocs1"]).in_life == {"ocs1": {"1A": 2, "2B": 1}}


def test_a_step_of_the_wall_clock_changes_nothing_while_the_daemon_is_up() -> None:
    clock = SetClock()
    counts = MoveCounts(limited(), clock)
    counts(clock.document("1A"))
    for step_s in (+1e6, -3e6):
        clock.wall_s += step_s
        assert counts.of(["ocs1"]).changes == {"ocs1": 1}


async def test_after_a_restart_the_ages_are_those_of_the_wall_clock() -> None:
    clock = SetClock()
    old = clock.document("1A")
    clock.pass_s(HOUR_NS / S - 50)
    async with recorded(old, clock.document("1A", "2B")) as records:
        clock.monotonic_s = 5.0  # another boot
        clock.wall_s += 20
        counts = MoveCounts(limited(), clock)
        await counts.load(records)
        assert counts.of(["ocs1"]).changes == {"ocs1": 1}
        assert counts.of(["ocs1"]).in_hour == {"ocs1": {"1A": 2, "2B": 1}}
        clock.pass_s(41)
        assert counts.of(["ocs1"]).changes == {"ocs1": 0}
        assert counts.of(["ocs1"]).in_hour["ocs1"]["1A"] == 1


async def test_a_wall_clock_that_was_set_back_holds_a_change_for_one_window_and_no_longer() -> None:
    clock = SetClock()
    async with recorded(clock.document("1A")) as records:
        clock.wall_s -= 10 * 24 * 3600
        counts = MoveCounts(limited(), clock)
        await counts.load(records)
        assert counts.of(["ocs1"]).changes == {"ocs1": 1}
        clock.pass_s(60)
        assert counts.of(["ocs1"]).changes == {"ocs1": 0}


async def test_more_commands_than_one_query_reads_are_all_counted() -> None:
    clock = SetClock()
    documents = [clock.document("1A") for _ in range(READ_AT_ONCE + 7)]
    async with recorded(*documents) as records:
        counts = MoveCounts(limited(), clock)
        await counts.load(records)
    assert counts.of(["ocs1"]).changes == {"ocs1": READ_AT_ONCE + 7}
    assert counts.of(["ocs1"]).in_life == {"ocs1": {"1A": READ_AT_ONCE + 7}}


def test_of_switches_without_a_limit_nothing_is_asked() -> None:
    clock = SetClock()
    counts = MoveCounts(limited(InterlockRules()), clock)
    counts(clock.document("1A"))
    assert counts.of(["ocs1"]) is NO_MOTION
    assert MoveCounts(limited(), clock).of(["x"]) is NO_MOTION
