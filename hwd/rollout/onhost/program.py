"""The program that does the work on a host. This file is sent to the host's own Python with its imports, and needs
nothing else (`hwd.rollout.host_program`).

Each line of its output is a JSON object: `{"step": ...}` for progress, at last `{"done": ...}` or `{"failed": words}`.
`layout` has the fields of `Layout`. The verbs are the functions in `VERBS`.
"""

import contextlib
import errno
import json
import os
import platform
import select
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from hwd.rollout.onhost.facts import (
    BEFORE,
    COMPLETE,
    UNIT,
    journal,
    look,
    manifest,
    mode,
    pyverbs,
    reach,
    runs,
    service,
)
from hwd.rollout.onhost.lock import hold, is_there, try_lock
from hwd.rollout.onhost.programs import Failure, last, run, say
from hwd.rollout.onhost.staging import clear_staging, stage, unstage

NEEDED_BYTES: Final = 100_000_000
"""An environment takes 25 MB (`du -s`), its wheels 8, while the one before it remains."""
ENDING_ROUNDS: Final = 300
"""Attempts to begin a verb, `ROUND_MS` apart, where the step of an interrupted roll-out still goes on."""
ROUND_MS: Final = 200


def main() -> None:
    """Do the verb of the command line."""
    verb, arguments = sys.argv[1], json.loads(sys.argv[2])
    try:
        say(done=VERBS[verb](**arguments))
    except Failure as error:
        say(failed=str(error))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            say(failed=f"{error.filename or 'a file'}: the disk is full. Free {NEEDED_BYTES // 1_000_000} MB on it")
        else:
            say(failed=f"{error.filename}: {error.strerror}" if error.filename else str(error))


# --- install


def install(layout: dict[str, str], staging: str, id: str, spec: list[str], version: str) -> dict[str, Any]:
    """Make the environment `id` of the wheels in `staging`; `spec` is the argument of pip. Returns {made: whether it
    did not exist, or did not run}.
    """
    root = Path(layout["root"])
    with locked(root):
        environment = root / id
        if manifest(environment) is not None:
            if runs(environment):
                return {"made": False}
            say(step=f"removing {id}, which does not run any more")
            shutil.rmtree(environment)
        for path in root.iterdir():  # of an interrupted install
            if path.is_dir() and not path.is_symlink() and manifest(path) is None:
                say(step=f"removing {path.name}, which is incomplete")
                shutil.rmtree(path)
        disk = os.statvfs(root)
        if (free := disk.f_bavail * disk.f_frsize) < NEEDED_BYTES:
            mb = 1_000_000
            raise Failure(f"{root}: {free // mb} MB are free, and {NEEDED_BYTES // mb} MB are needed. Free some")
        say(step="making the environment")
        try:
            fill(environment, Path(staging), spec)
        except BaseException:
            shutil.rmtree(environment, ignore_errors=True)
            raise
        wheels = sorted(path.name for path in Path(staging).glob("*.whl"))
        os.sync()  # all of it is on the disk before the file says so
        write(
            environment / COMPLETE,
            json.dumps({"id": id, "version": version, "python": platform.python_version(), "wheels": wheels}).encode(),
            0o644,
        )
        return {"made": True}


