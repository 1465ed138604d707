"""A bundle of a recorded run, and what somebody could have changed in it."""

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hwd.report.bundle import BundleWriter, Verification, open_bundle, recorded_report, this_program, verify
from hwd.report.bundle.contents import Part, contents
from hwd.report.bundle.manifest import Choices
from hwd.report.run_report import RunReport

from ..conftest import Recorded

Plant = Callable[..., Path]
Verified = Callable[[Path], Verification]
Edit = Callable[[Any], object]
PROGRAM = this_program(commit="f934739")


def member(bundle: Path, name: str) -> bytes:
    with zipfile.ZipFile(bundle) as found:
        return found.read(name)


def edited(bundle: Path, name: str, edit: Edit) -> dict[str, bytes | None]:
    value = json.loads(member(bundle, name))
    edit(value)
    return {name: json.dumps(value).encode()}


def with_timeline(bundle: Path, edit: Edit) -> dict[str, bytes | None]:
    """The record with its first timeline edited."""
    lines = member(bundle, "run.jsonl").split(b"\n")
    place = next(number for number, line in enumerate(lines) if line.startswith(b'{"kind":"timeline"'))
    timeline = json.loads(lines[place])
    edit(timeline["data"]["links"][0])
    lines[place] = json.dumps(timeline).encode()
    return {"run.jsonl": b"\n".join(lines)}


def write(path: Path, recorded: Recorded, *, by: list[str] | None = None, paper: str | None = None) -> Path:
    run, documents = recorded
    with path.open("wb") as to, BundleWriter(run, to, made_by=PROGRAM) as writer:
        writer.derive(writer.record(documents), by=by, compare_with=paper)
    return path


@pytest.fixture(scope="session")
def bundle(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("bundle") / "run.hwd.zip", recorded)


@pytest.fixture
def plant(bundle: Path, tmp_path: Path) -> Plant:
    """The bundle with other members. `changed`: their data; None removes one. `rehash`: the manifest says the same, as
    whoever wants to mislead would see to.
    """

    def made(
        changed: Mapping[str, bytes | None],
        *,
        rehash: bool = True,
        manifest: Callable[[dict[str, Any]], object] | None = None,
    ) -> Path:
        with zipfile.ZipFile(bundle) as found:
            members: dict[str, bytes] = {name: found.read(name) for name in found.namelist()}
        for name, data in changed.items():
            if data is None:
                del members[name]
            else:
                members[name] = data
        listed = json.loads(members.pop("manifest.json"))
        if rehash:
            holds = {member["name"]: member["holds"] for member in listed["members"]}
            listed["members"] = [
                {
                    "name": name,
                    "holds": holds.get(name, ""),
                    "bytes": len(data),
                    "sha256": hashlib.sha256(data).hexdigest(),
                }
                for name, data in members.items()
            ]
        if manifest is not None:
            manifest(listed)
        path = tmp_path / "planted.hwd.zip"
        with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as to:
            for name, data in {**members, "manifest.json": json.dumps(listed).encode()}.items():
                to.writestr(name, data)
        return path

    return made


@pytest.fixture(scope="session")
def remembered() -> Callable[[RunReport, Choices], list[Part]]:
    """What was derived from the same records before: it takes a second each time."""
    known: list[tuple[RunReport, Choices, list[Part]]] = []

    def derived(report: RunReport, choices: Choices) -> list[Part]:
        for one, chosen, parts in known:
            if (one, chosen) == (report, choices):
                return parts
        known.append((report, choices, [*contents(report, choices)]))
        return known[-1][2]

    return derived


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch, remembered: Callable[[RunReport, Choices], list[Part]]) -> Verified:
    monkeypatch.setattr("hwd.report.bundle.verification.contents", remembered)

    def made(path: Path) -> Verification:
        with open_bundle(path) as archive:
            return verify(archive, recorded_report(archive, lambda documents: documents), verified_by=PROGRAM)

    return made
