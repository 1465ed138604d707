"""What each level of the set-up brings: a newcomer's demo asks little of a machine."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

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
    ("level", "wanted"),
    [("runtime", set()), ("tests", TESTED_AGAINST), ("machines", TESTED_AGAINST | MACHINES)],
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


def test_what_the_demo_runs_imports_no_package_of_an_extra() -> None:
    """In a process of its own, with all that the processes of the demo are made of."""
    parts = [
        "hwd.cli.commands.demo",
        "hwd.cli.commands.racks",
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
