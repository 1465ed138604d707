"""Steps of a playbook: lease, apply, wait, repeat.

- lease: {ports: all, for_s: 600}
- repeat: {times: 10}
  steps:
    - apply: {topology: ring, groups: dp}       # or a topology file, or {pairs: "ocs1:1A-2B,3A-4B"}; mode: update where nothing is said
    - wait: {for: ready, within_s: 15}          # or ready_within_s: 15 in the apply
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hwd.config.playbook_schema import ApplyEntry, LeaseEntry, RepeatEntry, WaitEntry
from hwd.config.problem import Where, nearest
from hwd.config.tree import Node, Reading
from hwd.config.validate import validate
from hwd.config.wanted import Wanted, is_file, parse_what
from hwd.fabric.claims import all_ports
from hwd.model.instant import InstantName
from hwd.model.plan import ApplyMode
from hwd.model.testbed import Testbed
from hwd.topology.generate import GENERATORS
from hwd_drivers.kit.errors import ConfigError

STEPS_MAX = 100_000
"""Steps of one run with all repeats written out: a month of the fastest ones, and what the records of one run bear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseStep:
    """Claim ports for the run; `ports` is `all` or names."""

    ports: Literal["all"] | tuple[str, ...]
    for_s: float

    def __str__(self) -> str:
        ports = self.ports if isinstance(self.ports, str) else ", ".join(self.ports)
        return f"lease {ports} for {self.for_s:g} s"

    @property
    def total_steps(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyStep:
    """Bring about what `what` says. `wanted` is what it means on the testbed, None where the playbook was read without one."""

    what: str
    mode: ApplyMode
    wanted: Wanted | None = None

    def __str__(self) -> str:
        return f"apply {self.what}"

    @property
    def total_steps(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStep:
    """Wait for what was applied last."""

    until: InstantName
    within_s: float

    def __str__(self) -> str:
        return f"wait until {self.until}, {self.within_s:g} s at most"

    @property
    def total_steps(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatStep:
    """Do the steps `times` times."""

    times: int
    steps: "tuple[Step, ...]"

    def __str__(self) -> str:
        return f"repeat {self.times} times"

    @property
    def total_steps(self) -> int:
        return self.times * sum(step.total_steps for step in self.steps)


Step = LeaseStep | ApplyStep | WaitStep | RepeatStep


class StepsReader:
    """Reads steps against a testbed, or for themselves where there is none."""

    def __init__(self, reading: Reading, testbed: Testbed | None, folder: Path) -> None:
        self._reading = reading
        self._testbed = testbed
        self._folder = folder
        self._ports = all_ports(testbed) if testbed else None
        self._meant: dict[str, Wanted | str] = {}
        self._kinds: Mapping[str, Callable[[Node, Where], tuple[Step, ...]]] = {
            "lease": self._lease,
            "apply": self._apply,
            "wait": self._wait,
            "repeat": self._repeat,
        }

    def read(self, node: Node | None, where: Where) -> tuple[Step, ...]:
        steps: list[Step] = []
        items = node.value if node and isinstance(node.value, list) else []
        for index, item in enumerate(items):
            steps += self._step(item, (*where, index))
        if where == ("steps",) and (total := sum(step.total_steps for step in steps)) > STEPS_MAX:
            self._reading.add(
                where,
                f"{total} steps with all repeats are over the {STEPS_MAX} of one run; repeat less, or make more runs of it",
            )
        return tuple(steps)

    def _step(self, node: Node, where: Where) -> tuple[Step, ...]:
        keys = node.mapping()
        kinds = [key for key in keys if key in self._kinds]
        if not keys or (not kinds and len(keys) > 1):
            self._reading.add(
                where, f"a step is one of {', '.join(self._kinds)}, such as `wait: {{for: ready, within_s: 15}}`"
            )
            return ()
        if len(kinds) != 1:
            said = (
                f"{' and '.join(kinds)} in one step; begin each with a dash"
                if kinds
                else f"no such step; {nearest(next(iter(keys)), self._kinds)}"
            )
            self._reading.add((*where, *([] if kinds else [next(iter(keys))])), said)
            return ()
        for key in keys:
            if key != kinds[0] and not (kinds[0] == "repeat" and key == "steps"):
                self._reading.add(
                    (*where, key),
                    f"unknown key; a step {kinds[0]} has {'`steps` beside it' if kinds[0] == 'repeat' else 'nothing beside it'}",
                )
        return self._kinds[kinds[0]](node, where)

    def _lease(self, node: Node, where: Where) -> tuple[Step, ...]:
        where = (*where, "lease")
        entry = validate(LeaseEntry, node.mapping()["lease"], where, self._reading)
        if entry is None:
            return ()
        if entry.ports == ("all",):
            return (LeaseStep(ports="all", for_s=entry.for_s),)
        for port in entry.ports:
            if self._ports is not None and port not in self._ports:
                self._reading.add(
                    (*where, "ports"),
                    f"{port}: no such port (write ocs1.3, h0.eth0, or all); {nearest(port, self._ports)}",
                )
        return (LeaseStep(ports=entry.ports, for_s=entry.for_s),)

    def _apply(self, node: Node, where: Where) -> tuple[Step, ...]:
        where = (*where, "apply")
        entry = validate(ApplyEntry, node.mapping()["apply"], where, self._reading)
        what = self._what(entry, where) if entry else None
        if entry is None or what is None:
            return ()
        wanted = self._resolve(what, where) if self._testbed else None
        apply = ApplyStep(what=what, mode=entry.mode, wanted=wanted)
        if entry.ready_within_s is None:
            return (apply,)
        return (apply, WaitStep(until=InstantName.READY, within_s=entry.ready_within_s))

    def _what(self, entry: ApplyEntry, where: Where) -> str | None:
        """The text that the command line would take for it."""
        arguments = dict(entry.__pydantic_extra__ or {})
        if (entry.topology is None) == (entry.pairs is None):
            self._reading.add(where, "needs exactly one of topology and pairs")
            return None
        generator = GENERATORS.get(entry.topology or "")
        known = [*ApplyEntry.model_fields, *(generator.arguments if generator else ())]
        unknown = [key for key in arguments if key not in known]
        for key in unknown:
            self._reading.add((*where, key), f"unknown key; {nearest(key, known)}")
        if unknown:
            return None
        if entry.pairs is not None or (entry.topology and is_file(entry.topology)):
            return entry.pairs or entry.topology
        if generator is None:
            self._reading.add(
                (*where, "topology"),
                f"{entry.topology!r} is no topology and no file (.yaml); {nearest(entry.topology or '', GENERATORS)}",
            )
            return None
        return " ".join([entry.topology or "", *(f"{key}={','.join(text.split())}" for key, text in arguments.items())])

    def _resolve(self, what: str, where: Where) -> Wanted | None:
        """What it means on the testbed, worked out once for each text."""
        assert self._testbed is not None
        if what not in self._meant:
            try:
                self._meant[what] = parse_what(what, self._testbed, folder=self._folder)
            except ConfigError as error:
                self._meant[what] = str(error)
        meant = self._meant[what]
        if isinstance(meant, Wanted):
            return meant
        self._reading.add(where, meant)
        return None

    def _wait(self, node: Node, where: Where) -> tuple[Step, ...]:
        entry = validate(WaitEntry, node.mapping()["wait"], (*where, "wait"), self._reading)
        return (WaitStep(until=InstantName(entry.what), within_s=entry.within_s),) if entry else ()

    def _repeat(self, node: Node, where: Where) -> tuple[Step, ...]:
        entry = validate(RepeatEntry, node.mapping()["repeat"], (*where, "repeat"), self._reading)
        below = node.child("steps")
        if below is None or not isinstance(below.value, list) or not below.value:
            self._reading.add((*where, "steps"), "a repeat needs `steps:` beside it, with a list of them")
            return ()
        steps = self.read(below, (*where, "steps"))
        return (RepeatStep(times=entry.times, steps=steps),) if entry else ()
