"""JSON lines: nothing left out, nothing changed."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hwd.model.kinds import KINDS, UnreadFact
from hwd.model.recorded_run import Run
from hwd.model.run import RunState
from hwd.report.export import jsonl, read_jsonl
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError

from ..conftest import HERE, Recorded

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_lines_are_as_they_were_agreed(recorded: Recorded) -> None:
    to = io.BytesIO()
    jsonl(*recorded, to)
    assert to.getvalue() == (HERE / "run.jsonl").read_bytes()


@given(
    st.lists(
        st.tuples(st.text().filter(lambda kind: kind not in KINDS), st.dictionaries(st.text(), JSON, max_size=4)),
        max_size=5,
    )
)
def test_any_document_comes_back_as_it_was(told: list[tuple[str, dict[str, object]]]) -> None:
    run = Run(id="r", playbook="p", testbed="t", version="0", started_wall_ns=1)
    documents = tuple(Document(at_ns=-1, wall_ns=2, fact=UnreadFact(kind=kind, fields=fields)) for kind, fields in told)
    to = io.BytesIO()
    jsonl(run, documents, to)
    assert to.getvalue().count(b"\n") == 1 + len(documents)
    again, found = read_jsonl(to.getvalue().splitlines())
    assert (again, tuple(found)) == (run, documents)


def test_half_a_surrogate_pair_is_written_as_its_escape() -> None:
    run = Run(id="r", playbook="\ud800", testbed="t", version="0", started_wall_ns=1)
    to = io.BytesIO()
    jsonl(run, (), to)
    assert read_jsonl([to.getvalue()])[0] == run


def test_the_state_of_a_run_in_an_answer_is_not_written() -> None:
    run = Run(id="r", playbook="p", testbed="t", version="0", started_wall_ns=1)
    with_state, without = io.BytesIO(), io.BytesIO()
    jsonl(replace(run, state=RunState.RUNNING), (), with_state)
    jsonl(run, (), without)
    assert with_state.getvalue() == without.getvalue()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "line 1: is no run"),
        (['{"kind": "run.started"}'], "line 1: is no run"),
        (['{"kind": "run"}'], "line 1: is no run"),
        (['{"kind": "run", "run": {"id": 7}}'], "line 1: is no run: id: expected str, got int"),
        (["{"], "line 1: is no JSON"),
        (["[]"], "line 1: is no JSON object"),
    ],
)
def test_file_of_something_else_is_refused(lines: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_jsonl(lines)


def test_line_that_is_no_document_is_named() -> None:
    first = (HERE / "run.jsonl").read_text().splitlines()[0]
    _, documents = read_jsonl([first, '{"kind": "x"}'])
    with pytest.raises(ConfigError, match="line 2: is no document: it lacks 'at_ns'"):
        list(documents)
