"""`hwd lease`: what it prints of leases that are not granted yet, and of what ends with one."""

import pytest

from hwd.cli.commands.leases import _say_ended_sets, claim_line, delay_line, show_leases
from hwd.cli.output import Output
from hwd.cli.recorded_runs import started_at
from hwd.model.answers import HeldLease

AT_NS = 1_800_000_000 * 10**9


def reserved(**more: object) -> HeldLease:
    fields: dict[str, object] = {
        "lease": "r2",
        "kind": "reserved",
        "holder": "eva",
        "ports": ["ocs1.1"],
        "expires_in_s": 900.0,
        "for_s": 900.0,
        "at_wall_ns": AT_NS,
    }
    return HeldLease(**{**fields, **more})  # type: ignore[arg-type]


def test_a_reservation_that_cannot_begin_says_why_below_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    late = reserved(waits_for=["ocs1.1: held by prepared set s1 of ada"])
    show_leases(Output(json=False), [reserved(lease="r1"), late])
    *table, last = capsys.readouterr().out.splitlines()
    assert len(table) == 3
    assert last == (
        f"  lease r2 should have begun {started_at(AT_NS)}, and begins once its ports are free: "
        "ocs1.1: held by prepared set s1 of ada"
    )
    assert last == f"  {delay_line(late)}"


@pytest.mark.parametrize(("for_s", "bound"), [(900.0, "5 min"), (30.0, "30 s")])
def test_a_reservation_is_to_be_claimed_within_its_bound_and_before_its_end(for_s: float, bound: str) -> None:
    said = claim_line(reserved(for_s=for_s, heard_within_s=300.0))
    assert said == f"it begins by itself; claim it within {bound} then, with `hwd lease heartbeat r2`"


def test_who_waits_in_the_queue_is_listed_with_why(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = HeldLease(
        lease="w1", kind="waiting", holder="ben", ports=["ocs1.1"], expires_in_s=None, place=1, waits_for=["ocs1.1: x"]
    )
    show_leases(Output(json=False), [waiting])
    assert capsys.readouterr().out.splitlines()[-1] == "  lease w1 waits, place 1: ocs1.1: x"


def test_the_sets_that_end_with_a_lease_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _say_ended_sets(Output(json=False), reserved())
    _say_ended_sets(Output(json=False), reserved(ended_sets=["p7"]))
    assert capsys.readouterr().out == "ends with it: set p7; its switches stay as they are\n"
