"""Drivers are found by their entry points; a package that cannot be used is refused in one line, all others work."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.devices import registry
from hwd_drivers.devices.registry import NoOptions
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.registry import twin_of

from ..parts import context

BROKEN = {
    "syntax": ("import os\ndef driver(:\n", "SyntaxError: invalid syntax", 2),
    "name": ("import os\n\ndriver = Nothing\n", "NameError: name 'Nothing' is not defined", 3),
    "key": ("driver = {}['a\\nb']\n", "KeyError", 1),
    "object": ("driver = 1\n", "is not a DriverSpec but int", 0),
    "other": (
        "from hwd_drivers.devices import registry\ndriver = registry.find('polatis-tl1')\n",
        "is named 'polatis-tl1' in its DriverSpec",
        0,
    ),
    "missing": ("driver = 1\nimport no_such_package_anywhere\n", "No module named 'no_such_package_anywhere'", 2),
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder that one package is installed in."""
    install(tmp_path, "acme-x1 = acme_broken:driver")
    return tmp_path


def install(folder: Path, driver: str) -> None:
    info = folder / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hwd-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[hwd.drivers]\n{driver}\n")


@pytest.mark.parametrize("kind", BROKEN)
def test_an_import_error_is_reported_with_package_entry_point_file_and_line(
    site: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    code, words, line = BROKEN[kind]
    module = site / "acme_broken.py"
    module.write_text(code)
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "acme_broken", raising=False)
    with pytest.raises(ConfigError) as told:
        registry.find("acme-x1")
    text = str(told.value)
    cannot = "cannot be loaded: " if line else ""
    assert text.startswith(f"driver 'acme-x1': entry point acme_broken:driver of hwd-acme {cannot}")
    assert words in text
    assert f"{module}:{line}" in text or not line
    assert "\n" not in text
    installed = registry.installed()
    assert installed.broken == {"acme-x1": text}
    assert "polatis-tl1" in installed.specs
    assert "acme-x1" not in installed.specs


@pytest.mark.parametrize("arguments", [("driver", "list"), ("twin", "settings", "polatis-6000"), ("check", "t.yaml")])
def test_commands_go_on_without_it(site: Path, arguments: tuple[str, ...]) -> None:
    (site / "acme_broken.py").write_text(BROKEN["name"][0])
    (site / "t.yaml").write_text(
        "testbed: t\nswitches:\n  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal}}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "hwd.cli", *arguments],
        cwd=site,
        env={**os.environ, "PYTHONPATH": str(site), "COLUMNS": "300", "HWD_RUN_DIR": str(site / "run")},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("driver 'acme-x1': entry point acme_broken:driver of hwd-acme cannot be loaded") == 1


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("acme_twins:TWIN", "cannot be loaded: ModuleNotFoundError: No module named 'acme_twins'"),
        ("hwd_drivers.twins.registry:ABSENT", "cannot be loaded: AttributeError: .*ABSENT"),
        ("hwd_drivers.twins.registry:USUAL_DENIAL", "is not a TwinSpec but Denial"),
        ("hwd_drivers.devices.registry:DriverSpec", "is not a TwinSpec but type"),
    ],
)
def test_a_twin_that_cannot_be_used_is_refused_with_its_place(place: str, why: str) -> None:
    spec = replace(registry.find("polatis-tl1"), twin=place)
    with pytest.raises(ConfigError, match=f"driver 'polatis-tl1': its twin {place} {why}"):
        twin_of(spec)


def test_every_installed_driver_declares_its_twins() -> None:
    for spec in registry.installed().specs.values():
        assert twin_of(spec).options is spec.twin_options


def test_daemon_of_real_switches_loads_no_simulator_and_no_ssh_before_it_needs_it(tmp_path: Path) -> None:
    file = tmp_path / "rack.yaml"
    file.write_text(
        "testbed: t\nswitches:\n  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: 10.0.0.5}\n"
    )
    code = (
        "import sys, hwd.daemon.serve, hwd.daemon.installed_drivers\n"
        "print(*sys.modules)\n"
        f"hwd.daemon.installed_drivers.load({str(file)!r}).require()\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    at_first, with_drivers = (line.split() for line in done.stdout.splitlines())
    assert [name for name in with_drivers if name.startswith(("hwd_drivers.twins", "hwd_drivers.conformance"))] == []
    assert "hwd.rollout.processes.host_processes" in at_first
    assert "paramiko" not in at_first


@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("polatis-tl", r"driver 'polatis-tl': not installed\. Did you mean polatis-tl1\?"),
        ("zzz", r"There are: .*polatis-tl1"),
    ],
)
def test_an_unknown_driver_is_refused_with_the_nearest_name_or_all(name: str, finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        registry.find(name)
    with pytest.raises(ConfigError, match=r"polatis-60OO.*Did you mean polatis-6000\?"):
        registry.find("polatis-tl1").capabilities("polatis-60OO", "8x8")


def test_a_session_does_not_search_all_packages_for_its_driver_and_one_that_is_installed_meanwhile_is_found(
    work_of: Callable[[Callable[[], object]], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.find("polatis-tl1")
    assert work_of(lambda: registry.find("polatis-tl1")) < 2_000, "it was 18,000, at each session with a switch"
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="not installed"):
        registry.find("acme-x2")
    install(tmp_path, "acme-x2 = nothing:driver")
    assert registry.distribution_of("acme-x2") == "hwd-acme"


def test_options_of_another_type_than_the_drivers_are_a_bug_that_names_both_types() -> None:
    spec = registry.find("polatis-tl1")
    opening = context(spec.name, "polatis-6000", "8x8", TcpDialer(), SystemClock(), options=NoOptions())
    assert opening.options_as(NoOptions) is opening.options
    with pytest.raises(BugError, match=f"ocs1: options are NoOptions, not {spec.options.__name__}"):
        opening.options_as(spec.options)
