"""Files that come with hwd, found in a checkout and in what a wheel installs."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from hwd.config import shipped as module
from hwd.config.shipped import shipped
from hwd_drivers.core.errors import ConfigError

TREE = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path: Path) -> ModuleType:
    """The module as site-packages has it: the files inside the package, nothing beside it but other packages."""
    package = tmp_path / "site-packages" / "hwd"
    (package / "config").mkdir(parents=True)
    copy = package / "config" / "shipped.py"
    shutil.copy(str(module.__file__), copy)
    for kind in ("playbooks", "examples"):
        shutil.copytree(TREE / kind, package / f"_{kind}")
    spec = importlib.util.spec_from_file_location("installed_shipped", copy)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_a_file_is_found_with_and_without_its_suffix_and_a_wrong_name_says_which_there_are(
    installed: ModuleType,
) -> None:
    for kind, name in (("playbooks", "smoke"), ("examples", "two-hosts")):
        assert shipped(kind, name) == shipped(kind, f"{name}.yaml") == TREE / kind / f"{name}.yaml"
        for path in (TREE / kind).glob("*.yaml"):
            found = installed.shipped(kind, path.stem)
            assert found.read_bytes() == path.read_bytes()
            assert found.parent.name == f"_{kind}"
    for find in (shipped, installed.shipped):
        with pytest.raises(
            ConfigError, match=r"x: no such file here, and none .* playbooks .*reconfiguration-timeline, .*smoke"
        ):
            find("playbooks", "x")
    for name in ("smok", "smok.yaml"):
        with pytest.raises(ConfigError, match=f"^{name}: no such file here, .*; did you mean smoke\\?$"):
            shipped("playbooks", name)
