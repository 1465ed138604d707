"""`hwd report`, `compare` and `export` on the records of a data directory, without a daemon."""

import csv
import dataclasses
import io
import json
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from hwd.cli.output import size
from hwd.model.daemon import DaemonRecovered
from hwd.model.hang import Hang
from hwd.model.instant import Instant
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.recorded_run import RunOutcome
from hwd.model.run_facts import RunStep
from hwd.model.stage import StageName
from hwd.model.timeline import Timeline
from hwd_drivers.core.documents import Document, Fact

from ..conftest import EMPTY, FIRST, REAL, RECORDED, SECOND, fill, recorded

ROWS = 2 + 32
"""Of the table: two commands of a switch; eight stages of two links, twice."""


@pytest.fixture(autouse=True)
def commands_that_read_records_change_nothing_of_their_folder(data: str) -> Iterator[None]:
    def state() -> dict[str, tuple[int, bytes]]:
        found = {one.name: (one.stat().st_mtime_ns, one.read_bytes()) for one in Path(data).iterdir()}
        return {".": (Path(data).stat().st_mtime_ns, b""), **found}

    before = state()
    yield
    assert state() == before


def test_report_is_one_page_and_drawings_for_a_paper(hwd: Any, data: str, tmp_path: Path) -> None:
    page, folder, paper = tmp_path / "r.html", tmp_path / "svg", tmp_path / "r.pdf"
    to = ("-o", str(page), "--svg", str(folder), "--pdf", str(paper))
    said = hwd("report", FIRST[:3], SECOND, "--data", data, *to, "--json")
    assert said.status == 0, said.err
    assert page.read_text().startswith("<!doctype html>")
    assert paper.read_bytes().startswith(b"%PDF")
    names = {path.name for path in folder.iterdir()}
    assert {f"waterfall-{FIRST}.svg", f"waterfall-{SECOND}.svg", "distributions.svg", "comparison.svg"} <= names
    assert said.json["files"][:1] + said.json["files"][-1:] == [str(page), str(paper)]
    assert sorted(said.json["files"][1:-1]) == sorted(str(folder / name) for name in names)
    assert 'width="7in"' in (folder / "distributions.svg").read_text()


def test_drawings_are_as_wide_as_one_column_where_that_is_asked_for_and_a_device_stays_one(
    hwd: Any, data: str, tmp_path: Path
) -> None:
    devices = [tmp_path / "page", tmp_path / "paper"]
    for one in devices:
        one.symlink_to(os.devnull)
    to = ("-o", str(devices[0]), "--pdf", str(devices[1]), "--svg", str(tmp_path), "--column", "single")
    said = hwd("report", FIRST, "--data", data, *to)
    assert said.status == 0, said.err
    assert 'width="3.33in"' in (tmp_path / "waterfall.svg").read_text()
    assert all(one.is_symlink() for one in devices)
    assert Path(os.devnull).is_char_device()


def test_run_without_links_has_a_page_but_nothing_to_draw(hwd: Any, data: str, tmp_path: Path) -> None:
    page, paper = tmp_path / "r.html", tmp_path / "r.pdf"
    assert hwd("report", EMPTY, "--data", data, "-o", str(page)).status == 0
    said = hwd("report", EMPTY, "--data", data, "-o", str(page), "--pdf", str(paper))
    assert said.status == 2
    assert "nothing to draw" in said.err
    assert not paper.exists()


def test_the_date_of_a_run_in_virtual_time_says_so(hwd: Any, data: str) -> None:
    listed = hwd("runs", "--data", data).out.splitlines()
    for id, virtual in ((FIRST, True), (REAL, False)):
        assert ("(virtual), took" in hwd("show", id, "--data", data).out) is virtual
        assert ("(virtual)" in next(line for line in listed if id in line)) is virtual
    assert hwd("show", FIRST, "--data", data, "--json").json["virtual_time"] is True
    assert hwd("show", "nobody", "--data", data).status == 2


