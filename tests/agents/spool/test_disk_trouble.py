"""What to do about a file system that refuses fits the refusal."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd_agents.settings.setting_journal import SettingJournal
from hwd_agents.spool.disk_trouble import next_step
from hwd_agents.spool.spool import Spool
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import Disk, FileDisk
from hwd_drivers.core.errors import ConfigError


def open_spool(disk: Disk) -> Spool:
    return Spool(disk, boot="b1", clock=SystemClock(), limit_bytes=1 << 20)


@pytest.mark.parametrize(("name", "open_it"), [("events", open_spool), ("settings", SettingJournal)])
def test_file_that_the_disk_does_not_read_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, open_it: Callable[[Disk], object]
) -> None:
    disk = FileDisk(tmp_path / name)

    def refuse(*_: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", refuse)
    with pytest.raises(
        ConfigError, match=rf"/{name}: .* cannot be read: Input/output error\. Look at its disk; .* move"
    ):
        open_it(disk)


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
