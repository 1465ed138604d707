"""What each level of the set-up brings: a newcomer's demo asks little of a machine."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, packages_distributions, requires
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
TESTED_AGAINST = {"prometheus", "chrony", "openssh-client", "expect", "curl"}
"""What is looked for in /usr/bin alone, which the test hides; the others may be in /usr/sbin of this machine."""
MACHINES = {"qemu-system-x86", "chromium"}


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """A PATH with Python and a shell, and without apt-get."""
    for name in ("bash", "env", "id"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return {"PATH": str(tmp_path), "PYTHON": sys.executable}


@pytest.mark.parametrize(
    ("level", "wanted"), [("runtime", set()), ("tests", TESTED_AGAINST), ("machines", TESTED_AGAINST | MACHINES)]
)
def test_each_level_asks_for_its_own_debian_packages(bare: dict[str, str], level: str, wanted: set[str]) -> None:
    done = subprocess.run([ROOT / ".ci/system-packages", level], env=bare, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    named = set(re.findall(r"^setup: missing: (\S+) \(.+\)\. As root: apt-get install \1$", done.stderr, re.MULTILINE))
    assert named & (TESTED_AGAINST | MACHINES) == wanted
    if level == "runtime":
        assert (done.stdout, done.stderr) == ("", "")


def test_a_program_without_which_a_test_is_skipped_is_asked_for() -> None:
    """Else that test runs nowhere."""
    asked = set(re.findall(r"command -v (\S+)", (ROOT / ".ci/system-packages").read_text()))
    ours = ("python3", "mke2fs", "systemd-analyze")  # of what Debian's tools need themselves
    texts = [file.read_text() for file in (ROOT / "tests").rglob("*.py")]
    wanted = {name for text in texts for name in re.findall(r'which\("([^"]+)"', text)}
    assert {"expect", "curl", "mosquitto"} <= wanted
    assert wanted - asked - {"chronyd", "ptp4l"} - {*ours} == set(), "the second ones come with chronyc and pmc"


def test_a_level_that_there_is_not_is_refused() -> None:
    done = subprocess.run([ROOT / ".ci/system-packages", "all"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (2, "system-packages: all: use runtime, tests or machines\n")


@pytest.mark.parametrize(
    ("target", "level", "extra"),
    [
        ("demo", {"runtime"}, "."),
        ("serve", {"runtime"}, "."),
        ("check", {"runtime"}, ".[dev]"),
        ("test", {"runtime", "tests"}, ".[dev]"),
        ("test-all", {"runtime", "machines"}, ".[dev]"),
        ("setup", {"runtime", "machines"}, ".[dev]"),
    ],
)
def test_each_target_sets_up_what_it_needs_and_no_more(target: str, level: set[str], extra: str) -> None:
    """Of a fresh clone: every set-up is asked for."""
    command = ["make", "--dry-run", "--what-if=constraints.txt", target]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    assert set(re.findall(r"\.ci/system-packages (\w+)", said)) == level
    assert re.findall(r"-e ./agents -e '(.+?)'", said) == [extra]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What `make` reads of a clone, with the Pythons 3.11 to 3.14, which know their version and no more."""
    for name in ("Makefile", ".ci", "constraints.txt", "pyproject.toml", "drivers", "agents"):
        (tmp_path / name).symlink_to(ROOT / name)
    for version in ("3.11", "3.12", "3.13", "3.14"):
        put_python(tmp_path / f"pyenv/versions/{version}.9/bin/python3", version)
    return tmp_path


def put_python(path: Path, version: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)


def put_environment(clone: Path, version: str, *, made_with: str) -> None:
    put_python(clone / ".venv/bin/python", version)
    (clone / f".venv/lib/python{made_with}").mkdir(parents=True)
    (clone / ".venv/.set-up").touch()


