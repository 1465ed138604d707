from pathlib import Path

import pytest

from hwd.config.shipped import shipped
from hwd.daemon.installed_drivers import check, load

TOPOLOGY = "topology: t\nlinks:\n  - h0.eth0 <-> h9.eth0\n"


def test_shipped_testbeds_fit_what_is_installed() -> None:
    for name in ("opus-testbed", "mfabric-testbed"):
        loaded = load(shipped("examples", name))
        assert loaded.testbed is not None
        assert [str(problem) for problem in loaded.problems if not problem.warning] == []


def test_a_topology_is_held_against_the_testbed_beside_it(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    opus = shipped("examples", "opus-testbed")
    assert check([tmp_path / "t.yaml"]) == ()
    [problem] = check([tmp_path / "t.yaml", opus])
    assert (problem.line, "h9.eth0" in problem.text) == (3, True)


def test_a_timing_that_nobody_has_is_a_problem(tmp_path: Path) -> None:
    text = shipped("examples", "opus-testbed").read_text().replace("polatis-opus", "polatis-warp")
    (tmp_path / "bad.yaml").write_text(text)
    assert any("polatis-warp" in problem.text for problem in load(tmp_path / "bad.yaml").problems)


def test_a_driver_that_is_installed_and_cannot_be_loaded_is_told_with_what_is_wrong_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hwd-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hwd.drivers]\nacme-x1 = acme_half_done:driver\n")
    (tmp_path / "acme_half_done.py").write_text("import os\n\ndriver = Nothing\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = "testbed: t\nswitches:\n  ocs1: {driver: acme-x1, model: x1, address: 10.0.0.5}\n"
    (tmp_path / "t.yaml").write_text(text)
    for told in (load(tmp_path / "t.yaml").problems, check([tmp_path / "t.yaml"])):
        (problem,) = told
        assert problem.line == 3
        assert "name 'Nothing' is not defined" in problem.text
        assert f"{tmp_path / 'acme_half_done.py'}:3. Mend hwd-acme" in problem.text
        assert "not installed" not in problem.text
