"""Qualities follow from results, the table from qualities; files of a driver are found in their places."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from hwd_drivers import conformance
from hwd_drivers.conformance import driver_files as beside
from hwd_drivers.conformance.quality import Outcome, Quality, Result, cases, needed_for, quality, short_of
from hwd_drivers.conformance.quality_table import BEGIN, END, filled, row, rows_of
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices.registry import DriverSpec
from hwd_drivers.scaffold import lumen, scaffold
from hwd_drivers.transports.rough import Way

PASSED, FAILED, MISSING, LEFT_OUT = Outcome.PASSED, Outcome.FAILED, Outcome.MISSING, Outcome.NOT_APPLICABLE


def result(needed: Quality, outcome: Outcome, check: str = "x", way: Way | None = Way.WHOLE) -> Result:
    return Result(driver="d", model="m", check=check, way=way, needed_for=needed, outcome=outcome)


ALL = [result(each, PASSED) for each in (Quality.BRONZE, Quality.SILVER, Quality.GOLD, Quality.PLATINUM)]


def test_every_check_belongs_to_one_quality_on_each_connection() -> None:
    assert needed_for(conformance.check_identity, Way.WHOLE) is Quality.BRONZE
    assert needed_for(conformance.check_identity, Way.BYTEWISE) is Quality.SILVER
    assert needed_for(conformance.check_trouble_is_an_error_never_a_wrong_answer, Way.WHOLE) is Quality.SILVER
    assert needed_for(conformance.check_reboot, Way.SLOW) is Quality.GOLD
    assert needed_for(conformance.check_reports_before, Way.WHOLE) is Quality.PLATINUM
    assert {needed_for(check, way) for way, check in cases(up_to=Quality.SILVER)} == {Quality.BRONZE, Quality.SILVER}


@pytest.mark.parametrize(
    ("results", "reached"),
    [
        ([], Quality.NONE),
        (ALL, Quality.PLATINUM),
        (ALL[:2], Quality.SILVER),
        ([*ALL, result(Quality.BRONZE, FAILED)], Quality.NONE),
        ([*ALL, result(Quality.SILVER, FAILED)], Quality.BRONZE),
        ([*ALL, result(Quality.GOLD, MISSING)], Quality.SILVER),
        ([*ALL, result(Quality.GOLD, LEFT_OUT)], Quality.PLATINUM),
        ([*ALL[:3], result(Quality.PLATINUM, LEFT_OUT)], Quality.GOLD),
        ([ALL[0], result(Quality.SILVER, LEFT_OUT), *ALL[2:]], Quality.BRONZE),
    ],
)
def test_a_driver_is_as_good_as_the_last_quality_that_nothing_keeps_it_from(
    results: list[Result], reached: Quality
) -> None:
    assert quality(results) is reached


def test_a_row_has_models_evidence_skipped_checks_and_the_reason_against_a_quality_once() -> None:
    missing = [result(Quality.GOLD, FAILED, "reboot", way) for way in (Way.WHOLE, Way.SLOW)]
    assert len(short_of(Quality.GOLD, missing)) == 2
    assert row(lumen.driver, [*ALL[:2], *missing])[-1] == "gold: reboot"
    results = [*ALL[:2], result(Quality.GOLD, LEFT_OUT, "power"), result(Quality.GOLD, FAILED, "half_an_answer")]
    assert row(lumen.driver, results) == (
        "`lumen`",
        "lumen-matrix 8x8",
        "silver",
        "thin",
        "2 of 3 passed; not applicable: power",
        "gold: half an answer",
    )


def test_a_table_takes_new_rows_keeps_others_and_drops_those_of_unknown_drivers() -> None:
    page = f"before\n{BEGIN}\n| driver |\n| --- |\n| `a` | old |\n| `b` | old |\n| `gone` | old |\n{END}\nafter\n"
    text = filled(page, [("`b`", "new")], known=["a", "b", "c"])
    assert rows_of(text) == {"a": ("`a`", "old"), "b": ("`b`", "new")}
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert filled(text, [], known=["a", "b"]) == text
    for without in ("no marks", f"{BEGIN} alone"):
        with pytest.raises(ConfigError, match="lacks the line"):
            filled(without, [], known=[])


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[DriverSpec, Path]]:
    """A driver outside of this tree, imported."""
    scaffold("acme", tmp_path / "acme")
    monkeypatch.syspath_prepend(tmp_path / "acme")
    import importlib

    module: ModuleType = importlib.import_module("hwd_acme")
    yield module.driver, tmp_path / "acme"
    for name in [name for name in sys.modules if name.partition(".")[0] == "hwd_acme"]:
        del sys.modules[name]


def outcomes(spec: DriverSpec) -> dict[str, Outcome]:
    return {each.check: each.outcome for each in beside.file_results(spec)}


def test_readme_captures_and_glass_are_found_beside_a_driver(outside: tuple[DriverSpec, Path]) -> None:
    spec, folder = outside
    assert outcomes(spec) == {"README": PASSED, "captures": MISSING, "read_back": PASSED, "glass": MISSING}
    (folder / "tests/captures").mkdir()
    (folder / "tests/captures/id.bin").write_bytes(b"ID Acme,A1,7,1.0\n")
    (folder / "hwd_acme/README.md").unlink()
    assert outcomes(spec) == {"README": MISSING, "captures": PASSED, "read_back": PASSED, "glass": MISSING}


def test_the_latest_run_on_glass_of_each_unit_is_stored_and_an_unreadable_record_is_reported(
    outside: tuple[DriverSpec, Path],
) -> None:
    spec, folder = outside
    for unit, on in (("one", "2026-11-01"), ("two", "2026-11-02"), ("one", "2026-11-03")):
        run = beside.GlassRun(driver=spec.name, model="acme-matrix", on=on, unit=unit, passed=15)
        assert beside.record_glass(spec, run) == folder / "hwd_acme/glass.json"
    assert [(run.unit, run.on) for run in beside.glass_runs(spec)] == [("two", "2026-11-02"), ("one", "2026-11-03")]
    assert outcomes(spec)["glass"] is PASSED
    (folder / "hwd_acme/glass.json").write_text("[{}]")
    with pytest.raises(ConfigError, match=r"glass\.json: not a record of runs on glass"):
        beside.file_results(spec)
