"""Overruns: what another client made between our read and our write is named, whether or not our change succeeds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.values import Crossconnect, Exchange, PortSide, Side
from hwd_drivers.switching.moves import SwitchMoves
from hwd_drivers.switching.overrun import Overrun, OverrunWatch, taken_crossconnects

from ..parts import pairs
from .conftest import moves


def exchange(before: str | None, commanded_ns: int = 4_000_000) -> Exchange:
    there = None if before is None else pairs(before)
    return Exchange(commanded_ns=commanded_ns, acknowledged_ns=commanded_ns, commands=1, before=there)


@pytest.mark.parametrize(
    ("move", "before", "lost"),
    [
        (moves(add="1A-2B"), "1A-7B", "1A-7B"),
        (moves(add="1A-2B"), "1A-7B 8A-2B 3A-4B", "1A-7B 8A-2B"),
        (moves(add="1A-2B"), "1A-2B", ""),  # they made what we want
        (moves(add="1A-2B", remove="1A-7B", before="1A-7B"), "1A-7B", ""),  # it was there, and is to go
        (moves(remove="1A-7B", before="1A-7B"), "1A-8B", "1A-8B"),
        (moves(add="1A-2B", before="5A-6B"), "3A-4B", ""),  # elsewhere
        (moves(add="1A-2B"), None, ""),  # this switch does not tell
    ],
)
def test_an_unplanned_crossconnect_at_a_driven_end_counts_as_taken(
    move: SwitchMoves, before: str | None, lost: str
) -> None:
    assert taken_crossconnects(move, exchange(before)) == pairs(lost)


ENDS = st.integers(1, 6)
CROSSCONNECTS = st.builds(
    lambda a, b: Crossconnect(a=PortSide(port=str(a), side=Side.A), b=PortSide(port=str(b), side=Side.B)), ENDS, ENDS
)


@given(*(st.lists(CROSSCONNECTS, unique=True, max_size=6) for _ in range(3)))
def test_on_ports_that_are_not_ours_nothing_is_ever_overrun(
    theirs: list[Crossconnect], add: list[Crossconnect], remove: list[Crossconnect]
) -> None:
    """Two reconfigurations of ours have no port in common, so that what one makes is no overrun of the other."""
    ports = {end.port for one in (*add, *remove) for end in one.ends}
    elsewhere = tuple(one for one in theirs if ports.isdisjoint(end.port for end in one.ends))
    move = SwitchMoves(switch="ocs1", remove=tuple(remove), add=tuple(add), keep=(), before=tuple(remove))
    assert taken_crossconnects(move, Exchange(commanded_ns=0, acknowledged_ns=0, commands=1, before=elsewhere)) == ()


def test_what_is_there_at_the_read_back_is_not_lost_and_the_rest_is_told_once_as_where_there_was_none() -> None:
    told: list[Overrun] = []
    watch = OverrunWatch("ocs1", told.append)
    watch.changed(moves(add="1A-2B 3A-4B"), exchange("1A-7B 3A-8B"), read_ns=1_000_000)
    watch.read_back(pairs("1A-2B 3A-8B"))
    watch.close()
    assert told == [Overrun(switch="ocs1", lost=pairs("1A-7B"), window_s=0.003)]
    assert watch.lost == pairs("1A-7B")
    assert str(told[0]).startswith("ocs1: overrun: 1A-7B of another client came in the 3.0 ms between our read and our")
    told.clear()
    watch = OverrunWatch("ocs1", told.append)
    watch.changed(moves(add="1A-2B"), exchange("1A-7B"), read_ns=0)
    watch.close()
    assert [one.lost for one in told] == [pairs("1A-7B")]
