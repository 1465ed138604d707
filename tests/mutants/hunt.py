"""The tests of one mutant, in a tree of its own, up to the first that fails."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .changes import planted
from .mutants import Mutant, tests_of_room
from .order import FILE, failed

TEST_WITHIN_S = 60
"""A mutant that makes a test hang is found by it."""
UNFOUND, NOTHING_RAN = 0, 5
"""Exit statuses of pytest."""


@dataclass(frozen=True, slots=True)
class Found:
    """`by`: the first test that failed; empty where none did. `ran`: how many there were to run."""

    by: str
    ran: int


class Tree:
    """A copy of the tree with an environment of its own, in which one mutant at a time is planted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def python(self) -> Path:
        return self._folder / ".venv" / "bin" / "python"

    def make(self, of: Path) -> None:
        """Copy what git knows, as it is in the working folder; the environment stays where it is there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        files = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=of, capture_output=True, check=True,
        ).stdout.decode()  # fmt: skip
        names = {name for name in files.split("\0") if name and (of / name).is_file()}
        for name in names:
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(of / name, self._folder / name)
        for path in self._folder.rglob("*.py"):
            name = str(path.relative_to(self._folder))
            if name not in names and not name.startswith(".venv"):
                path.unlink()
        if not (self._folder / ".git").exists():
            subprocess.run(["git", "init", "--quiet"], cwd=self._folder, check=True)
        subprocess.run(["make", "--silent", "setup"], cwd=self._folder, check=True, stdout=subprocess.DEVNULL)

    def hunt(self, mutant: Mutant, tests: Sequence[str], seconds: Mapping[str, float]) -> Found | None:
        """Plant the mutant, run its tests, take it out again. None where it cannot be planted."""
        path = self._folder / mutant.file
        source = path.read_text(encoding="utf-8")
        changed = planted(source, mutant.change)
        if changed is None:
            return None
        path.write_text(changed, encoding="utf-8")
        try:
            return self.run(ordered(tests, seconds, tests_of_room(mutant.room)))
        finally:
            path.write_text(source, encoding="utf-8")

    def run(self, tests: Sequence[str]) -> Found:
        """Run tests in this order, up to the first that fails."""
        names = self._folder / ".tests-of-mutant"
        names.write_text("\n".join(tests), encoding="utf-8")
        failed(names).unlink(missing_ok=True)
        files = [
            one for one in dict.fromkeys(name.partition("::")[0] for name in tests) if (self._folder / one).is_file()
        ]
        if not files:
            return Found("", 0)
        command = [
            str(self.python), "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.order",
            f"--timeout={TEST_WITHIN_S}", "--no-header", *files,
        ]  # fmt: skip
        environment = {**os.environ, FILE: str(names), "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(
            command, cwd=self._folder, env=environment, text=True, errors="replace", start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                said, _ = process.communicate()
            finally:
                _end(process.pid)
        if process.returncode in (UNFOUND, NOTHING_RAN):
            return Found("", len(tests))
        first = failed(names)
        return Found(first.read_text(encoding="utf-8") if first.is_file() else _last(said), len(tests))


def ordered(tests: Sequence[str], seconds: Mapping[str, float], room: str) -> list[str]:
    """Those of the room first, then files by the time that their tests take together."""
    files: dict[str, float] = {}
    for test in tests:
        file = test.partition("::")[0]
        files[file] = files.get(file, 0.0) + seconds.get(test, 0.0)
    return sorted(
        tests,
        key=lambda test: (
            not test.startswith(room),
            files[test.partition("::")[0]],
            test.partition("::")[0],
            seconds.get(test, 0.0),
        ),
    )


def _last(said: str) -> str:
    """What pytest said last: it did not come to its own summary."""
    lines = [line for line in said.splitlines() if line.strip()]
    return f"(pytest ended: {lines[-1][:200] if lines else 'without a word'})"


def _end(group: int) -> None:
    """End what a hanging test left."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
