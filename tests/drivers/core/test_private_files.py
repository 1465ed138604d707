"""`make_private`: what is ours of a folder, and nothing else."""

import os
from pathlib import Path

import pytest

from hwd_drivers.core.private_files import make_private


def test_files_of_these_names_lose_the_access_of_others(tmp_path: Path) -> None:
    for name, mode in {"records.db": 0o644, "records.db-wal": 0o666, "lock": 0o600, "other": 0o644}.items():
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    tmp_path.chmod(0o750)
    assert make_private(tmp_path, ("records.db*", "lock")) == ("records.db", "records.db-wal", ".")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"records.db": 0o600, "records.db-wal": 0o600, "lock": 0o600, "other": 0o644}
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert make_private(tmp_path, ("records.db*", "lock")) == ()


def test_folder_without_files_of_these_names_and_links_pipes_and_folders_are_left(tmp_path: Path) -> None:
    for mode in (0o755, 0o1777, 0o770):
        tmp_path.chmod(mode)
        assert make_private(tmp_path, ("*",)) == ()
        assert tmp_path.stat().st_mode & 0o7777 == mode
    (tmp_path / "victim").mkdir(mode=0o755)
    (tmp_path / "victim" / "file").touch(mode=0o644)
    (tmp_path / "victim" / "file").chmod(0o644)
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    (folder / "link").symlink_to(tmp_path / "victim" / "file")
    (folder / "below").mkdir(mode=0o755)
    os.mkfifo(folder / "pipe", 0o644)
    assert make_private(folder, ("*",)) == ()
    assert (tmp_path / "victim" / "file").stat().st_mode & 0o777 == 0o644


@pytest.mark.root
def test_files_of_others_are_left(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "lock").chmod(0o644)
    os.chown(tmp_path / "lock", 1234, 1234)
    assert make_private(tmp_path, ("lock",)) == ()
