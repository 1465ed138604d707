"""`hwd verify` on bundles that `hwd export` wrote, whole, changed and damaged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hwd.cli.commands.verify import SHOWN_MAX
from hwd.cli.run_command import run

from ...report.bundle.conftest import Plant, edited, plant
from ..conftest import FIRST as RUN
from ..conftest import fill, recorded, seen_on_a_terminal

__all__ = ["plant"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, data: str, places: Path) -> Path:
    path = tmp_path_factory.mktemp("bundles") / "run.hwd.zip"
    assert run(("export", RUN, "--as", "bundle", "--data", data, "-o", str(path))) == 0
    return path


def test_bundle_is_equal(hwd: Any, bundle: Path) -> None:
    said = hwd("verify", str(bundle))
    assert (said.status, said.err) == (0, "")
    assert said.out == f"{bundle}: run {RUN}, 4 figures, 6 tables, 1 page: equal\n"
    told = hwd("verify", str(bundle), "--json").json
    assert (told["equal"], told["run"], told["figures"], told["differences"]) == (True, RUN, 4, [])
    assert told["made_by"] == told["verified_by"]


def test_what_differs_is_said_to_people_and_to_programs(hwd: Any, bundle: Path, plant: Plant) -> None:
    path = plant(edited(bundle, "tables/stages.json", lambda table: table["rows"][0].update(median_s=0.1)))
    said = hwd("verify", str(path))
    assert said.status == 1
    assert said.out.splitlines() == [
        "tables/stages: virtual time, ocs1:1A-3B,3A-1B,2A-4B,4A-2B, control: median_s: 0.1 s in the bundle, "
        "0.194893674 s from its records",
        f"{path}: run {RUN}, 4 figures, 5 tables, 1 page: equal",
        f"{path}: not equal: tables/stages",
    ]
    said = hwd("verify", str(path), "--json")
    assert said.status == 1
    assert said.json["differences"] == [
        {
            "part": "tables/stages",
            "at": "virtual time, ocs1:1A-3B,3A-1B,2A-4B,4A-2B, control: median_s",
            "in_bundle": 0.1,
            "from_records": 0.194893674,
            "unit": "s",
            "note": "",
        }
    ]


def test_many_differences_of_a_part_are_cut_short_for_people_and_text_of_a_stranger_is_shown_as_text(
    hwd: Any, bundle: Path, plant: Plant
) -> None:
    def edit(table: Any) -> None:
        for row in table["rows"]:
            row.update(n=-1, unknown=-1, max_s=-1)

    why = edited(bundle, "tables/run.json", lambda table: table["rows"][0].update(why="\x1b[2J\ud800\u202e"))
    path = plant(edited(bundle, "tables/stages.json", edit) | why)
    told = hwd("verify", str(path), "--json")
    assert told.status == 1
    (of_stranger,) = [one for one in told.json["differences"] if one["part"] == "tables/run"]
    assert of_stranger["at"] == f"{RUN}: why"
    said = hwd("verify", str(path))
    assert said.status == 1
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
    lines = said.out.splitlines()
    assert sum(": n: -1 in" in line or ": unknown: -1" in line or ": max_s: -1" in line for line in lines) == SHOWN_MAX
    assert f"tables/stages: {len(told.json['differences']) - 1 - SHOWN_MAX} more" in lines


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[: len(data) // 2], "is cut off: its end is missing"),
        (lambda data: b"hello", "is no bundle. `hwd export RUN --as bundle` makes bundles"),
    ],
)
def test_damaged_file_is_bad_input(
    hwd: Any, bundle: Path, tmp_path: Path, damage: Callable[[bytes], bytes], why: str
) -> None:
    path = tmp_path / "x.hwd.zip"
    path.write_bytes(damage(bundle.read_bytes()))
    said = hwd("verify", str(path))
    assert said.status == 2
    assert why in said.err
    told = hwd("verify", str(path), "--json")
    assert told.status == 2
    assert why in told.json["error"]["detail"]
    assert [*tmp_path.iterdir()] == [path], "nothing is written"


def test_terminal_sees_that_work_is_under_way(tmp_path: Path, places: Path) -> None:
    found, documents = recorded()
    data, bundle = fill(tmp_path, (found, documents[:3])), tmp_path / "small.hwd.zip"
    assert run(("export", found.id, "--as", "bundle", "--data", data, "-o", str(bundle))) == 0
    seen = seen_on_a_terminal("verify", str(bundle))
    places_of = [seen.find(word) for word in (b"loading", b"documents", b"deriving")]
    assert -1 not in places_of, seen
    assert places_of == sorted(places_of)
