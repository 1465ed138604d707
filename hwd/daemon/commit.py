"""The commit of this hwd, as its installation or the git repository of its source tree says."""

import json
import os
import subprocess
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import hwd
from hwd_drivers.core.reason import reason_of

GIT_WITHIN_S: Final = 5.0
"""Git takes some 20 ms; a source tree on a file server that hangs does not keep the daemon from its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The commit of the program; `id` as `git describe --always --dirty` names it; None if unknown, for `why_not`."""

    id: str | None = None
    why_not: str = "nobody asked"

    def __str__(self) -> str:
        return self.id or f"unknown: {self.why_not}"


def find_commit() -> Commit:
    """The commit of this program. It waits for a git process: call it once, at the start, in a thread."""
    return of_installation(distribution("hwd-daemon").read_text("direct_url.json")) or of_tree(
        Path(hwd.__file__).parents[1]
    )


def of_installation(direct_url: str | None) -> Commit | None:
    """What an installer left of a commit that it installed from (PEP 610); None where it was no commit."""
    origin = json.loads(direct_url) if direct_url else {}
    id = origin.get("vcs_info", {}).get("commit_id")
    return None if id is None else Commit(id=id, why_not="")


def of_tree(tree: Path) -> Commit:
    """The commit by git, where `tree` is the root of a checkout; a folder inside of another checkout does not count."""
    if not (tree / ".git").exists():
        return Commit(why_not=f"{tree} is no checkout of git, and the installation names no commit")
    command = ("git", "-C", str(tree), "describe", "--always", "--dirty")
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GIT_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Commit(why_not=f"{tree}: cannot ask git: {reason_of(error)}")
    if done.returncode:
        return Commit(why_not=f"{tree}: git says: {done.stderr.strip()}")
    return Commit(id=done.stdout.strip(), why_not="")
