"""A driver outside of this tree: made by `hwd driver new`, built, installed offline, and found by its entry point."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TESTBED = """\
testbed: outside
switches:
  sw1: {driver: acme-x1, model: acme-x1-matrix, size: 8x8, address: "ADDRESS"}
ports: {sw1.5: {state: spare}, sw1.6: {state: spare}, sw1.7: {state: spare}}
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """Run Python in that folder, where packages of `site` are installed, and nothing can be fetched."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "site"),
        "HWD_RUN_DIR": str(folder / "run"),
        "PIP_NO_INDEX": "1",
        "COLUMNS": "200",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=50)

    return run


@pytest.fixture(scope="module")
def installed(folder: Path, run: Run) -> Path:
    """The folder of the new driver, which pip has built and installed."""
    new = run("hwd.cli", "driver", "new", "acme-x1")
    assert new.returncode == 0, new.stderr
    pip = run("pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", "site", "./hwd-acme-x1")
    assert pip.returncode == 0, pip.stderr
    return folder / "hwd-acme-x1"


@pytest.fixture(scope="module")
def unit(folder: Path, installed: Path) -> Iterator[str]:
    """The address of one that answers in another process, as a unit on a bench would."""
    command = [sys.executable, "-m", "hwd.cli", "twin", "serve", "acme-x1-matrix", "--listen", "127.0.0.1:0", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "HWD_RUN_DIR": str(folder / "run")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()


def said(done: subprocess.CompletedProcess[str], *, status: int = 0) -> Any:
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def test_it_is_found_by_its_entry_point(installed: Path, run: Run) -> None:
    listed = {each["driver"]: each for each in said(run("hwd.cli", "driver", "list", "--json"))}
    assert listed["acme-x1"]["package"] == "hwd-acme-x1"
    assert listed["acme-x1"]["models"] == ["acme-x1-matrix"]
    assert listed["polatis-tl1"]["package"] == "hwd-drivers"


def test_it_passes_as_it_is(installed: Path, run: Run) -> None:
    (checked,) = said(run("hwd.cli", "driver", "check", "acme-x1", "--json"))
    assert checked["quality"] == "silver"
    assert {each["outcome"] for each in checked["results"]} == {"passed", "not applicable", "missing"}
    assert [each["check"] for each in checked["results"] if each["outcome"] == "missing"] == ["captures", "glass"]


def test_its_own_tests_pass(installed: Path, run: Run) -> None:
    done = run("pytest", "-q", "-p", "no:cacheprovider", str(installed / "tests"))
    assert done.returncode == 0, done.stdout


def test_a_run_on_a_unit_uses_its_spare_ports_and_is_stored_with_the_driver(
    folder: Path, installed: Path, run: Run, unit: str
) -> None:
    (folder / "rack.yaml").write_text(TESTBED.replace("ADDRESS", unit))
    done = run("hwd.cli", "driver", "check", "acme-x1", "--rack", "rack.yaml", "--write", "--json")
    (checked,) = said(done)
    assert "5A, 5B, 6A, 6B, 7A, 7B" in done.stderr
    assert {each["outcome"] for each in checked["results"]} == {"passed", "not applicable"}
    (kept,) = json.loads((folder / "site/hwd_acme_x1/glass.json").read_text())
    assert (kept["driver"], kept["model"]) == ("acme-x1", "acme-x1-matrix")
    assert kept["unit"] == "AcmeX1 LS-TWIN serial 0001 firmware 1.0"


def test_a_unit_whose_spare_ports_are_in_use_is_left_alone(folder: Path, installed: Path, run: Run, unit: str) -> None:
    host, _, port = unit.rpartition(":")

    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(b"SET +5>6\n")
        assert line.recv(100) == b"OK\n"
        (folder / "rack.yaml").write_text(TESTBED.replace("ADDRESS", unit))
        done = run("hwd.cli", "driver", "check", "acme-x1", "--rack", "rack.yaml")
        assert done.returncode == 3
        assert "sw1: spare ports carry 5A-6B. Disconnect them first" in done.stderr
        line.sendall(b"MAP\n")
        assert line.recv(100) == b"MAP 5>6\n"


def test_a_testbed_may_name_it_and_without_spare_ports_is_bad_input(folder: Path, installed: Path, run: Run) -> None:
    (folder / "rack.yaml").write_text(TESTBED.replace("ADDRESS", "10.0.0.9:5000"))
    done = run("hwd.cli", "check", "rack.yaml")
    assert done.returncode == 0, done.stderr
    (folder / "rack.yaml").write_text(TESTBED.replace("ADDRESS", "127.0.0.1:1").partition("ports:")[0])
    done = run("hwd.cli", "driver", "check", "acme-x1", "--rack", "rack.yaml")
    assert done.returncode == 2
    assert "state: spare" in done.stderr


def test_a_wrong_driver_fails_with_the_finding(folder: Path, installed: Path, run: Run) -> None:
    source = folder / "site/hwd_acme_x1/driver.py"
    right = source.read_text()
    source.write_text(right.replace('return (code, text) if verb == "NO" else None', "return None"))
    try:
        done = run("hwd.cli", "driver", "check", "acme-x1", "--up-to", "bronze")
    finally:
        source.write_text(right)
    assert done.returncode == 1
    assert "acme-x1 acme-x1-matrix whole denial: failed: ProtocolError" in done.stderr
    assert "acme-x1: none" in done.stdout


def test_a_driver_that_cannot_be_loaded_is_named_and_does_not_hinder_others(
    folder: Path, installed: Path, run: Run
) -> None:
    package = folder / "site/hwd_acme_x1/__init__.py"
    right = package.read_text()
    package.write_text("import a_package_that_is_not_there\n")
    try:
        listed = said(run("hwd.cli", "driver", "list", "--json"))
        done = run("hwd.cli", "driver", "check", "acme-x1")
    finally:
        package.write_text(right)
    (broken,) = [each for each in listed if "error" in each]
    assert "No module named 'a_package_that_is_not_there'" in broken["error"]
    assert done.returncode == 2
    assert "Mend hwd-acme-x1, install it whole" in done.stderr
