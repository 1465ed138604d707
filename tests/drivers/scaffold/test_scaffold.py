"""A new driver's package: its names, what is refused, and that it is good as it is."""

from pathlib import Path

import pytest

from hwd_drivers.conformance.examine import examine
from hwd_drivers.conformance.quality import Outcome, Quality, quality
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.scaffold import SCAFFOLD_FILES, lumen, scaffold


def test_it_writes_protocol_driver_twin_models_readme_tests_and_project(tmp_path: Path) -> None:
    files = scaffold("acme-x1", tmp_path / "new")
    assert {str(file.relative_to(tmp_path / "new")) for file in files} == {
        name.replace("NAME", "acme_x1") for name in SCAFFOLD_FILES
    }
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    assert not [file for file, text in texts.items() if "lumen" in text.lower()]
    assert 'acme-x1 = "hwd_acme_x1:driver"' in texts[tmp_path / "new/pyproject.toml"]
    assert "class AcmeX1Switch(LineSwitch):" in texts[tmp_path / "new/hwd_acme_x1/driver.py"]
    for file in files:
        if file.suffix == ".py":
            compile(texts[file], str(file), "exec")


@pytest.mark.parametrize("name", ["", "Acme", "acme x", "1acme", "acme-", "acme--x", "../acme", "class"])
def test_an_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="not a name"):
        scaffold(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        scaffold("acme", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_scaffold_passes_every_check_and_lacks_only_captures_and_glass() -> None:
    results = list(examine(lumen.driver))
    bad = {each.check for each in results if each.outcome in (Outcome.FAILED, Outcome.MISSING)}
    assert bad == {"captures", "glass"}
    assert quality(results) is Quality.SILVER
