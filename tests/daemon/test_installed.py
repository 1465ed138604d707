from pathlib import Path

from hwd.config.shipped import shipped
from hwd.daemon.installed import check, load

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
