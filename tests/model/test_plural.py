"""A number with its noun."""

import pytest

from hwd.model.answers import DocumentList, HeldLease
from hwd.model.plural import plural


@pytest.mark.parametrize(("count", "words"), [(0, "0 links"), (1, "1 link"), (2, "2 links")])
def test_one_thing_has_its_noun_in_the_singular(count: int, words: str) -> None:
    assert plural(count, "link") == words


def test_a_plural_of_another_ending_is_stated() -> None:
    assert [plural(count, "switch", many="switches") for count in (1, 2)] == ["1 switch", "2 switches"]


def test_answers_say_one_thing_in_the_singular() -> None:
    lease = HeldLease(lease="k3v9", holder="ada", ports=["ocs1.1"], expires_in_s=60.0)
    assert str(lease) == "lease k3v9 of ada on 1 port, 60 s left"
    assert str(DocumentList(last="b.1", missed=0, sent=[])) == "0 documents until b.1"
