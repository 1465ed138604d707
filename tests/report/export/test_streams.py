"""Exports as streams: the same run gives the same bytes, document by document, in bounded memory."""

import io
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO

import msgspec
import pytest

from hwd.model.documents.reconfigurations import ReconfigurationFact
from hwd.model.recorded_run import Run
from hwd.report.bundle import BundleWriter, this_program
from hwd.report.export import bluesky, csv, jsonl, perfetto, rows
from hwd.report.export.trace import SLACK_NS
from hwd_drivers.core.documents import Document

from ..conftest import Recorded


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
