"""Playbooks: experiments in YAML, with their parameters replaced and every name checked. A playbook runs no code.

loaded = load_playbook("playbooks/smoke.yaml", {"repeats": "3"}, testbed=testbed)
playbook = loaded.require()
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hwd.config.file_kind import is_other_kind
from hwd.config.playbook.effort import Effort, TooMuchError
from hwd.config.playbook.expression import Value
from hwd.config.playbook.leaf_steps import Part
from hwd.config.playbook.parameters import settle
from hwd.config.playbook.playbook_files import PlaybookFiles, bundled
from hwd.config.playbook.playbook_schema import RUN_MAX_S, ReportEntry
from hwd.config.playbook.step_claims import claimed
from hwd.config.playbook.steps import Step, total_dwell_s, total_steps
from hwd.config.playbook.steps_reader import StepsReader, read_top
from hwd.config.playbook.stored_demands import StoredDemands
from hwd.config.yaml.file_problem import Loaded
from hwd.config.yaml.tree import Reading, parse_tree, read_tree
from hwd.model.testbed import Testbed

STEPS_MAX = 100_000
"""Steps of one run with all repeats expanded: a month of the fastest ones, and as many as the records of
one run can hold.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """One experiment, ready to run.

    `parameters` are those in force, defaults and overrides. `ports` are those that it claims, empty where it was read
    without a testbed. A run of it fails when it takes longer than `within_s`. `report`: how its report groups its
    figures, and the testbed whose published figures are added.
    """

    name: str
    shows: str
    parameters: Mapping[str, Value]
    steps: tuple[Step, ...]
    report: ReportEntry
    within_s: float = RUN_MAX_S
    ports: frozenset[str] = frozenset()

    @property
    def total_steps(self) -> int:
        """Steps with all repeats and sweeps expanded; these themselves are not counted."""
        return total_steps(self.steps)


@dataclass(frozen=True, slots=True)
class LoadedPlaybook(Loaded[Playbook]):
    """A playbook. `files`: the texts of the files that it names, None where one cannot be read."""

    files: Mapping[str, str] | None


def load_playbook(
    source: str | Path | Reading, overrides: Mapping[str, Value] | None = None, *, testbed: Testbed | None = None
) -> LoadedPlaybook:
    """Read a playbook. `overrides` (`-D k=v`) take the types of their defaults; names are checked where
    there is a testbed.
    """
    reading = read_tree(source)
    return _load(reading, overrides or {}, testbed, folder=Path(reading.file).parent)


def load_playbook_text(
    text: str,
    *,
    file: str,
    overrides: Mapping[str, Value] | None = None,
    testbed: Testbed | None = None,
    demands: StoredDemands | None = None,
) -> Playbook:
    """Read a playbook from its text; `file` is its name in messages. Files that it names must be in it, as
    `bundle_playbook` arranges. Raises ConfigError. Where `demands` are missing after it, their steps have no links.
    """
    reading = parse_tree(text, file=file)
    return _load(reading, overrides or {}, testbed, folder=None, demands=demands).require()


def bundle_playbook(path: str | Path, overrides: Mapping[str, Value] | None = None) -> str:
    """The text of a playbook with those of all files that it names, ready to be sent and recorded.

    Raises ConfigError where one of them cannot be read; other problems are found by the reader, which has the testbed.
    """
    reading = read_tree(path)
    loaded = load_playbook(reading, overrides)
    if loaded.files is None:
        loaded.require()
    assert loaded.files is not None
    already = reading.root.child("files") if reading.root else None
    return reading.text if already is not None else bundled(reading.text, loaded.files, file=str(path))


def _load(
    reading: Reading,
    overrides: Mapping[str, Value],
    testbed: Testbed | None,
    *,
    folder: Path | None,
    demands: StoredDemands | None = None,
) -> LoadedPlaybook:
    if reading.root is None or is_other_kind(reading, "playbook"):
        return LoadedPlaybook(None, reading.in_order(), None)
    root = reading.root
    parameters = settle(reading, root, overrides)
    effort = Effort()
    try:
        top = read_top(root, parameters, reading, effort)
    except TooMuchError as error:
        reading.add((), str(error))
        return LoadedPlaybook(None, reading.in_order(), None)
    files = PlaybookFiles(shown=reading.file, sent=top.files if top else {}, folder=folder)
    reader = StepsReader(files, testbed, effort, demands)
    name = Path(reading.file).name
    part = Part(reading=reading, name=name, scope=parameters, within=(name,))
    steps = reader.read(root.child("steps"), part)
    if (total := total_steps(steps)) > STEPS_MAX:
        reading.add(
            ("steps",),
            f"{total} steps with all repeats are over the {STEPS_MAX} of one run; repeat less, or make several runs",
        )
    within_s = top.within_s if top else RUN_MAX_S
    if (dwell_s := total_dwell_s(steps)) > within_s:
        reading.add(
            ("steps",),
            f"waits for {dwell_s:g} s in all, over the {within_s:g} s that the run may take; "
            f"wait less, or raise within_s (at most {RUN_MAX_S:g})",
        )
    problems = (*reading.in_order(), *(problem for other in reader.readings for problem in other.in_order()))
    if top is None or not all(problem.warning for problem in problems):
        return LoadedPlaybook(None, problems, files.used if files.complete else None)
    playbook = Playbook(
        name=top.playbook,
        shows=top.shows,
        parameters=parameters,
        steps=steps,
        report=top.report,
        within_s=within_s,
        ports=claimed(steps, reader.ports),
    )
    return LoadedPlaybook(playbook, problems, files.used)
