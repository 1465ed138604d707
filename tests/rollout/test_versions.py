"""An agent that is newer than the hwd of who rolls out is neither replaced nor called old."""

import pytest

from hwd.rollout.versions import is_newer


@pytest.mark.parametrize(
    ("one", "than", "newer"),
    [
        ("0.2.0", "0.1.0", True),
        ("0.1.10", "0.1.9", True),
        ("1.0", "0.9.9", True),
        ("0.1.0", "0.1.0", False),
        ("0.1.0", "0.2.0", False),
        ("", "0.1.0", False),
        ("0.1.0", "dev", False),
    ],
)
def test_the_newer_version_has_the_higher_number(one: str, than: str, newer: bool) -> None:
    assert is_newer(one, than) is newer