def fill(environment: Path, staging: Path, spec: list[str]) -> None:
    made = run([sys.executable, "-I", "-B", "-m", "venv", "--without-pip", str(environment)], fails=True)
    if made.returncode:
        raise Failure(
            f"{sys.executable} cannot make a virtual environment: {last(made)}. "
            "Install its module venv (Debian: apt install libpython3-stdlib)"
        )
    python = str(environment / "bin/python")
    (pip,) = staging.glob("pip-*.whl")
    say(step="installing the wheels")
    options = ["--no-index", "--find-links", str(staging), "--no-cache-dir", "--disable-pip-version-check", "--quiet"]
    options += ["--no-compile"]  # most of it is never imported; the check below compiles what is
    done = run([python, "-I", f"{pip}/pip", "install", *options, *spec], fails=True)
    if done.returncode:
        raise Failure(f"pip could not install what was copied: {last(done)}")
    if (found := pyverbs()) is not None:
        library = run([python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]).stdout.strip()
        os.symlink(found, Path(library) / "pyverbs")
    done = run([python, "-I", "-c", "import hwd_agents.process.serve"], fails=True)
    if done.returncode:
        raise Failure(f"the agent does not run with this host's Python {platform.python_version()}: {last(done)}")


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """One verb at a time: the step of an interrupted roll-out is waited for, and a program such as pip that outlives
    it. The folder is created where it does not exist.
    """
    waiting = select.poll()
    for left in reversed(range(ENDING_ROUNDS)):
        root.mkdir(parents=True, exist_ok=True)
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if try_lock(fd, root) and is_there(fd, root):
                os.set_inheritable(fd, True)  # the lock is also that of each program that the verb runs
                yield
                return
        finally:
            os.close(fd)
        if left == ENDING_ROUNDS - 1:
            say(step="an interrupted roll-out completes its step: waiting for it")
        waiting.poll(ROUND_MS)
    raise Failure(
        f"{root}: another roll-out is in progress on this host, or an interrupted one is completing its step. "
        "Try again in a minute"
    )


# --- switch, back, settle


def switch(layout: dict[str, str], staging: str, id: str, made: bool = False) -> dict[str, Any]:
    """Put the files in `staging` (agent.yaml, and the unit) and the environment in place, each atomically, and restart
    the agent if anything differs.

    `made`: the environment was made just now, so that a running agent in one of that name is another one.
    """
    root, config = Path(layout["root"]), Path(layout["config"])
    with locked(root):
        changed = []
        Path(layout["state"]).mkdir(parents=True, exist_ok=True, mode=0o750)
        if replace(config, (Path(staging) / "agent.yaml").read_bytes(), 0o600):
            changed.append("agent file")
        if layout["unit"] and replace(Path(layout["unit"]), (Path(staging) / UNIT).read_bytes(), 0o644):
            changed.append("unit")
        if point(root / "current", id, keep=root / f"current{BEFORE}") or made:
            changed.append("environment")
        active = bool(layout["unit"]) and start(restart=bool(changed))
        return {"changed": changed, "started": active}


def start(*, restart: bool) -> bool:
    """Start the unit, now and at each boot of the host. Returns whether it was started; raises Failure with the end of
    its log where it does not start.
    """
    if not restart and service().get("ActiveState") == "active":
        return False
    say(step="starting hwd-agent")
    run(["systemctl", "daemon-reload"])
    run(["systemctl", "reset-failed", UNIT], fails=True)
    run(["systemctl", "enable", "--quiet", UNIT])
    if run(["systemctl", "restart", UNIT], fails=True).returncode:
        words = "\n".join(journal()[0][-6:])
        raise Failure(f"hwd-agent does not start ({service().get('Result', 'unknown')}). Its last words:\n{words}")
    return True


def back(layout: dict[str, str]) -> dict[str, Any]:
    """Restore the state before the last switch. Returns {current: the environment in use}."""
    root = Path(layout["root"])
    with locked(root):
        for name in (layout["config"], layout["unit"]):
            if name and Path(name + BEFORE).exists():
                os.replace(name + BEFORE, name)
        kept = root / f"current{BEFORE}"
        if kept.is_symlink():
            os.replace(kept, root / "current")
        if layout["unit"]:
            start(restart=True)
        return {"current": os.readlink(root / "current")}


def settle(layout: dict[str, str], staging: str) -> dict[str, Any]:
    """Accept the new state. The environment before this one stays; older ones, and copies of interrupted
    roll-outs, are removed.
    """
    root = Path(layout["root"])
    with locked(root):
        if (kept := root / f"current{BEFORE}").is_symlink():
            os.replace(kept, root / "previous")
        stays = {os.readlink(path) for path in (root / "current", root / "previous") if path.is_symlink()}
        gone = []
        for path in root.iterdir():
            if path.is_dir() and not path.is_symlink() and path.name not in stays:
                shutil.rmtree(path)
                gone.append(path.name)
        for name in (layout["config"], layout["unit"]):
            if name:
                Path(name + BEFORE).unlink(missing_ok=True)
        return {"gone": gone + clear_staging(layout, but=staging)}


