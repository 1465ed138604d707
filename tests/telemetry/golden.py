"""Golden files: what others see, held by a text beside the test."""

from pathlib import Path

import pytest


def check_golden(path: Path, text: str) -> None:
    """To take over what is said now: delete the file and run the test twice."""
    if not path.exists():
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path.name} was not there; it is now")
    assert text == path.read_text(encoding="utf-8")
