"""Exports as streams: the same run gives the same bytes, document by document, in bounded memory; and JSON lines."""

import io
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.model.kinds import KINDS, UnreadFact
from hwd.model.reconfiguration import ReconfigurationFact
from hwd.model.recorded_run import Run
from hwd.model.run import RunState
from hwd.report.bundle import BundleWriter, this_program
from hwd.report.export import bluesky, csv, jsonl, perfetto, read_jsonl, rows
from hwd.report.export.trace import SLACK_NS
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError

from ..conftest import HERE, Recorded


def record_of_a_bundle(run: Run, documents: Iterable[Document], to: BinaryIO) -> None:
    with BundleWriter(run, to, made_by=this_program(commit=None)) as writer:
        writer.record(documents)


Export = Callable[[Run, Iterable[Document], Any], object]
EXPORTS: dict[str, Export] = {"jsonl": jsonl, "csv": csv, "perfetto": perfetto, "bluesky": bluesky}


class Nowhere(io.RawIOBase):
    """Counts bytes and keeps none."""

    size = 0

    def write(self, data: Any) -> int:
        self.size += len(data)
        return len(data)


def repeated(documents: tuple[Document, ...], times: int) -> Iterator[Document]:
    """The same again and again, each time as reconfigurations of their own."""
    lasts_ns = documents[-1].at_ns + 10 * SLACK_NS
    for number in range(times):
        for one in documents:
            fact, later_ns = one.fact, number * lasts_ns
            if isinstance(fact, ReconfigurationFact):
                fact = msgspec.structs.replace(fact, reconfiguration=f"{fact.reconfiguration}-{number}")
            yield replace(one, at_ns=one.at_ns + later_ns, wall_ns=one.wall_ns + later_ns, fact=fact)


@pytest.mark.parametrize("export", EXPORTS)
def test_same_run_gives_the_same_bytes(recorded: Recorded, export: str) -> None:
    first, second = io.BytesIO(), io.BytesIO()
    EXPORTS[export](*recorded, first)
    EXPORTS[export](*recorded, second)
    assert first.getvalue() == second.getvalue()


@pytest.mark.parametrize("export", [*EXPORTS, "bundle"])
def test_memory_does_not_grow_with_the_run(recorded: Recorded, export: str) -> None:
    run, documents = recorded

    def most(times: int) -> int:
        to = Nowhere()
        tracemalloc.start()
        EXPORTS.get(export, record_of_a_bundle)(run, repeated(documents, times), to)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert to.size > times * 100
        return most

    most(1)
    assert most(32) < 1.3 * most(4)


def test_rows_come_before_all_documents_were_read(recorded: Recorded) -> None:
    taken = 0

    def counted() -> Iterator[Document]:
        nonlocal taken
        for document in recorded[1]:
            taken += 1
            yield document

    list(islice(rows(recorded[0], counted()), 1))
    assert 0 < taken < len(recorded[1]) * 0.7


# --- JSON lines: nothing left out, nothing changed


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
    jsonl(msgspec.structs.replace(run, state=RunState.RUNNING), (), with_state)
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
