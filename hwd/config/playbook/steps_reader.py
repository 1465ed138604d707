"""Reads the steps of a playbook and of the files that it includes, with or without a testbed. All mistakes are reported
at once, with their places.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pydantic import BaseModel

from hwd.config.playbook.effort import Effort, TooMuchError
from hwd.config.playbook.expression import Value, names_in
from hwd.config.playbook.leaf_steps import LeafReader, Part, few
from hwd.config.playbook.parameters import defaults, fill, parameter_value
from hwd.config.playbook.playbook_files import PlaybookFiles
from hwd.config.playbook.playbook_schema import BRANCHES_MAX, IncludeEntry, PlaybookFile, RepeatEntry, StepItem
from hwd.config.playbook.step_claims import claimed
from hwd.config.playbook.steps import Branch, LeaseStep, ParallelStep, RepeatStep, Step, SweepRound, SweepStep
from hwd.config.playbook.stored_demands import StoredDemands
from hwd.config.playbook.sweep import swept
from hwd.config.testbed.sections import check_name
from hwd.config.yaml.file_problem import Problem, Where, nearest
from hwd.config.yaml.tree import Node, Reading, parse_tree
from hwd.config.yaml.validate import validate
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError

INCLUDE_DEPTH_MAX = 8
"""Files within files; deeper ones confuse readers."""
EXAMPLE = "`wait: {for: ready, within_s: 15}`"

STEP_KINDS: Mapping[str, type[BaseModel]] = {
    next(field.alias or name for name, field in item.model_fields.items()): item for item in StepItem.__args__
}
"""The kinds of steps, by the key that selects each."""
_BESIDE = {"repeat": ("steps",), "sweep": ("steps",)}
"""Keys that are allowed in addition to the one that selects the kind."""


class StepsReader:
    """The reader of the steps of one playbook."""

    def __init__(
        self, files: PlaybookFiles, testbed: Testbed | None, effort: Effort, demands: StoredDemands | None
    ) -> None:
        self.files = files
        self._effort = effort
        self._leaves = LeafReader(files, testbed, effort, demands)
        self._known: dict[tuple[object, ...], tuple[Step, ...]] = {}
        self._uses: dict[int, tuple[str, ...]] = {}
        self._parsed: dict[str, Reading] = {}

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The readings of all files that were named, with their problems."""
        return (*self._parsed.values(), *self._leaves.readings.values())

    @property
    def ports(self) -> frozenset[str]:
        """All ports of the testbed."""
        return self._leaves.ports

    def read(self, node: Node | None, part: Part) -> tuple[Step, ...]:
        """The steps of a whole file."""
        try:
            return self._list(node, ("steps",), part)
        except TooMuchError as error:
            part.reading.add(("steps",), str(error))
            return ()

    def _list(self, node: Node | None, where: Where, part: Part) -> tuple[Step, ...]:
        steps: list[Step] = []
        items = node.value if node and isinstance(node.value, list) else []
        for index, item in enumerate(items):
            found = self._step(item, (*where, index), part)
            for step in found:
                if isinstance(step, LeaseStep) and not part.branch:
                    part = replace(part, held=claimed([step], self.ports))
            steps += found
        return tuple(steps)

    def _step(self, node: Node, where: Where, part: Part) -> tuple[Step, ...]:
        self._effort.step()
        if (kind := _kind(node, where, part.reading)) is None:
            return ()
        match kind:
            case "repeat":
                return self._repeat(node, where, part)
            case "sweep":
                return self._sweep(node, where, part)
            case "parallel":
                return self._parallel(node, where, part)
            case "include":
                return self._include(node, where, part)
            case _:
                return self._leaf(kind, node.mapping()[kind], (*where, kind), part)

    def _leaf(self, kind: str, node: Node, where: Where, part: Part) -> tuple[Step, ...]:
        """Read once for each set of values that it uses; a step with problems is read again, so that they are reported
        for each.
        """
        uses = self._uses.get(id(node))
        if uses is None:
            uses = self._uses[id(node)] = _used(kind, node)
        values = tuple((name, part.scope.get(name)) for name in uses)
        key = (id(node), part.within, part.held if kind == "lease" else None, part.branch, values)
        if (known := self._known.get(key)) is not None:
            return known
        problems_before = len(part.reading.problems)
        steps = self._leaves.read(kind, node, where, part)
        if len(part.reading.problems) == problems_before:
            self._known[key] = steps
        return steps

    # --- steps that contain others

    def _repeat(self, node: Node, where: Where, part: Part) -> tuple[Step, ...]:
        times = self._filled(node.mapping()["repeat"], (*where, "repeat"), part)
        entry = validate(RepeatEntry, times, (*where, "repeat"), part.reading)
        if (below := _steps_below(node, where, "repeat", part.reading)) is None:
            return ()
        steps = self._list(below, (*where, "steps"), part)
        return (RepeatStep(times=entry.times, steps=steps),) if entry else ()

    def _sweep(self, node: Node, where: Where, part: Part) -> tuple[Step, ...]:
        filled = self._filled(node.mapping()["sweep"], (*where, "sweep"), part)
        variables = swept(part.reading, filled, (*where, "sweep"))
        below = _steps_below(node, where, "sweep", part.reading)
        if variables is None or below is None:
            return ()
        for name in variables:
            if name in part.scope:
                part.reading.add(
                    (*where, "sweep", name), "is the name of a parameter or of a sweep around it; choose another"
                )
        problems_by_round: list[tuple[str, list[Problem]]] = []
        rounds = []
        start = len(part.reading.problems)
        for combination in itertools.product(*variables.values()):
            values = dict(zip(variables, combination, strict=True))
            self._effort.step()
            steps = self._list(below, (*where, "steps"), replace(part, scope={**part.scope, **values}))
            round = SweepRound(values=values, steps=steps)
            rounds.append(round)
            problems_by_round.append((str(round), part.reading.problems[start:]))
            del part.reading.problems[start:]
        part.reading.problems += _of_rounds(problems_by_round)
        return (SweepStep(rounds=tuple(rounds)),)

    def _parallel(self, node: Node, where: Where, part: Part) -> tuple[Step, ...]:
        where = (*where, "parallel")
        entries = node.mapping()["parallel"].mapping()
        if not 2 <= len(entries) <= BRANCHES_MAX:
            part.reading.add(where, f"needs 2 to {BRANCHES_MAX} branches, each a name with a list of steps")
            return ()
        branches: list[Branch] = []
        claims: dict[str, frozenset[str]] = {}
        for name, below in entries.items():
            check_name(part.reading, (*where, name))
            if not isinstance(below.value, list) or not below.value:
                part.reading.add((*where, name), "a branch is a list of steps")
                continue
            steps = self._list(below, (*where, name), replace(part, branch=True))
            branches.append(Branch(name=name, steps=steps))
            mine = claimed(steps, self.ports)
            for other, theirs in claims.items():
                if both := mine & theirs:
                    part.reading.add(
                        (*where, name),
                        f"claims {few(both)}, as branch {other} does; branches run at once, each on ports of its own",
                    )
            claims[name] = mine
        return (ParallelStep(branches=tuple(branches)),)

    def _include(self, node: Node, where: Where, part: Part) -> tuple[Step, ...]:
        where = (*where, "include")
        entry = validate(IncludeEntry, self._filled(node.mapping()["include"], where, part), where, part.reading)
        if entry is None:
            return ()
        try:
            name = self.files.name_of(part.name, entry.file)
            if name in part.within:
                raise ConfigError(f"includes itself without end: {' -> '.join([*part.within, name])}")
            if len(part.within) > INCLUDE_DEPTH_MAX:
                raise ConfigError(f"{name}: over {INCLUDE_DEPTH_MAX} files within files")
            text = self.files.text(name)
        except ConfigError as error:
            part.reading.add((*where, "file"), str(error))
            return ()
        reading = self._parsed.get(name)
        if reading is None:
            reading = parse_tree(text, file=self.files.path_of(name))
            self._parsed[name] = reading
        if (root := reading.root) is None:
            return ()
        start = len(reading.problems)
        self._effort.values(root.size)
        parameters = defaults(reading, root)
        for key, value in entry.given.items():
            try:
                parameters[key] = parameter_value(key, tuple(value) if isinstance(value, list) else value, parameters)
            except ConfigError as error:
                part.reading.add((*where, "with", key), f"{entry.file}: {key}: {error}")
        read_top(root, parameters, reading, self._effort)
        inner = replace(part, reading=reading, name=name, scope=parameters, within=(*part.within, name))
        steps = self._list(root.child("steps"), ("steps",), inner)
        line = part.reading.root.line_of(where) if part.reading.root else 1
        said = f" (included in {part.reading.file}:{line})"
        reading.problems[start:] = [replace(problem, text=problem.text + said) for problem in reading.problems[start:]]
        return steps

    def _filled(self, node: Node, where: Where, part: Part) -> Node:
        return fill(part.reading, node, part.scope, where, self._effort)


