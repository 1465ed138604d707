"""Commands that take over a second say on a terminal that work is under way."""

from pathlib import Path

import pytest

from hwd.config.shipped import shipped

from .conftest import seen_on_a_terminal


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sim", "--seed", "3"), b"playing seed 3"),
        (("check", str(shipped("examples", "two-hosts"))), b"reading files"),
    ],
)
def test_a_long_command_says_what_it_does(arguments: tuple[str, ...], words: bytes) -> None:
    assert words in seen_on_a_terminal(*arguments)


@pytest.mark.usefixtures("places")
def test_install_service_says_that_it_reads(tmp_path: Path) -> None:
    words = ("install-service", str(shipped("examples", "two-hosts")), "--units", str(tmp_path), "--uninstall")
    seen = seen_on_a_terminal(*words, status=2)
    assert seen.index(b"reading ") < seen.index(b"there is no such unit")


@pytest.mark.usefixtures("daemon")
def test_an_apply_says_what_it_applies_and_how_to_stop_it() -> None:
    seen = seen_on_a_terminal("apply", "ocs1:7A-6B", "-y")
    assert b"; Ctrl-C rolls back" in seen
    assert seen.index(b"; Ctrl-C rolls back") < seen.rindex(b"applying ")
