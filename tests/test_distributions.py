"""The three wheels: each holds its own package and nothing else, and together they run without the source tree."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

TREE = Path(__file__).resolve().parents[1]
PACKAGES = {"drivers": "hwd_drivers", "agents": "hwd_agents", ".": "hwd"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    built = {}
    for folder, package in PACKAGES.items():
        target = tmp_path_factory.mktemp(package)
        _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", os.fspath(target)], cwd=TREE / folder)
        (built[package],) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install` of the three would leave in site-packages."""
    target = tmp_path_factory.mktemp("site")
    for wheel in wheels.values():
        with ZipFile(wheel) as archive:
            archive.extractall(target)
    return target


@pytest.mark.parametrize("package", PACKAGES.values())
def test_wheel_holds_exactly_its_own_package_with_its_types(wheels: dict[str, Path], package: str) -> None:
    with ZipFile(wheels[package]) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        assert f"{package}/py.typed" in archive.namelist()
    assert {top for top in tops if not top.endswith(".dist-info")} == {package}


@pytest.mark.parametrize(("source", "inside"), [("playbooks", "hwd/_playbooks"), ("examples", "hwd/_examples")])
def test_daemon_wheel_carries_what_ships_with_it(unpacked: Path, source: str, inside: str) -> None:
    shipped = {path.name: path.read_bytes() for path in (TREE / source).glob("*.yaml")}
    assert {path.name: path.read_bytes() for path in (unpacked / inside).glob("*.yaml")} == shipped


def _run(command: list[str], *, cwd: Path, path: Path | None = None) -> str:
    environment = os.environ | ({"PYTHONPATH": os.fspath(path)} if path else {})
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
