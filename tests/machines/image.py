"""The disk that machines start from: a Debian with a stock kernel, made once by debootstrap and kept for later runs."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUITE: Final = "bookworm"
PACKAGES: Final = (
    # no python3-venv and no python3-pip: a fresh host has neither
    "python3",
    "python3-pyverbs",
    "ibverbs-providers",
    "ibverbs-utils",
    "linux-image-amd64",  # the cloud kernel has no rxe
    "iproute2",
    "ethtool",
    "kmod",
    "procps",
    "systemd-sysv",
    "openssh-server",
    "openssh-sftp-server",
)
DISK_MB: Final = 1500
"""Sparse: what is not written takes no room."""

BEFORE: Final = Path(__file__).parent / "disk" / "before"
AFTER: Final = BEFORE.with_name("after")
"""What is on the disk before its packages are set up, and after. What a machine has of its test is in /mnt: /dev/vdb,
read-only; each fresh host has keys of its own, which its test gave it.
"""
MASKED: Final = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "console-getty.service",  # it would take the console of a container from the door
    "getty@tty1.service",
    "serial-getty@ttyS0.service",
    "systemd-timesyncd.service",
)
"""Nothing of a fresh host that tests look at; each costs seconds on a processor that is emulated."""

NO_MIRROR: Final = (
    "Failed getting release file",
    "Invalid Release file",
    "Couldn't download",
    "Couldn't find these debs",
)


class ImageUnavailableError(Exception):
    """This machine cannot make the disk: who needs it is skipped by these words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A disk, which no machine changes, and the kernel that starts from it."""

    disk: Path
    kernel: Path
    initrd: Path


def open_image(cache: Path, say: Callable[[str], None]) -> Image:
    """The image, out of `cache` or made there; of several processes that want it one makes it, and the others wait.

    Takes about two minutes and a mirror of Debian the first time. Raises ImageUnavailableError.
    """
    folder = cache / _key()
    image = Image(disk=folder / "disk", kernel=folder / "vmlinuz", initrd=folder / "initrd")
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock", say):
        if folder.exists():
            return image
        if missing := _missing():
            raise ImageUnavailableError(missing)
        for old in [one for one in cache.iterdir() if one.is_dir()]:
            shutil.rmtree(old)
        making = cache / f"{folder.name}.making"
        making.mkdir()
        _make(making, say)
        making.rename(folder)
    return image


def _missing() -> str:
    """What this machine lacks to make the image; empty where it lacks nothing."""
    if os.geteuid() != 0:
        return "an image for machines is made by root"
    if shutil.which("debootstrap", path=_path()) is None:
        return "needs debootstrap: apt-get install debootstrap"
    if shutil.which("mke2fs", path=_path()) is None:
        return "needs mke2fs: apt-get install e2fsprogs"
    return ""


def _make(folder: Path, say: Callable[[str], None]) -> None:
    root = folder / "root"
    say(f"machines: Debian {SUITE} with its kernel, once: packages")
    wanted = f"--include={','.join(PACKAGES)}"
    _do("debootstrap", "--foreign", "--variant=minbase", wanted, SUITE, str(root), *_mirror(), log=folder / "log")
    _write(root, BEFORE)
    say("machines: setting the packages up")
    # In a mount namespace: its mounts end with it, also where it is killed, and do not hinder removal of the folder.
    stage = ("chroot", str(root), "/debootstrap/debootstrap", "--second-stage")
    _do("unshare", "--mount", *stage, log=folder / "log")
    _write(root, AFTER)
    _settle(root)
    say("machines: the disk")
    for name in ("vmlinuz", "initrd"):
        found = sorted((root / "boot").glob(f"{name}*-*"))
        shutil.copy(found[-1], folder / name)
        (folder / name).chmod(0o644)
    options = ("-q", "-t", "ext4", "-O", "^has_journal", "-d", str(root))
    _do("mke2fs", *options, str(folder / "disk"), f"{DISK_MB}M", log=folder / "log")
    shutil.rmtree(root)
    say("machines: the image is made")


def _settle(root: Path) -> None:
    """As a host that nobody has used yet."""
    for package in (root / "var/cache/apt/archives").glob("*.deb"):
        package.unlink()
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "etc/machine-id").write_text("")
    units = root / "etc/systemd/system"
    for unit in MASKED:
        _link(units / unit, "/dev/null")
    _link(units / "multi-user.target.wants/hwd-door.service", "/etc/systemd/system/hwd-door.service")
    _link(units / "multi-user.target.wants/systemd-networkd.service", "/lib/systemd/system/systemd-networkd.service")
    _link(units / "default.target", "/lib/systemd/system/multi-user.target")


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _write(root: Path, files: Path) -> None:
    for name, text in _texts(files):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)


def _texts(files: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(files.rglob("*")):
        if path.is_file():
            yield path.relative_to(files), path.read_text()


def _do(program: str, *arguments: str, log: Path) -> None:
    environment = {**os.environ, "PATH": _path(), "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    with log.open("ab") as words:
        status = subprocess.run(
            [program, *arguments], stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment
        ).returncode
    if not status:
        return
    said = log.read_text(errors="replace")
    if any(words in said for words in NO_MIRROR):
        raise ImageUnavailableError(f"needs a mirror of Debian: {said.strip().splitlines()[-1]}")
    raise RuntimeError(f"{program} ended with status {status}:\n{said[-4000:]}")


def _mirror() -> tuple[str, ...]:
    """The mirror that this machine's own apt has, where it is the same Debian; else debootstrap knows one."""
    with contextlib.suppress(FileNotFoundError):
        asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {SUITE}", "Component: main"]
        for place in subprocess.run(asked, capture_output=True, text=True).stdout.split():
            return (place,)
    return ()


def _key() -> str:
    parts = [SUITE, *PACKAGES, str(DISK_MB), *MASKED]
    parts += [str(text) for files in (BEFORE, AFTER) for pair in _texts(files) for text in pair]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"


@contextlib.contextmanager
def _locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """One process at a time; a killed one leaves nothing locked."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("machines: another process makes the image")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
