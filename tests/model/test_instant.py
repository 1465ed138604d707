import pytest

from hwd.model.instant import Instant, InstantName, Knowledge, Origin
from hwd_drivers.core.errors import BugError


def test_instant_lies_in_the_middle_of_its_bound() -> None:
    instant = Instant.seen(InstantName.CARRIER, earliest_ns=100, latest_ns=107)
    assert (instant.at_ns, instant.error_ns) == (103, 4)


def test_bound_that_ends_before_it_begins_is_a_bug() -> None:
    with pytest.raises(BugError, match="earliest 2 ns is after latest 1 ns"):
        Instant.seen(InstantName.DARK, earliest_ns=2, latest_ns=1)


def test_unknown_and_never_left_say_why() -> None:
    assert Instant.unknown(InstantName.FIRMWARE, "no source").knowledge is Knowledge.UNKNOWN
    assert Instant.never_left(InstantName.LIGHT, "kept link").why == "kept link"


def test_figure_made_of_two_has_the_weaker_origin() -> None:
    assert Origin.MEASURED.weakest(Origin.TWIN) is Origin.TWIN
    assert Origin.FITTED.weakest(Origin.KERNEL) is Origin.FITTED