def test_runs_are_compared(hwd: Any, data: str) -> None:
    said = hwd("compare", FIRST, SECOND, "--data", data)
    assert said.status == 0
    assert "note: no interval where a run has fewer than 6 reconfigurations of a topology" in said.out
    assert "turnaround" in said.out
    found = hwd("compare", FIRST, SECOND, "--data", data, "--json").json
    assert found["runs"] == [FIRST, SECOND]
    assert {row["shift_s"] for row in found["rows"]} == {0.0}
    assert {row["shift_within_s"] for row in found["rows"]} == {None}


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("jsonl", "jsonl"),
        ("csv", "csv"),
        ("parquet", "parquet"),
        ("perfetto", "pftrace"),
        ("bluesky", "bluesky.jsonl"),
        ("bundle", "hwd.zip"),
    ],
)
def test_run_is_exported_to_a_file_of_its_name_and_into_a_pipe_which_stays_one(
    hwd: Any, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, ending: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = hwd("export", FIRST[:4], "--as", kind, "--data", data, "--json")
    assert said.status == 0, said.err
    file, pipe, piped = tmp_path / f"{FIRST}.{ending}", tmp_path / "pipe", tmp_path / "piped"
    rows = ROWS if kind in ("csv", "parquet") else None
    assert said.json == {"file": str(file), "run": FIRST, "as": kind, "bytes": file.stat().st_size, "rows": rows}
    assert [*tmp_path.iterdir()] == [file], "no half of it is left beside"
    os.mkfifo(pipe)
    with piped.open("wb") as to, subprocess.Popen(["cat", pipe], stdout=to) as reader:
        assert hwd("export", FIRST, "--as", kind, "--data", data, "-o", str(pipe)).status == 0
        assert reader.wait(timeout=10) == 0
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert piped.read_bytes() == file.read_bytes()


def test_lines_read_from_records_page_by_page_are_the_run(
    hwd: Any, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hwd.cli.recorded_runs.PAGE", 7)
    assert hwd("export", FIRST, "--as", "jsonl", "--data", data, "-o", str(tmp_path / "x")).status == 0
    lines = [json.loads(line) for line in (tmp_path / "x").read_bytes().splitlines()]
    wanted = [json.loads(line) for line in RECORDED.read_bytes().splitlines()]
    assert [one["kind"] for one in lines] == [one["kind"] for one in wanted]
    assert lines == wanted


def test_export_goes_into_a_pipe(data: str, places: Path) -> None:
    command = [sys.executable, "-m", "hwd.cli", "export", FIRST, "--as", "csv", "--data", data, "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    assert len([*csv.DictReader(io.StringIO(done.stdout))]) == ROWS


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_table_says_its_rows_and_its_size_and_where_nothing_is_in_it(
    hwd: Any, data: str, tmp_path: Path, kind: str
) -> None:
    for run, rows, note in ((EMPTY, 0, f"run {EMPTY}: the table has only its heading"), (FIRST, ROWS, "")):
        file = tmp_path / run
        said = hwd("export", run, "--as", kind, "--data", data, "-o", str(file))
        assert said.status == 0
        assert said.out == f"{file}: run {run}, {rows} rows, {size(file.stat().st_size)}\n"
        assert note in said.err
        assert bool(note) is bool(said.err)


def test_reader_that_has_had_enough_ends_an_export_in_good_order(data: str, places: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "hwd.cli", "export", FIRST, "--as", "jsonl", "--data", data, "-o", "-"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_trace_is_not_written_to_a_terminal(data: str, places: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "hwd.cli", "export", FIRST, "--as", "perfetto", "--data", data, "-o", "-"]
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert "standard output is a terminal" in done.stderr


def test_missing_library_says_how_to_install_it(
    hwd: Any, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = hwd("export", FIRST, "--as", "parquet", "--data", data, "-o", str(tmp_path / "x"))
    assert said.status == 2
    assert "pip install '.[export]'" in said.err
    assert not (tmp_path / "x").exists()


def test_crashed_run_says_which_step_did_not_end_and_that_its_switches_were_brought_back(
    hwd: Any, tmp_path: Path
) -> None:
    crashed = replace(recorded()[0], id=FIRST, outcome=RunOutcome.CRASHED, safe_state=None)
    step = RunStep(run=FIRST, step=1, what="apply ring", state="started", done=0, total=1, expected_s=None)
    back = DaemonRecovered(run=FIRST, reconfiguration="r1", outcome="rolled-back", why="")
    documents = [Document(at_ns=1, wall_ns=1_700_000_000_000_000_000, fact=fact) for fact in (step, back)]
    fill(tmp_path, (crashed, documents))
    said = hwd("show", FIRST, "--data", str(tmp_path))
    assert said.status == 0, said.err
    assert "switches unknown at its end; brought back at " in said.out
    assert any(line.split() == ["1", "apply", "ring", "not", "ended"] for line in said.out.splitlines())
    found = hwd("show", FIRST, "--data", str(tmp_path), "--json").json
    assert found["steps"] == [{"step": 1, "what": "apply ring", "state": "not ended"}]


@pytest.mark.parametrize("told", [True, False], ids=["found when it was not ready", "by its instants"])
def test_links_of_a_reconfiguration_that_was_not_ready_hang_somewhere(hwd: Any, tmp_path: Path, told: bool) -> None:
    """The second of the run, rolled back: its timeline lacks the firmware of one end, and all that follows.

    Its playbook names another paper than that from which its twins draw: the report has the figures of that one.
    """
    link, end = "h0.eth0<->h1.eth1", "h1.eth1"
    hang = Hang(
        link=Link.parse(link), end=NicPortId.parse(end), stage=StageName.FIRMWARE, why="the PHY is down; light is there"
    )

    def changed(fact: Fact) -> Fact:
        match fact:
            case ReconfigurationEnded(reconfiguration="8eop46tj"):
                found = [hang] if told else UNSET
                return replace(fact, outcome="rolled-back", why="somebody wanted it", hangs=found)
            case Timeline(reconfiguration="8eop46tj"):
                links = [
                    replace(one, instants=_unseen(one.instants, "")) if one.link == link else one for one in fact.links
                ]
                ends = [
                    replace(one, instants=_unseen(one.instants, "no event reports it (9 samples)"))
                    if (one.link, one.end) == (link, end)
                    else one
                    for one in fact.ends
                ]
                return replace(fact, links=links, ends=ends)
        return fact

    run, found = recorded()
    documents = [dataclasses.replace(one, fact=changed(one.fact)) for one in found]
    text = f"{run.playbook_text}report: {{compare_with: mfabric-prototype}}\n"
    fill(tmp_path, (replace(run, id=FIRST, outcome=RunOutcome.FAILED, playbook_text=text), documents))
    why = "the PHY is down; light is there" if told else "no event reports it (9 samples)"
    said = hwd("show", FIRST, "--data", str(tmp_path))
    assert said.status == 0, said.err
    line = f"8eop46tj rolled-back: {link} hangs at {end}, firmware: {why}"
    assert [one for one in said.out.splitlines() if "hangs" in one] == [line]
    data = hwd("show", FIRST, "--data", str(tmp_path), "--json").json
    assert data["hangs"] == {"8eop46tj": [{"link": link, "end": end, "stage": "firmware", "why": why, "powers": []}]}
    page = tmp_path / "report.html"
    assert hwd("report", FIRST, "--data", str(tmp_path), "-o", str(page)).status == 0
    assert f"hangs at {end}, firmware: {why}" in page.read_text()
    assert "mfabric fig. 12: " in page.read_text()


def _unseen(instants: Sequence[Instant], why: str) -> tuple[Instant, ...]:
    """The firmware and all after it were not seen."""
    later = ("firmware", "carrier", "rdma", "ready")
    return tuple(Instant.unknown(one.name, why) if one.name in later else one for one in instants)
