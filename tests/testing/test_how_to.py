"""The tests of docs/how-to/test-with-pytest.md, as a reader runs them."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.testing import plugin

Session = Callable[..., pytest.RunResult]

PAGE = Path(__file__).parents[2] / "docs/how-to/test-with-pytest.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n# (test_\w+\.py)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("name", "text"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_the_tests_of_the_page_pass(session: Session, name: str, text: str) -> None:
    result = session(text)
    result.assert_outcomes(passed=len(re.findall(r"^(?:async )?def test_", text, re.MULTILINE)))


def test_options_with_a_path_are_given_with_an_equals_sign() -> None:
    """Pytest looks for its rootdir from every argument that stands alone and is a path."""
    assert not re.findall(r"^pytest .*--hwd-(?:testbed|lab) ", TEXT, re.MULTILINE)


def test_the_page_names_what_pytest_needs() -> None:
    project = (PAGE.parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    for package in re.findall(r'"(pytest(?:-asyncio)?>=[\d.]+)"', project):
        assert f'"{package}"' in TEXT


def test_every_option_marker_and_fixture_is_explained() -> None:
    source = Path(plugin.__file__).read_text(encoding="utf-8")
    for option in re.findall(r'addoption\("(--[\w-]+)"|"(--hwd-[\w-]+)"', source):
        assert next(filter(None, option)) in TEXT
    for name in ("lab", "circuit", "fault", "job", "timeline", "hwd_lease", "hwd_needs"):
        assert re.search(rf"^\| `(?:@pytest\.mark\.)?{name}\b", TEXT, re.MULTILINE), name
