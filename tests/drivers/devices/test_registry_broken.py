"""A package whose import fails is refused in one line with error and place; all others work."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices import registry
from hwd_drivers.twins.registry import twin_of

BROKEN = {
    "syntax": ("import os\ndef driver(:\n", "SyntaxError: invalid syntax", 2),
    "name": ("import os\n\ndriver = Nothing\n", "NameError: name 'Nothing' is not defined", 3),
    "key": ("driver = {}['a\\nb']\n", "KeyError", 1),
    "missing": ("driver = 1\nimport no_such_package_anywhere\n", "No module named 'no_such_package_anywhere'", 2),
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder that one package is installed in."""
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hwd-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hwd.drivers]\nacme-x1 = acme_broken:driver\n")
    return tmp_path


@pytest.mark.parametrize("kind", BROKEN)
def test_an_import_error_is_reported_with_package_entry_point_file_and_line(
    site: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    code, words, line = BROKEN[kind]
    module = site / "acme_broken.py"
    module.write_text(code)
    monkeypatch.syspath_prepend(site)
    with pytest.raises(ConfigError) as told:
        registry.find("acme-x1")
    text = str(told.value)
    assert text.startswith("driver 'acme-x1': entry point acme_broken:driver of hwd-acme cannot be loaded: ")
    assert words in text
    assert f"{module}:{line}" in text
    assert "\n" not in text
    installed = registry.installed()
    assert installed.broken == {"acme-x1": text}
    assert "polatis-tl1" in installed.specs
    assert "acme-x1" not in installed.specs


def test_an_object_that_is_not_a_spec_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site / "acme_broken.py").write_text("driver = 1\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "acme_broken", raising=False)
    with pytest.raises(ConfigError, match="acme_broken:driver of hwd-acme is not a DriverSpec but int"):
        registry.find("acme-x1")


def test_a_spec_with_another_name_than_its_entry_point_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = registry.find("polatis-tl1")
    monkeypatch.syspath_prepend(site)
    code = "from hwd_drivers.devices import registry\ndriver = registry.find('polatis-tl1')\n"
    (site / "acme_broken.py").write_text(code)
    monkeypatch.delitem(sys.modules, "acme_broken", raising=False)
    with pytest.raises(ConfigError, match=f"'acme-x1': .* is named '{spec.name}' in its DriverSpec"):
        registry.find("acme-x1")


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


def test_daemon_of_real_switches_never_loads_the_simulator(tmp_path: Path) -> None:
    file = tmp_path / "rack.yaml"
    file.write_text(
        "testbed: t\nswitches:\n  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: 10.0.0.5}\n"
    )
    code = (
        "import sys, hwd.daemon.serve, hwd.daemon.installed_drivers\n"
        f"hwd.daemon.installed_drivers.load({str(file)!r}).require()\n"
        "print([name for name in sys.modules if name.startswith(('hwd_drivers.twins', 'hwd_drivers.conformance'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
