"""Playbooks: experiments in YAML, with their parameters filled in and every name checked. No code runs out of a playbook.

loaded = load_playbook("playbooks/smoke.yaml", {"repeats": "3"}, testbed=testbed)
playbook = loaded.require()
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hwd.config.expression import Value
from hwd.config.parameters import fill, settle
from hwd.config.playbook_schema import PlaybookFile, ReportEntry
from hwd.config.problem import Problem, refuse
from hwd.config.steps import ApplyStep, LeaseStep, RepeatStep, Step, StepsReader, WaitStep
from hwd.config.tree import Reading, parse_tree, read_tree
from hwd.config.validate import validate
from hwd.model.testbed import Testbed

__all__ = [
    "ApplyStep",
    "LeaseStep",
    "LoadedPlaybook",
    "Playbook",
    "RepeatStep",
    "Report",
    "Step",
    "WaitStep",
    "load_playbook",
    "load_playbook_text",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How the report of a run shall be cut. `compare_with` names the testbed whose published figures stand beside ours."""

    by: tuple[str, ...] = ("topology", "stage")
    compare_with: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """One experiment, ready to run. `parameters` are those in force, defaults and overrides."""

    name: str
    shows: str
    parameters: Mapping[str, Value]
    steps: tuple[Step, ...]
    report: Report

    @property
    def total_steps(self) -> int:
        """Steps with all repeats written out; the repeats themselves are none."""
        return sum(step.total_steps for step in self.steps)


class LoadedPlaybook(NamedTuple):
    """`playbook` is None where a problem is more than a warning."""

    playbook: Playbook | None
    problems: tuple[Problem, ...]

    def require(self) -> Playbook:
        """Raises ConfigError with all problems, a line each."""
        refuse(self.problems)
        assert self.playbook is not None
        return self.playbook


def load_playbook(
    path: str | Path, overrides: Mapping[str, Value] | None = None, *, testbed: Testbed | None = None
) -> LoadedPlaybook:
    """Read a playbook. `overrides` (`-D k=v`) are typed by the defaults they replace; names are checked where a testbed is given."""
    return _load(read_tree(path), overrides or {}, testbed)


def load_playbook_text(
    text: str, *, file: str, overrides: Mapping[str, Value] | None = None, testbed: Testbed | None = None
) -> Playbook:
    """The same from its text; `file` stands in messages, and topology files are looked for beside it. Raises ConfigError."""
    return _load(parse_tree(text.encode("utf-8", "surrogatepass"), file=file), overrides or {}, testbed).require()


def _load(reading: Reading, overrides: Mapping[str, Value], testbed: Testbed | None) -> LoadedPlaybook:
    if reading.root is None:
        return LoadedPlaybook(None, reading.in_order())
    parameters = settle(reading, reading.root, overrides)
    root = fill(reading, reading.root, parameters)
    top = validate(PlaybookFile, root, (), reading)
    reader = StepsReader(reading, testbed, Path(reading.file).parent)
    steps = reader.read(root.child("steps"), ("steps",))
    entry = top.report if top else ReportEntry()
    if top is None or not reading.sound:
        return LoadedPlaybook(None, reading.in_order())
    playbook = Playbook(
        name=top.playbook,
        shows=top.shows,
        parameters=parameters,
        steps=steps,
        report=Report(by=tuple(entry.by), compare_with=entry.compare_with),
    )
    return LoadedPlaybook(playbook, reading.in_order())
