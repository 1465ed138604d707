"""`output_file` with pipes, devices, links, permissions of other users and a full disk."""

import contextlib
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd_drivers.core.errors import ConfigError, FailedError
from hwd_drivers.core.output_file import output_file, write_file

NULL_DEVICE = (1, 3)
ROOM_BYTES = 64 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs is mounted")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "hwd-test", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_file_has_its_name_only_when_it_is_whole_and_an_interrupted_write_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with output_file(path) as file:
        file.write(b"first")
        assert not path.exists()
    with output_file(path) as file:
        file.write(b"second")
        file.flush()
        assert path.read_bytes() == b"first"
    with pytest.raises(KeyboardInterrupt), output_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.root
def test_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*NULL_DEVICE))
        path.open("wb").close()
    except PermissionError:
        pytest.skip("needs root that may make device nodes, on a file system that has them")
    write_file(path, "away")
    found = path.lstat()
    assert stat.S_ISCHR(found.st_mode)
    assert found.st_rdev == os.makedev(*NULL_DEVICE)
    assert os.listdir(tmp_path) == ["null"]


def test_link_stays_and_its_file_is_written_or_created_or_is_a_device(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    target, link = tmp_path / "site" / "index.html", tmp_path / "report.html"
    target.write_text("before")
    link.symlink_to(target)
    for text in ("after", "now"):
        write_file(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
        assert os.listdir(tmp_path / "site") == ["index.html"]
        target.unlink()
    link.unlink()
    link.symlink_to(os.devnull)
    write_file(link, "away")
    assert os.readlink(link) == os.devnull


def test_open_file_without_a_name_is_written_by_its_descriptor_and_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    with (tmp_path / "gone").open("w+b") as file:
        (tmp_path / "gone").unlink()
        write_file(Path(f"/dev/fd/{file.fileno()}"), "all of it")
        assert file.read() == b"all of it"
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
        write_file(path, "all of it")
        assert reader.communicate(timeout=10)[0] == b"all of it"
    assert stat.S_ISFIFO(path.lstat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".report.html.part").symlink_to(victim)
    write_file(tmp_path / "report.html", "page")
    assert victim.read_text() == "precious"
    assert (tmp_path / ".report.html.part").is_symlink()


@pytest.mark.root
@pytest.mark.parametrize("there", [True, False])
def test_link_of_another_user_in_a_shared_folder_is_refused(tmp_path: Path, there: bool) -> None:
    victim, link = tmp_path / "victim", tmp_path / "everybody" / "report.html"
    link.parent.mkdir()
    link.parent.chmod(0o1777)
    if there:
        victim.write_text("precious")
    link.symlink_to(victim)
    os.chown(link, 1234, 1234, follow_symlinks=False)
    with pytest.raises(ConfigError, match=r"report\.html: is a link to \S+ that the user with id 1234 made"):
        write_file(link, "page")
    assert victim.read_text() == "precious" if there else not victim.exists()
    assert os.listdir(link.parent) == ["report.html"]


@pytest.mark.root
def test_pipe_of_another_user_in_a_shared_folder_is_refused(tmp_path: Path) -> None:
    """Whoever reads it would get all, and the command would wait for them."""
    pipe = tmp_path / "everybody" / "run.jsonl"
    pipe.parent.mkdir()
    pipe.parent.chmod(0o1777)
    os.mkfifo(pipe)
    os.chown(pipe, 1234, 1234)
    with pytest.raises(ConfigError, match=r"run\.jsonl: is a pipe that the user with id 1234 made"):
        write_file(pipe, "rows")


def test_name_of_the_unfinished_file_is_another_each_time_and_fits_names_as_long_as_they_get(tmp_path: Path) -> None:
    names: set[str] = set()
    for _ in range(20):
        with output_file(tmp_path / "report.html"):
            names.update(name for name in os.listdir(tmp_path) if name != "report.html")
    assert len(names) == 20
    assert all(re.fullmatch(r"\.report\.html\.[a-z0-9]{12}", name) for name in names)
    path = tmp_path / ("ä" * 125 + ".html")
    write_file(path, "page")
    assert path.read_text() == "page"


def test_permissions_are_those_of_the_file_that_is_replaced_or_of_the_umask(tmp_path: Path) -> None:
    path, new = tmp_path / "report.html", tmp_path / "new.html"
    path.write_text("before")
    path.chmod(0o604)
    before = os.umask(0o027)
    try:
        write_file(path, "after")
        write_file(new, "page")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, new)] == [0o604, 0o640]


@pytest.mark.root
def test_owner_and_group_stay_where_root_writes(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    os.chown(path, 1234, 2345)
    path.chmod(0o4750)
    write_file(path, "after")
    found = path.stat()
    assert (found.st_uid, found.st_gid) == (1234, 2345)
    assert stat.S_IMODE(found.st_mode) == 0o750


def test_full_disk_keeps_the_old_file(small_disk: Path) -> None:
    path = small_disk / "report.html"
    path.write_text("before")
    with pytest.raises(FailedError, match=r"report\.html: cannot be written: No space left on device"):
        write_file(path, "x" * 2 * ROOM_BYTES)
    assert path.read_text() == "before"
    assert os.listdir(small_disk) == ["report.html"]


@pytest.mark.parametrize(
    ("path", "error", "why"),
    [
        ("/dev/full", FailedError, "/dev/full: cannot be written: No space left on device"),
        *((path, ConfigError, "cannot be written: Is a directory") for path in ("/", ".", "..", "/dev")),
    ],
)
def test_full_device_and_folder_are_not_written_to(path: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        write_file(Path(path), "page")


def test_file_that_may_not_be_written_is_left(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write to all files")
    path = tmp_path / "report.html"
    path.write_text("before")
    path.chmod(0o400)
    with pytest.raises(ConfigError, match="cannot be written: Permission denied"):
        write_file(path, "after")
    assert path.read_text() == "before"


@pytest.mark.parametrize("before", [None, "a page of somebody else"])
def test_link_that_is_planted_while_the_file_is_opened_is_not_followed(
    tmp_path: Path, before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write in the folder puts the link there behind the look at what is there."""
    victim, path = tmp_path / "victim", tmp_path / "everybody" / "report.html"
    victim.write_text("untouched")
    path.parent.mkdir()
    if before is not None:
        path.write_text(before)
    look = Path.stat

    def look_and_plant(self: Path, **options: bool) -> os.stat_result:
        try:
            return look(self, **options)
        finally:
            if self == path:
                self.unlink(missing_ok=True)
                self.symlink_to(victim)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", look_and_plant)
        with contextlib.suppress(ConfigError):
            write_file(path, "page")
            assert path.read_text() == "page"
            assert not path.is_symlink()
    assert victim.read_text() == "untouched"
    assert os.listdir(path.parent) == ["report.html"]