def replace(path: Path, content: bytes, permissions: int) -> bool:
    """Write a file; returns whether it differs from the old one, which is saved next to it until all is settled."""
    if path.exists() and path.read_bytes() == content and mode(path) == f"{permissions:o}":
        return False
    before = Path(str(path) + BEFORE)
    if path.exists() and not before.exists():  # else it is of an interrupted switch: that one was good
        write(before, path.read_bytes(), permissions)
    write(path, content, permissions)
    return True


def point(link: Path, target: str, *, keep: Path) -> bool:
    """Point the link to `target`, atomically; `keep` then points to its old target, or stays as an interrupted switch
    has made it.
    """
    now = os.readlink(link) if link.is_symlink() else None
    if now == target:
        return False
    if keep.is_symlink():
        now = None
    for path, to in ((keep, now), (link, target)):
        if to is not None:
            new = path.with_name(f"{path.name}.new")
            new.unlink(missing_ok=True)
            new.symlink_to(to)
            os.replace(new, path)
    sync_folder(link.parent)
    return True


def write(path: Path, content: bytes, permissions: int) -> None:
    """Write atomically and durably, with these permissions from the start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "wb") as file:
        file.write(content)
        os.fchmod(fd, permissions)
        file.flush()
        os.fsync(fd)
    os.replace(new, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# --- remove


def remove(layout: dict[str, str], keep_spool: bool, leave_settings: bool) -> dict[str, Any]:
    """Stop the agent, restore what runs have set, and remove everything. Returns {back: [...], removed: [...]}."""
    root, config, unit = Path(layout["root"]), Path(layout["config"]), Path(layout["unit"] or "/nowhere")
    report: dict[str, Any] = {"back": [], "removed": []}
    with locked(root) if root.exists() else contextlib.nullcontext():
        if layout["unit"] and service().get("LoadState") == "loaded":
            say(step="stopping hwd-agent")
            run(["systemctl", "disable", "--now", "--quiet", UNIT])
        journal = Path(layout["state"]) / "settings"
        if not leave_settings and config.exists() and journal.exists() and journal.stat().st_size:
            report["back"] = put_back(root / "current", config)
        if layout["unit"]:
            remove_path(unit, report["removed"])
            remove_path(Path(str(unit) + BEFORE), report["removed"])
            run(["systemctl", "daemon-reload"])
            run(["systemctl", "reset-failed", UNIT], fails=True)
        remove_path(config, report["removed"])
        remove_path(Path(str(config) + BEFORE), report["removed"])
        if not keep_spool:
            remove_path(Path(layout["state"]), report["removed"])
        remove_path(root, report["removed"])
    report["removed"] += clear_staging(layout)
    made = [config.parent]
    if layout["prefix"]:
        made += [above for path in (config, root, Path(layout["state"])) for above in path.parents]
    for folder in dict.fromkeys(made):
        if layout["prefix"] == "" or str(folder).startswith(layout["prefix"]):
            with contextlib.suppress(OSError):  # not empty: it is not ours alone
                folder.rmdir()
    return report


def put_back(environment: Path, config: Path) -> list[str]:
    """Restore the settings that runs have made, by the agent's own program."""
    try:
        done = run([str(environment / "bin/hwd-agent"), "put-back", "--config", str(config)], fails=True)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
    else:
        if done.returncode == 0:
            return done.stdout.splitlines()
        why = last(done)
    raise Failure(
        f"the settings that runs have made are not restored: {why}. Restore them by hand, then use --leave-settings"
    )


def remove_path(path: Path, removed: list[str]) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()
    else:
        return
    removed.append(str(path))


VERBS: Final[dict[str, Callable[..., Any]]] = {
    verb.__name__: verb for verb in (look, reach, hold, stage, unstage, install, switch, back, settle, remove)
}
