"""What is in a bundle, and that the same run gives the same bytes."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hwd.report.bundle import BundleWriter
from hwd.report.bundle.archive import SMALL_BYTES, TIMES_SMALLER_MAX
from hwd.report.export import jsonl, read_jsonl
from hwd.report.figures.figures import Figures
from hwd.report.figures.render import specification
from hwd.report.page.html import html
from hwd.report.run_report import of_documents
from hwd.report.stages import stage_table
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.structs import to_json

from ..conftest import Recorded
from .conftest import PROGRAM, write


def test_same_run_gives_the_same_bytes_into_a_file_and_into_a_pipe(recorded: Recorded, bundle: Path) -> None:
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: Any) -> int:
            self.data += bytes(data)
            return len(data)

        def seekable(self) -> bool:
            return False

    pipe = Pipe()
    run, documents = recorded
    with BundleWriter(run, pipe, made_by=PROGRAM) as writer:  # type: ignore[arg-type]
        writer.derive(writer.record(documents), by=None, compare_with=None)
    assert pipe.data == bundle.read_bytes()


def test_record_is_the_export_as_json_lines(recorded: Recorded, bundle: Path) -> None:
    to = io.BytesIO()
    jsonl(*recorded, to)
    with zipfile.ZipFile(bundle) as found:
        assert found.read("run.jsonl") == to.getvalue()
        run, documents = read_jsonl(found.open("run.jsonl"))
        assert (run, tuple(documents)) == recorded


def test_tables_figures_and_page_are_those_of_the_report(recorded: Recorded, bundle: Path) -> None:
    report = of_documents(*recorded)
    with zipfile.ZipFile(bundle) as found:
        manifest = json.loads(found.read("manifest.json"))
        by = manifest["report"]["by"]
        assert found.read("report.html").decode() == html([report], by=by)
        stages = json.loads(found.read("tables/stages.json"))
        assert stages["rows"] == json.loads(to_json(stage_table([report], by=by)))
        figures = Figures.of([report], by=by, compare_with=None, comparisons=()).all
        assert len(figures) > 2
        assert [name for name in found.namelist() if name.startswith("figures/")] == [
            f"figures/{figure.name}.json" for figure in figures
        ]
        for figure in figures:
            told = json.loads(found.read(f"figures/{figure.name}.json"))
            drawn = json.loads(json.dumps(specification(figure, 1160)))
            assert told["title"] == figure.title
            assert {key: told["specification"][key] for key in drawn} == drawn
            assert drawn["datasets"]


def test_readme_and_manifest_say_what_each_member_holds(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as found:
        manifest = json.loads(found.read("manifest.json"))
        assert {member["name"] for member in manifest["members"]} == {*found.namelist()} - {"manifest.json"}
        assert all(member["holds"] for member in manifest["members"])
        about = found.read("README.txt").decode()
        assert "hwd verify" in about
        for name in ("run.jsonl", "report.html", "tables/", "figures/", "manifest.json"):
            assert f"\n{name}" in about
        assert max(map(len, about.splitlines())) <= 120


def test_report_follows_the_choices(recorded: Recorded, tmp_path: Path) -> None:
    path = write(tmp_path / "made.hwd.zip", recorded, by=["link"], paper="opus")
    with zipfile.ZipFile(path) as found:
        assert json.loads(found.read("manifest.json"))["report"] == {"by": ["link"], "compare_with": "opus"}
        groups = {tuple(row["group"]) for row in json.loads(found.read("tables/stages.json"))["rows"]}
    assert ("h0.eth0<->h1.eth1",) in groups


def test_members_are_not_packed_as_tightly_as_what_is_refused(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as found:
        for entry in found.infolist():
            assert entry.file_size * 4 < SMALL_BYTES + TIMES_SMALLER_MAX * entry.compress_size


def test_run_that_is_too_large_is_refused_with_another_way(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hwd.report.bundle.manifest.RECORD_BYTES_MAX", 20_000)
    with pytest.raises(ConfigError, match=r"run.jsonl: is over .* --as jsonl"):
        write(tmp_path / "made.hwd.zip", recorded)
