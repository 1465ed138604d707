"""Wheels: ours as they are installed here, and what fits a host."""

import hashlib
from base64 import urlsafe_b64encode
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

from hwd.rollout.versions import is_newer
from hwd.rollout.wheels import Target, own_wheel

TREE = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "folder"), [("hwd-agents", "agents/hwd_agents"), ("hwd-drivers", "drivers/hwd_drivers")]
)
def test_our_wheel_holds_every_file_of_the_package_and_says_so_in_its_record(
    name: str, folder: str, tmp_path: Path
) -> None:
    source = TREE / folder
    with ZipFile(own_wheel(name, tmp_path)) as archive:
        held = {one: archive.read(one) for one in archive.namelist()}
    ours = {one: content for one, content in held.items() if ".dist-info/" not in one}
    assert ours == {
        f"{source.name}/{path.relative_to(source)}": path.read_bytes()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"{source.name}-{version(name)}.dist-info"
    rows = dict(row.split(",", 1) for row in held[f"{info}/RECORD"].decode().splitlines())
    assert rows.pop(f"{info}/RECORD") == ","
    assert rows == {one: _row(content) for one, content in held.items() if one != f"{info}/RECORD"}
    assert {f"{info}/METADATA", f"{info}/entry_points.txt", f"{info}/WHEEL"} <= held.keys()


def test_the_same_code_is_the_same_wheel_and_the_newer_version_has_the_higher_number(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert own_wheel("hwd-agents", tmp_path / "a").read_bytes() == own_wheel("hwd-agents", tmp_path / "b").read_bytes()
    newer = [("0.2.0", "0.1.0"), ("0.1.10", "0.1.9"), ("1.0", "0.9.9")]
    others = [("0.1.0", "0.1.0"), ("0.1.0", "0.2.0"), ("", "0.1.0"), ("0.1.0", "dev")]
    assert [one for one in (*newer, *others) if is_newer(*one)] == newer


def test_a_host_takes_wheels_for_its_own_glibc_and_older_ones_or_for_musl() -> None:
    target = Target.of({"python": "3.12.3", "machine": "aarch64", "libc": ["glibc", "2.28"]})
    assert (target.python, target.platforms[0], target.platforms[-1]) == (
        "3.12",
        "manylinux_2_28_aarch64",
        "linux_aarch64",
    )
    assert "manylinux_2_29_aarch64" not in target.platforms
    assert {"manylinux_2_17_aarch64", "manylinux2014_aarch64"} <= set(target.platforms)
    target = Target.of({"python": "3.11.9", "machine": "x86_64", "libc": ["", ""]})
    assert set(target.platforms) == {f"musllinux_1_{minor}_x86_64" for minor in range(1, 6)}


def _row(content: bytes) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"sha256={digest},{len(content)}"
