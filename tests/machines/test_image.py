"""The image is made once for all, made anew when its content changes, and a missing one is reported.

Quick scripts stand for the programs that make it.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from .image import ImageUnavailableError, open_image

pytestmark = pytest.mark.root

DEBOOTSTRAP = """#!/bin/sh
echo made >>"$COUNT"
sleep 0.3
for root; do case $root in /*) break ;; esac; done
mkdir -p "$root/boot" "$root/etc/ssh"
echo kernel >"$root/boot/vmlinuz-1"; echo initrd >"$root/boot/initrd.img-1"; echo key >"$root/etc/ssh/ssh_host_rsa_key"
"""
NO_MIRROR = "#!/bin/sh\necho 'E: Failed getting release file http://mirror/InRelease' >&2; exit 1\n"
BROKEN = "#!/bin/sh\necho 'E: it fell over' >&2; exit 1\n"
NOTHING = "#!/bin/sh\nexit 0\n"
MKE2FS = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
echo disk >"$1"
"""
WANTS = """
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("image", sys.argv[1])
image = importlib.util.module_from_spec(spec)
sys.modules["image"] = image
spec.loader.exec_module(image)
print(image.open_image(pathlib.Path(sys.argv[2]), lambda words: None).disk)
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    place(folder, debootstrap=DEBOOTSTRAP, chroot=NOTHING, mke2fs=MKE2FS)
    place(folder, **{"apt-get": NOTHING})
    return folder


def place(folder: Path, **programs: str) -> None:
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def silent(words: str) -> None:
    assert words.startswith("machines: ")


def made(tmp_path: Path) -> int:
    return (tmp_path / "count").read_text().count("made")


async def test_of_several_processes_that_want_it_one_makes_it(programs: Path, tmp_path: Path) -> None:
    source = Path(__file__).with_name("image.py")
    wanting = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WANTS, str(source), str(tmp_path / "cache"), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    async with asyncio.timeout(40):
        said = {(await process.communicate())[0] for process in wanting}
    assert len(said) == 1
    assert Path(said.pop().decode().strip()).exists()
    assert made(tmp_path) == 1


def test_one_that_is_there_is_taken_and_what_was_left_half_made_is_not(programs: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "0123.making" / "root").mkdir(parents=True)
    first = open_image(cache, silent)
    assert [one.name for one in cache.iterdir() if one.is_dir()] == [first.disk.parent.name]
    assert open_image(cache, silent) == first
    assert made(tmp_path) == 1
    assert (first.kernel.read_text(), first.initrd.read_text(), first.disk.exists()) == ("kernel\n", "initrd\n", True)


@pytest.mark.parametrize(
    ("debootstrap", "kind", "words"),
    [
        (NO_MIRROR, ImageUnavailableError, "needs a mirror of Debian: E: Failed getting release file"),
        (BROKEN, RuntimeError, "debootstrap ended with status 1:\nE: it fell over"),
    ],
    ids=["without a mirror it cannot be had", "anything else is no reason to skip"],
)
def test_one_that_cannot_be_made_says_why(
    programs: Path, tmp_path: Path, debootstrap: str, kind: type[Exception], words: str
) -> None:
    place(programs, debootstrap=debootstrap)
    with pytest.raises(kind, match=words):
        open_image(tmp_path / "cache", silent)
