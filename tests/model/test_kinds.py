import pytest

from hwd.model.kinds import KINDS, check
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import BugError


def document(kind: str, **data: str) -> Document:
    return Document(kind=kind, at_ns=1, wall_ns=2, data=data)


def test_document_with_its_fields_and_more_passes() -> None:
    check(document("bus.down", address="a", cause="c", more="m"))


def test_missing_field_is_named() -> None:
    with pytest.raises(BugError, match=r"bus\.down lacks address"):
        check(document("bus.down", cause="c"))


def test_unknown_kind_is_a_bug() -> None:
    with pytest.raises(BugError, match=r"'bus\.sideways' is not a kind"):
        check(document("bus.sideways"))


def test_kinds_are_written_subject_first() -> None:
    assert all(kind == "timeline" or kind.count(".") == 1 for kind in KINDS)
