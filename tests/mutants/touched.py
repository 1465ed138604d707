"""Which test executes which line: recorded once for all quick tests, and for all slow ones, processes that they start
included.

Also a pytest plugin (`-p tests.mutants.touched`): while coverage measures, it names the test that runs.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import coverage
import pytest

TEST = "HWD_TEST_THAT_RUNS"
"""In the environment of processes that a test starts: its name."""
SOURCES = ("hwd", "agents/hwd_agents", "drivers/hwd_drivers")
CONFIG = f"""[run]
parallel = true
source =
    {{sources}}
context = ${{{{{TEST}-}}}}
data_file = {{data}}
disable_warnings = no-data-collected, module-not-measured, module-not-imported, couldnt-parse, trace-changed
"""
DURATIONS = "durations.json"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Attribute what runs now, and processes that start now, to this test."""
    measuring = coverage.Coverage.current()
    os.environ[TEST] = item.nodeid
    if measuring is not None:
        measuring.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        os.environ.pop(TEST, None)
        if measuring is not None:
            measuring.switch_context("")


_TOOK: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _TOOK[report.nodeid] = _TOOK.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep how long each test took, beside its coverage; workers of xdist leave it to their controller."""
    folder = os.environ.get("COVERAGE_PROCESS_START")
    if folder and not hasattr(session.config, "workerinput"):
        (Path(folder).parent / DURATIONS).write_text(json.dumps(_TOOK), encoding="utf-8")


class Touched:
    """The recording in a folder: of the lines of the tree beside it."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self._folder = folder
        self._tree = tree

    def is_there(self) -> bool:
        return (self._folder / DURATIONS).is_file()

    def record(self, marker: str, workers: int, say: Callable[[str], None]) -> None:
        """Run the tests of a marker under coverage. A test that fails under it touches its lines all the same."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for old in self._folder.iterdir():
            old.unlink()
        config = self._folder / "coverage.ini"
        sources = "\n    ".join(str(self._tree / one) for one in SOURCES)
        config.write_text(CONFIG.format(sources=sources, data=self._folder / "data"), encoding="utf-8")
        python = self._tree / ".venv" / "bin" / "python"
        command = [
            str(python), "-m", "pytest", "tests", "-q", "-m", marker, "-p", "tests.mutants.touched",
            "-n", str(workers), "--dist=loadfile", "--no-loadscope-reorder", "--timeout=300",
        ]  # fmt: skip
        environment = {**os.environ, "COVERAGE_PROCESS_START": str(config)}
        with subprocess.Popen(
            command, cwd=self._tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                say(line.rstrip())
        if not self.is_there():
            sys.exit("mutants: the tests did not run under coverage; see above")

    def durations(self) -> dict[str, float]:
        """Seconds of each test, as it took them under coverage."""
        read: dict[str, float] = json.loads((self._folder / DURATIONS).read_text(encoding="utf-8"))
        return read

    def executed(self) -> dict[str, set[int]]:
        """The lines of each file that a test executes."""
        found: dict[str, set[int]] = {}
        for file, line, _ in self._lines(None):
            found.setdefault(file, set()).add(line)
        return found

    def tests_of(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], set[str]]:
        """The tests that execute each of some lines."""
        found: dict[tuple[str, int], set[str]] = {one: set() for one in wanted}
        for file, line, tests in self._lines({file for file, _ in found}):
            if (file, line) in found:
                found[file, line].update(tests)
        return found

    def _lines(self, files: set[str] | None) -> Iterator[tuple[str, int, set[str]]]:
        for path in self._folder.glob("data.*"):
            data = coverage.CoverageData(str(path))
            data.read()
            for name in data.measured_files():
                file = os.path.relpath(name, self._tree)
                if not file.endswith(".py") or (files is not None and file not in files):
                    continue
                for line, contexts in data.contexts_by_lineno(name).items():
                    if tests := {one for one in contexts if one}:
                        yield file, line, tests
