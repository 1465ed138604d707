"""Files that belong to a driver: README, captures, and the record of its runs on real units."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from hwd_drivers.conformance.quality import Outcome, Quality, Result
from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.core.output_file import write_file
from hwd_drivers.devices.registry import DriverSpec

GLASS: Final = "glass.json"
"""File in the driver's folder, so that it is versioned with the tested code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlassRun:
    """One run of the suite on a real unit.

    `on`: date, such as 2026-11-20. `unit`: its identity. `passed`: number of checks.
    """

    driver: str
    model: str
    on: str
    unit: str
    passed: int


def folder_of(spec: DriverSpec) -> Path:
    """The folder of the module of its driver, whose class may have `open` from another one."""
    module = sys.modules[getattr(spec.open, "__self__", spec.open).__module__]
    if module.__file__ is None:
        raise BugError(f"driver {spec.name}: {module.__name__} is not a file")
    return Path(module.__file__).parent


def readme_of(spec: DriverSpec) -> Path | None:
    """Its README: in its own folder or one above, within its package."""
    folder = folder_of(spec)
    for there in (folder, *folder.parents):
        if (there / "README.md").is_file():
            return there / "README.md"
        if not (there.parent / "__init__.py").is_file():
            return None
    return None


def captures_of(spec: DriverSpec) -> tuple[Path, ...]:
    """Files of captured or transcribed bytes, `*captures*`, in its folder or in its tests, which mirror the package."""
    for folder in _places(spec):
        if found := sorted(path for path in folder.rglob("*captures*") if path.suffix != ".pyc"):
            return tuple(found)
    return ()


def file_results(spec: DriverSpec) -> tuple[Result, ...]:
    """Results for files: README, captures and a readable device for gold, a run on glass for platinum."""
    readme, captures, runs = readme_of(spec), captures_of(spec), glass_runs(spec)
    return (
        _result(spec, "README", Quality.GOLD, readme is not None, "no README.md in its package"),
        _result(spec, "captures", Quality.GOLD, bool(captures), "no file *captures* in its folder or its tests"),
        _result(spec, "read_back", Quality.GOLD, not spec.blind, "the state of the device cannot be read"),
        _result(spec, "glass", Quality.PLATINUM, bool(runs), "never run on a real unit"),
    )


def glass_runs(spec: DriverSpec) -> tuple[GlassRun, ...]:
    """Recorded runs. Raises ConfigError where the record cannot be read."""
    path = folder_of(spec) / GLASS
    if not path.exists():
        return ()
    try:
        runs = [GlassRun(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: not a record of runs on glass: {error}. Correct or remove it") from error
    return tuple(run for run in runs if run.driver == spec.name)


def record_glass(spec: DriverSpec, run: GlassRun) -> Path:
    """Record a run; the latest of a unit replaces those before."""
    path = folder_of(spec) / GLASS
    others = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    kept = [each for each in others if (each["driver"], each["unit"]) != (run.driver, run.unit)]
    write_file(path, json.dumps([*kept, asdict(run)], indent=2) + "\n")
    return path


def _places(spec: DriverSpec) -> Iterator[Path]:
    folder = folder_of(spec)
    yield folder
    top = next(there for there in (folder, *folder.parents) if not (there.parent / "__init__.py").is_file())
    inside = folder.relative_to(top)
    for root in (top.parent, top.parent.parent):
        for tests in (root / "tests" / "drivers" / inside, *((root / "tests",) if root == top.parent else ())):
            if inside.parts or tests.name == "tests":
                yield from (tests,) if tests.is_dir() else ()


def _result(spec: DriverSpec, what: str, wanted: Quality, there: bool, missing: str) -> Result:
    return Result(
        driver=spec.name,
        model="",
        check=what,
        way=None,
        needed_for=wanted,
        outcome=Outcome.PASSED if there else Outcome.MISSING,
        text="" if there else missing,
    )
