"""`hwd driver`: what is said of drivers, what is refused."""

from pathlib import Path

import pytest

from hwd_drivers.conformance.quality_table import BEGIN, END, rows_of


def test_a_driver_is_checked_its_quality_said_and_how_each_check_ended(hwd) -> None:  # type: ignore[no-untyped-def]
    said = hwd("driver", "check", "polatis-tl1", "--up-to", "silver", "-v")
    assert said.status == 0
    assert said.out.startswith("polatis-tl1: silver (")
    assert "polatis-tl1 polatis-6000 dying trouble_is_an_error_never_a_wrong_answer: passed" in said.err
    assert "impossible_state_is_refused: not applicable: every choice of crossconnects is a state" in said.err


def test_json_tells_of_each_check_and_way(hwd) -> None:  # type: ignore[no-untyped-def]
    (checked,) = hwd("driver", "check", "polatis-tl1", "--up-to", "bronze", "--json").json
    assert (checked["driver"], checked["quality"]) == ("polatis-tl1", "bronze")
    first = checked["results"][0]
    assert {key: first[key] for key in ("model", "check", "way", "needed_for", "outcome", "text")} == {
        "model": "polatis-6000",
        "check": "identity",
        "way": "whole",
        "needed_for": "bronze",
        "outcome": "passed",
        "text": "",
    }


def test_the_table_is_written_where_the_source_tree_is(hwd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    assert "go to its top folder" in hwd("driver", "check", "osw", "--write").err
    page = tmp_path / "drivers/README.md"
    page.parent.mkdir()
    page.write_text(f"# drivers\n{BEGIN}\n{END}\n")
    assert hwd("driver", "check", "osw", "--write").status == 0
    assert list(rows_of(page.read_text())) == ["osw"]


RACK = """\
testbed: racked
switches:
  ocs1:
    driver: polatis-tl1
    model: polatis-6000
    size: 12x4
    login: {user: me, password: {env: RACKED_PASSWORD}}
    twin: {timing: ideal, seed: 3, options: {user: me, password: PASSWORD, in_use: deny}}
"""


def test_a_twin_of_a_rack_is_checked_as_the_rack_has_it(  # type: ignore[no-untyped-def]
    hwd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rack = tmp_path / "rack.yaml"
    rack.write_text(RACK.replace("PASSWORD, in", "right, in"))
    monkeypatch.setenv("RACKED_PASSWORD", "right")
    (checked,) = hwd("driver", "check", "polatis-tl1", "--rack", str(rack), "--up-to", "bronze", "--json").json
    assert checked["quality"] == "bronze"
    assert {each["model"] for each in checked["results"]} == {"polatis-6000"}
    monkeypatch.setenv("RACKED_PASSWORD", "wrong")
    said = hwd("driver", "check", "polatis-tl1", "--rack", str(rack), "--up-to", "bronze")
    assert said.status == 1
    assert "LoginError" in said.err


def test_a_new_driver_is_started(hwd, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    said = hwd("driver", "new", "acme", str(tmp_path / "acme"), "--json")
    assert said.status == 0
    assert str(tmp_path / "acme/hwd_acme/driver.py") in said.json["files"]
    again = hwd("driver", "new", "acme", str(tmp_path / "acme"))
    assert again.status == 2
    assert "exists already" in again.err
