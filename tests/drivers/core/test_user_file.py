"""`read_user_file`: what is no regular file of bounded size is refused in one line, and blocks nobody."""

import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user_file import open_user_file, read_user_file

from ...answers import check_golden

LIMIT = 5000


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "socket": _socket,
    "folder": Path.mkdir,
    "long": lambda path: path.write_bytes(b"x" * (LIMIT + 1)),
    "sparse": _sparse,
    "none": lambda path: None,
    **{f"link to {target}": _link(target) for target in (
        "/dev/zero", "/nowhere/at/all", "x", "/proc/self/pagemap", "/proc/self/stat",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    )},
}  # fmt: skip


def test_what_is_no_file_of_a_user_is_refused_in_a_line(tmp_path: Path) -> None:
    told = []
    for number, (kind, make) in enumerate(NO_FILES.items()):
        path = tmp_path / str(number) / "x"
        path.parent.mkdir()
        make(path)
        with pytest.raises(ConfigError) as refusal:
            read_user_file(path, most_bytes=LIMIT)
        assert str(refusal.value).startswith(f"{path}: ")
        assert "\n" not in str(refusal.value)
        why = re.sub(r"has \d+ bytes", "has N bytes", str(refusal.value).removeprefix(f"{path}: "))
        told.append(f"{kind}: {why}\n")
    check_golden(Path(__file__).with_name("no_files.txt"), "".join(told))


def test_path_that_no_file_can_have_is_refused() -> None:
    for path in ("a\0b", "x" * 9000):
        with pytest.raises(ConfigError, match=r"^the key: cannot be read: "):
            read_user_file(path, most_bytes=LIMIT, what="the key")


def test_file_without_permission_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read all files")
    (tmp_path / "x").touch(mode=0o000)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        read_user_file(tmp_path / "x", most_bytes=LIMIT)


@pytest.mark.parametrize("change", [b"", b"longer than before" * 20], ids=["shrinks", "grows"])
def test_file_that_changes_while_it_is_read_is_refused(
    change: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = tmp_path / "x", os.read
    path.write_bytes(b"before")

    def slow_read(descriptor: int, count: int) -> bytes:
        data = read(descriptor, count)
        if data:
            path.write_bytes(change)
        return data

    monkeypatch.setattr(os, "read", slow_read)
    with pytest.raises(ConfigError, match="changed while it was read"):
        read_user_file(path, most_bytes=LIMIT)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"a\xffb", "not UTF-8: byte 1: "),
        ("password".encode("utf-16"), "not UTF-8: byte 0: "),
        ("password".encode("utf-16-le"), "byte 1 is NUL"),
    ],
)
def test_what_is_no_text_is_refused_without_its_bytes(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    file = read_user_file(tmp_path / "x", most_bytes=LIMIT)
    with pytest.raises(ConfigError, match=f"^{tmp_path}/x: {why}.*Save it as UTF-8$") as refusal:
        file.text()
    assert refusal.value.__cause__ is None


def test_byte_order_mark_is_no_part_of_a_text_and_the_null_device_is_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbfsecret\n")
    (tmp_path / "x").chmod(0o640)
    file = read_user_file(tmp_path / "x", most_bytes=LIMIT)
    assert (file.text(), file.mode) == ("secret\n", 0o640)
    assert read_user_file("/dev/null", most_bytes=LIMIT).data == b""
    with open_user_file(tmp_path / "x") as opened:
        assert opened.read(4) == b"\xef\xbb\xbfs"
    assert opened.closed


def test_pipe_of_a_shells_process_substitution_is_read_where_a_person_names_it_however_slow(tmp_path: Path) -> None:
    def piped(data: bytes, *, pipes: bool) -> bytes:
        reader, writer = os.pipe()
        with open(reader, "rb"), open(writer, "wb") as file:
            file.write(data)
            file.close()
            return read_user_file(f"/dev/fd/{reader}", most_bytes=LIMIT, pipes=pipes).data

    assert piped(b"x" * LIMIT, pipes=True) == b"x" * LIMIT
    with pytest.raises(ConfigError, match="is over the 5000 bytes"):
        piped(b"x" * (LIMIT + 1), pipes=True)
    with pytest.raises(ConfigError, match="is no regular file, but a FIFO"):
        piped(b"x", pipes=False)
    os.mkfifo(tmp_path / "x")
    with pytest.raises(ConfigError, match="is no regular file, but a FIFO"):
        read_user_file(tmp_path / "x", most_bytes=LIMIT, pipes=True)
    reader, writer = os.pipe()

    def write() -> None:
        for part in (b"a", b"b"):
            os.write(writer, part)
        os.close(writer)

    later = threading.Timer(0.05, write)
    later.start()
    with open(reader, "rb"):
        assert read_user_file(f"/dev/fd/{reader}", most_bytes=LIMIT, pipes=True).data == b"ab"
    later.join()