def read_top(root: Node, parameters: Mapping[str, Value], reading: Reading, effort: Effort) -> PlaybookFile | None:
    """Everything but the steps. Raises TooMuchError."""
    as_is = ("parameters", "steps", "files")
    mapping = {
        key: node if key in as_is else fill(reading, node, parameters, (key,), effort)
        for key, node in root.mapping().items()
    }
    return validate(PlaybookFile, replace(root, value=mapping), (), reading)


def _kind(node: Node, where: Where, reading: Reading) -> str | None:
    keys = node.mapping()
    kinds = [key for key in keys if key in STEP_KINDS]
    if not keys or (not kinds and len(keys) > 1):
        reading.add(where, f"a step is one of {', '.join(STEP_KINDS)}, such as {EXAMPLE}")
        return None
    if not kinds:
        first = next(iter(keys))
        reading.add((*where, first), f"no such step; {nearest(first, STEP_KINDS)}")
        return None
    if len(kinds) > 1:
        reading.add(where, f"{' and '.join(kinds)} in one step; begin each with a dash")
        return None
    beside = _BESIDE.get(kinds[0], ())
    for key in keys:
        if key != kinds[0] and key not in beside:
            has = "`steps` in addition" if beside else "no other key"
            reading.add((*where, key), f"unknown key; a step {kinds[0]} has {has}")
    return kinds[0]


