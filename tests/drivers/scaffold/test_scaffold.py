"""A new driver's package: its names, what is refused, and that it is good as it is."""

from pathlib import Path
from types import ModuleType

import pytest

from hwd_drivers.conformance.examine import examine
from hwd_drivers.conformance.quality import Outcome, Quality, quality
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.scaffold import lumen, scaffold, selector

MATRIX = ["README.md", "__init__.py", "driver.py", "models.py", "protocol.py", "py.typed", "twin.py"]
SELECTOR = ["README.md", "__init__.py", "part.py", "py.typed"]


@pytest.mark.parametrize(("kind", "package"), [(lumen, MATRIX), (selector, SELECTOR)])
def test_it_writes_a_package_its_tests_and_a_project(kind: ModuleType, package: list[str], tmp_path: Path) -> None:
    files = scaffold("acme-x1", tmp_path, selector=kind is selector)
    texts = {str(file.relative_to(tmp_path)): file.read_text(encoding="utf-8") for file in files}
    test = "tests/test_table.py" if kind is selector else "tests/test_protocol.py"
    inside = [f"hwd_acme_x1/{name}" for name in package]
    assert [*texts] == [*inside, "pyproject.toml", *sorted(["tests/test_conformance.py", test])]
    assert not [file for file, text in texts.items() if "lumen" in text.lower()]
    assert 'acme-x1 = "hwd_acme_x1:driver"' in texts["pyproject.toml"]
    assert any("class AcmeX1Switch" in text for text in texts.values())
    for file, text in texts.items():
        if file.endswith(".py"):
            compile(text, file, "exec")


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


@pytest.mark.parametrize("kind", [lumen, selector])
def test_the_scaffold_passes_every_check_and_lacks_only_captures_and_glass(kind: ModuleType) -> None:
    results = list(examine(kind.driver))
    bad = {each.check for each in results if each.outcome in (Outcome.FAILED, Outcome.MISSING)}
    assert bad == {"captures", "glass"}
    assert quality(results) is Quality.SILVER
