"""The tests of one mutant, in a tree of its own, up to the first that fails."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from .changes import planted
from .mutants import Mutant, tests_of_room
from .order import FILE, FIRST

TEST_WITHIN_S = 60
"""A mutant that makes a test hang is found by it."""
UNFOUND, NOTHING_RAN = 0, 5
"""Exit statuses of pytest."""


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

    def hunt(self, mutant: Mutant, tests: Iterable[str], seconds: Mapping[str, float]) -> str | None:
        """Plant the mutant and run its tests: returns the first that fails, "" where none does; None where there is no
        such place.

        A test that passes when it runs alone then, beside less load, has not found it.
        """
        left = ordered(tests, seconds, tests_of_room(mutant.room))
        with self._planted(mutant) as is_there:
            if not is_there:
                return None
            while (by := self._run_named(left)) in left:
                if self._run_named([by]):
                    break
                left = left[left.index(by) + 1 :]
            return by

    def _run_named(self, tests: Sequence[str]) -> str:
        """Tests in their order, up to the first that fails."""
        names = self._notes() / "tests"
        names.write_text("\n".join(tests), encoding="utf-8")
        files = dict.fromkeys(name.partition("::")[0] for name in tests)
        there = [file for file in files if (self._folder / file).is_file()]
        return self._run(there, {FILE: str(names)}) if there else ""

    def hunt_in_folder(self, mutant: Mutant, tests: str) -> str | None:
        """The same with the quick tests of a folder, in their own order; what fails only once ends the hunt, too."""
        with self._planted(mutant) as is_there:
            if not is_there:
                return None
            by = self._run(["-m", "not slow", tests], {}) if (self._folder / tests).is_dir() else ""
            return by if by.startswith("(") else by and self._run_named([by])

    def _notes(self) -> Path:
        """Where git does not look."""
        folder = self._folder / ".mutants"
        folder.mkdir(exist_ok=True)
        return folder

    @contextmanager
    def _planted(self, mutant: Mutant) -> Iterator[bool]:
        path = self._folder / mutant.file
        source = path.read_text(encoding="utf-8")
        changed = planted(source, mutant.change)
        try:
            if changed is not None:
                path.write_text(changed, encoding="utf-8")
            yield changed is not None
        finally:
            path.write_text(source, encoding="utf-8")

    def _run(self, arguments: Sequence[str], more: Mapping[str, str]) -> str:
        """The first test that fails; empty where none does."""
        first = self._notes() / "failed"
        first.unlink(missing_ok=True)
        command = [
            str(self.python), "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.order",
            f"--timeout={TEST_WITHIN_S}", "--no-header", *arguments,
        ]  # fmt: skip
        with subprocess.Popen(
            command, cwd=self._folder, env={**os.environ, **more, FIRST: str(first)}, text=True, errors="replace",
            start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                said = _said(process, first)
            finally:
                _end(process.pid)
        if process.returncode in (UNFOUND, NOTHING_RAN):
            return ""
        if first.is_file():
            return first.read_text(encoding="utf-8")
        if process.returncode < 0:
            raise InterruptedError(f"pytest was ended by signal {-process.returncode}: nothing is known of this mutant")
        return _last(said)


def _said(process: "subprocess.Popen[str]", first: Path) -> str:
    """All its words; empty where it goes on a minute after its test failed: what that test left can hinder its end."""
    while True:
        try:
            return process.communicate(timeout=TEST_WITHIN_S)[0]
        except subprocess.TimeoutExpired:
            if first.is_file():
                return ""


def ordered(tests: Iterable[str], seconds: Mapping[str, float], room: str) -> list[str]:
    """Those of the room first, then files by the time that their tests take together."""
    files: dict[str, float] = {}
    for test in (tests := list(tests)):
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
