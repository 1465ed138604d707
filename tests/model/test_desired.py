"""What moves want of fibre ends, and how a switch differs from that."""

from hypothesis import given
from hypothesis import strategies as st

from hwd.model.desired import (
    DesiredEnd,
    crossconnects_of,
    difference,
    free_ends_of,
    wanted_of,
    wanting,
)
from hwd.model.documents.reconfigurations import WantedSwitch
from hwd.model.link import SwitchEnd
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortSide
from hwd_drivers.switching.moves import SwitchMoves


def many(*texts: str) -> tuple[Crossconnect, ...]:
    return tuple(map(Crossconnect.parse, texts))


def moves(*, remove: str = "", add: str = "", keep: str = "") -> SwitchMoves:
    removed, added, kept = (many(*text.split()) for text in (remove, add, keep))
    return SwitchMoves(switch="ocs1", remove=removed, add=added, keep=kept, before=(*removed, *kept))


def wanted(crossconnects: str = "", free: str = "") -> WantedSwitch:
    return WantedSwitch(switch="ocs1", crossconnects=crossconnects.split(), free=free.split())


def ends(*after: WantedSwitch) -> dict[PortSide, DesiredEnd]:
    found: dict[PortSide, DesiredEnd] = {}
    for number, one in enumerate(after):
        found = wanting(found, one, by=f"r{number}")
    return found


def reading(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> CrossconnectReading:
    return CrossconnectReading(crossconnect=Crossconnect.parse(text), state=state)


def test_moves_want_what_they_add_and_keep_and_free_ends_that_they_leave() -> None:
    assert wanted_of([moves(remove="1A-2B 3A-4B", add="1A-4B", keep="5A-6B")]) == [wanted("1A-4B 5A-6B", "2B 3A")]


def test_freed_end_is_wanted_free_though_nothing_moves() -> None:
    freed = [SwitchEnd(switch="ocs1", end=PortSide.parse("9A"))]
    assert wanted_of([moves()], freed) == [wanted("", "9A")]
    assert wanted_of([moves()]) == []


def test_last_reconfiguration_of_an_end_counts_and_its_partner_is_free() -> None:
    after = ends(wanted("1A-2B 3A-4B"), wanted("1A-4B"))
    assert (crossconnects_of(after), free_ends_of(after)) == (many("1A-4B"), tuple(map(PortSide.parse, ("2B", "3A"))))
    assert {str(end): one.by for end, one in after.items()} == {"1A": "r1", "2B": "r1", "3A": "r1", "4B": "r1"}
    assert ends(wanted("1A-2B"), wanted("1A-2B")).keys() == ends(wanted("1A-2B")).keys()


def test_difference_tells_missing_from_stale_from_what_nobody_asked_for() -> None:
    found = difference("ocs1", ends(wanted("1A-2B 3A-4B", "5A")), [*map(reading, ("3A-4B", "1A-7B", "5A-8B", "9A-9B"))])
    assert (found.missing, found.stale, found.unasked) == (many("1A-2B"), many("1A-7B", "5A-8B"), many("9A-9B"))
    assert str(found) == "ocs1: 1A-2B is missing, 1A-7B is stale, 5A-8B is stale"


def test_failed_crossconnect_is_missing_and_ports_that_do_not_count_are_left_out() -> None:
    failed = [reading("1A-2B", CrossconnectState.FAILED)]
    assert difference("ocs1", ends(wanted("1A-2B")), failed).missing == many("1A-2B")
    assert not difference("ocs1", ends(wanted("1A-2B")), failed, but=frozenset({"ocs1.2"}))


def test_what_nobody_asked_for_is_no_difference() -> None:
    assert not difference("ocs1", {}, [reading("1A-2B")])


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(1, 4), st.integers(1, 4)),
            max_size=3,
            unique_by=(lambda one: one[0], lambda one: one[1]),
        )
    )
)
def test_an_end_is_wanted_in_one_crossconnect_at_most_and_both_of_its_ends_agree(
    steps: list[list[tuple[int, int]]],
) -> None:
    after = ends(*(wanted(" ".join(f"{a}A-{b}B" for a, b in pairs)) for pairs in steps))
    for end, one in after.items():
        if one.crossconnect is not None:
            assert end in one.crossconnect.ends
            assert [after[other].crossconnect for other in one.crossconnect.ends] == [one.crossconnect] * 2