def made(clone: Path, *asked: str) -> str:
    """What `make check` would do there."""
    command = ["make", "--dry-run", *asked, "check"]
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("has", "asked", "folder"),
    [
        (None, "3.13", ".venv"),
        ("3.11", "3.11", ".venv"),
        ("3.13", "3.13", ".venv"),
        ("3.11", "3.13", ".venv-3.13"),
        ("3.13", "3.11", ".venv-3.11"),
        ("3.13", None, ".venv"),
    ],
)
def test_a_python_that_is_asked_for_has_an_environment_of_its_own(
    clone: Path, has: str | None, asked: str | None, folder: str
) -> None:
    if has is not None:
        put_environment(clone, has, made_with=has)
    python = clone / f"pyenv/versions/{asked}.9/bin/python3"
    said = made(clone, *([] if asked is None else [f"PYTHON={python}"]))
    assert f"; {folder}/bin/ruff check" in said
    assert (f"{python} -m venv --clear {folder};" in said) is (has is None or folder != ".venv")


def test_an_environment_whose_python_was_replaced_is_made_anew(clone: Path) -> None:
    """As by a new release of Debian: its packages are in the folder of the old one."""
    put_environment(clone, "3.13", made_with="3.11")
    said = made(clone)
    assert "python3 -m venv --clear .venv;" in said
    assert "-e ./agents -e '.[dev]'" in said


@pytest.mark.parametrize(("than", "found"), [("3.11", "3.13"), ("3.12", "3.13"), ("3.13", None), ("3.14", None)])
def test_the_newest_python_that_hwd_supports_is_found(clone: Path, than: str, found: str | None) -> None:
    programs = clone / "bin"
    programs.mkdir()
    for name in ("bash", "env", "dirname", "grep", "sort", "tail"):
        (programs / name).symlink_to(shutil.which(name) or name)
    environment = {"PATH": str(programs), "PYENV_ROOT": str(clone / "pyenv")}
    command = [str(clone / ".ci/newest-python"), than]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == ("" if found is None else str(clone / f"pyenv/versions/{found}.9/bin/python3"))


def test_the_three_distributions_support_the_same_pythons() -> None:
    known = {name: metadata(name) for name in ("hwd-drivers", "hwd-agents", "hwd-daemon")}
    versions = {name: tuple(found.get_all("Classifier") or ()) for name, found in known.items()}
    assert len({*versions.values()}) == 1, versions
    assert (
        f"Programming Language :: Python :: {sys.version_info.major}.{sys.version_info.minor}" in versions["hwd-daemon"]
    )


def test_what_the_demo_runs_imports_no_package_of_an_extra() -> None:
    """In a process of its own, with all that the processes of the demo are made of."""
    parts = [
        "hwd.cli.commands.demo",
        "hwd.cli.commands.racks",
        "hwd.cli.commands.twins",
        "hwd.daemon.serve",
        "hwd.twin.serve",
        "hwd.sim.__main__",
        "hwd_agents.process.serve",
    ]
    parts += ["hwd_drivers.families.polatis.models", "hwd.report.page.html", "hwd.report.figures.render"]
    script = f"import sys, {', '.join(parts)}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    owners = packages_distributions()
    imported = {owner.lower().replace("_", "-") for name in done.stdout.split() for owner in owners.get(name, ())}
    assert "numpy" in imported
    where_there = {"psutil", "setuptools"}  # pyroute2 takes psutil where somebody has installed it
    assert imported - set(runtime("hwd-daemon", set())) - where_there == set()


def runtime(name: str, extras: set[str], found: set[tuple[str, frozenset[str]]] | None = None) -> Iterator[str]:
    """All that pip installs for a distribution, by name."""
    found = set() if found is None else found
    if (name, frozenset(extras)) in found:
        return
    found.add((name, frozenset(extras)))
    yield name
    try:
        needs = requires(name) or []
    except PackageNotFoundError:
        return  # of another platform
    for text in needs:
        need = Requirement(text)
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield from runtime(need.name.lower().replace("_", "-"), need.extras, found)


# --- the three wheels: each holds its own package, and what ships with it


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
