"""What to do about a file system that refuses fits the refusal."""

import errno

import pytest

from hwd_agents.disk_trouble import next_step


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "Free space on its file system"),
        (errno.EACCES, "Give it to the user that the agent runs as: chown -R"),
        (errno.ENXIO, "Look at its file system"),
    ],
)
def test_each_refusal_has_its_next_step(number: int, words: str) -> None:
    assert next_step(OSError(number, "no")) == words