def _steps_below(node: Node, where: Where, kind: str, reading: Reading) -> Node | None:
    below = node.child("steps")
    if below is None or not isinstance(below.value, list) or not below.value:
        reading.add((*where, "steps"), f"a {kind} also needs `steps:`, with a list of them")
        return None
    return below


def _used(kind: str, node: Node) -> tuple[str, ...]:
    """Names that the texts of a step use in expressions; of an assert, its whole text."""
    names: set[str] = set()
    for _, below in node.walk():
        if isinstance(below.value, str):
            names |= names_in(f"{{{{{below.value}}}}}" if kind == "assert" else below.value)
    return tuple(sorted(names))


def _of_rounds(problems_by_round: Iterable[tuple[str, list[Problem]]]) -> list[Problem]:
    """Problems of a sweep: once where every round has it, else once a place, with the values of the first round that
    has one there.
    """
    rounds = list(problems_by_round)
    everywhere = set.intersection(*(set(problems) for _, problems in rounds)) if rounds else set()
    found: list[Problem] = list(
        dict.fromkeys(problem for _, problems in rounds for problem in problems if problem in everywhere)
    )
    places = {(problem.line, problem.path) for problem in found}
    for values, problems in rounds:
        for problem in problems:
            if problem not in everywhere and (problem.line, problem.path) not in places:
                places.add((problem.line, problem.path))
                found.append(replace(problem, text=f"{problem.text} (with {values})"))
    return found
