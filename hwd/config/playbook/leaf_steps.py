"""Reads the steps that contain no other steps: each becomes a value, or problems with their places."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hwd.config import topologies
from hwd.config.playbook.effort import Effort
from hwd.config.playbook.expression import Expression, Value, as_text, fill_text, names_in
from hwd.config.playbook.measurement_names import MEASUREMENTS
from hwd.config.playbook.parameters import fill
from hwd.config.playbook.playbook_files import PlaybookFiles
from hwd.config.playbook.playbook_schema import ApplyEntry, DwellEntry, JobStepEntry, LeaseEntry, ReadyEntry
from hwd.config.playbook.step_claims import claimed, needed
from hwd.config.playbook.steps import (
    ApplyStep,
    AssertStep,
    DwellStep,
    FaultStep,
    HostStep,
    JobStep,
    LeafStep,
    LeaseStep,
    NoteStep,
    WaitStep,
)
from hwd.config.playbook.stored_demands import StoredDemands
from hwd.config.testbed.topology_file import load_topology
from hwd.config.testbed.wanted_state import ARROW, is_file, parse_what, stored_demand
from hwd.config.yaml.file_problem import Where, nearest
from hwd.config.yaml.tree import Node, Reading, parse_tree
from hwd.config.yaml.validate import validate
from hwd.fabric.fabric import Fabric
from hwd.interlocks import Interlocks
from hwd.model.action import parse_actions, parse_settings
from hwd.model.circuit import RoutedLink
from hwd.model.fault import parse_fault
from hwd.model.fault_check import check_fault
from hwd.model.instant import InstantName
from hwd.model.request import Request, WantedState
from hwd.model.testbed import Testbed
from hwd.ports.testbed_ports import all_ports, leasable
from hwd_drivers.core.errors import ConfigError, RefusedError

NOTE_LENGTH_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The context in which a step is read: its file, the values, the includes, the lease of the run."""

    reading: Reading
    name: str
    scope: Mapping[str, Value]
    within: tuple[str, ...]
    held: frozenset[str] = frozenset()
    branch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meaning:
    """A wanted state on the testbed: the ports that it needs, and the links that it names with their paths."""

    wanted: WantedState
    ports: frozenset[str] = frozenset()
    links: tuple[RoutedLink, ...] = ()

    @classmethod
    def of(cls, wanted: WantedState, fabric: Fabric) -> "_Meaning":
        """Raises ConfigError where a link has no path."""
        links = fabric.routes(wanted.links)
        return cls(wanted=wanted, ports=needed(wanted, links, fabric), links=links)


@dataclass(slots=True)
class LeafReader:
    """Reads one step at a time. `readings` are those of the topology files that steps name, with their problems.

    `demands`: None where no daemon knows them; what a step means that reads one is not known then.
    """

    files: PlaybookFiles
    testbed: Testbed | None
    effort: Effort
    demands: StoredDemands | None = None
    readings: dict[str, Reading] = field(default_factory=dict)
    ports: frozenset[str] = frozenset()
    """All ports of the testbed."""
    _fabric: Fabric | None = None
    _interlocks: Interlocks | None = None
    _meant: dict[str, _Meaning | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.testbed is not None:
            self.ports = all_ports(self.testbed)
            self._fabric = Fabric(self.testbed)
            self._interlocks = Interlocks(self._fabric)

    def read(self, kind: str, node: Node, where: Where, part: Part) -> tuple[LeafStep, ...]:
        """The step of this kind; `node` is the value of its key. Empty where it cannot be used, two steps for an apply
        with its wait.
        """
        readers = {
            "lease": self._lease,
            "apply": self._apply,
            "wait": self._wait,
            "host": self._host,
            "fault": self._fault,
            "job": self._job,
            "note": self._note,
            "assert": self._assert,
        }
        try:
            return readers[kind](node, where, part)
        except (ConfigError, RefusedError) as error:
            part.reading.add(where, str(error).removeprefix(f"{kind}: "))
            return ()

    def _lease(self, node: Node, where: Where, part: Part) -> tuple[LeafStep, ...]:
        entry = validate(LeaseEntry, self._filled(node, where, part), where, part.reading)
        if entry is None:
            return ()
        step = LeaseStep(ports="all" if entry.ports == ("all",) else entry.ports, for_s=entry.for_s)
        if self.testbed is not None and step.ports != "all":
            known = leasable(self.testbed)
            for name in entry.ports:
                if name not in known:
                    part.reading.add(
                        (*where, "ports"),
                        f"{name}: no such port (write ocs1.3, h0.eth0, or all); {nearest(name, known)}",
                    )
            meant = dict.fromkeys(port for name in entry.ports for port in sorted(known.get(name, [name])))
            step = LeaseStep(ports=tuple(meant), for_s=entry.for_s)
        if part.branch and (twice := claimed([step], self.ports) & part.held):
            part.reading.add(
                (*where, "ports"),
                f"{few(twice)}: the run leases that already; leave the lease of the branch out, or that of the run",
            )
        return (step,)

    def _apply(self, node: Node, where: Where, part: Part) -> tuple[LeafStep, ...]:
        entry = validate(ApplyEntry, self._filled(node, where, part), where, part.reading)
        what = _what(entry, where, part.reading) if entry else None
        if entry is None or what is None:
            return ()
        meaning = self._meaning(what, where, part) or _Meaning(wanted=WantedState(name=what))
        self._ask_interlocks(meaning, entry, where, part.reading)
        apply = ApplyStep(request=Request(wanted=meaning.wanted, body=entry.body(what)), ports=meaning.ports)
        if entry.ready_within_s is None:
            return (apply,)
        return (apply, WaitStep(until=InstantName.READY, within_s=entry.ready_within_s))

    def _ask_interlocks(self, meaning: "_Meaning", entry: ApplyEntry, where: Where, reading: Reading) -> None:
        """Warn of what would refuse this apply now; the file of the testbed may be another one when it runs."""
        if self._interlocks is None:
            return
        try:
            for one in self._interlocks.of_links(meaning.links, entry.override):
                reading.add(where, str(one), warning=True)
        except RefusedError as error:
            reading.add((*where, "override"), str(error))

    def _meaning(self, what: str, where: Where, part: Part) -> "_Meaning | None":
        """The wanted state on the testbed and the ports that it needs, worked out once for each text."""
        if is_file(what):
            return self._topology(what, where, part)
        if self.testbed is None or self._fabric is None:
            return None
        if what not in self._meant:
            try:
                key, demand = stored_demand(what), None
                if key is not None:
                    demand = None if self.demands is None else self.demands.find(key)
                    if demand is None:
                        return None
                wanted = parse_what(what, self.testbed, demand=demand)
                self._meant[what] = _Meaning.of(wanted, self._fabric)
            except ConfigError as error:
                self._meant[what] = str(error)
        meant = self._meant[what]
        if isinstance(meant, _Meaning):
            return meant
        part.reading.add(where, meant)
        return None

    def _topology(self, file: str, where: Where, part: Part) -> "_Meaning | None":
        try:
            name = self.files.name_of(part.name, file)
            if name in self._meant:
                known = self._meant[name]
                return known if isinstance(known, _Meaning) else None
            loaded = load_topology(parse_tree(self.files.text(name), file=self.files.path_of(name)), self.testbed)
            self.readings[name] = Reading(self.files.path_of(name), problems=[*loaded.problems])
            if loaded.value is None or self._fabric is None:
                self._meant[name] = ""
                return None
            wanted = WantedState(name=file, links=loaded.value.links)
            meant = _Meaning.of(wanted, self._fabric)
        except ConfigError as error:
            part.reading.add((*where, "topology"), str(error))
            return None
        self._meant[name] = meant
        return meant

    def _wait(self, node: Node, where: Where, part: Part) -> tuple[LeafStep, ...]:
        filled = self._filled(node, where, part)
        if "for_s" in filled.mapping():
            dwell = validate(DwellEntry, filled, where, part.reading)
            return (DwellStep(for_s=dwell.for_s),) if dwell else ()
        ready = validate(ReadyEntry, filled, where, part.reading)
        return (WaitStep(until=InstantName(ready.what), within_s=ready.within_s),) if ready else ()

    def _host(self, node: Node, where: Where, part: Part) -> tuple[LeafStep, ...]:
        filled = self._filled(node, where, part)
        data = filled.plain()
        if not isinstance(data, dict) or data.keys() != {"ports", "set"}:
            raise ConfigError("write host: {ports: all, set: {mtu: 4200}}; ports are all, h0.eth0 or a list of such")
        wanted = parse_settings(data["set"])
        actions = parse_actions(data, self.testbed) if self.testbed is not None else ()
        ports = data["ports"] if isinstance(data["ports"], str) else ", ".join(map(str, data["ports"]))
        settings = ", ".join(f"{setting} {_said(value)}" for setting, value in wanted)
        return (HostStep(text=f"{ports}: {settings}", actions=actions),)

    def _fault(self, node: Node, where: Where, part: Part) -> tuple[LeafStep, ...]:
        data = self._filled(node, where, part).plain()
        if not isinstance(data, dict):
            raise ConfigError("write fault: {switch: ocs1, fault: slow, seconds: 0.5}")
        fault = parse_fault(data)
        if self.testbed is not None:
            check_fault(fault, self.testbed)
        return (FaultStep(fault=fault),)

    def _job(self, node: Node, where: Where, part: Part) -> tuple[LeafStep, ...]:
        entry = validate(JobStepEntry, self._filled(node, where, part), where, part.reading)
        if entry is None:
            return ()
        ports: frozenset[str] = frozenset()
        if self.testbed is not None and self._fabric is not None:
            if (job := self.testbed.jobs.get(entry.name)) is None:
                known = nearest(entry.name, self.testbed.jobs) or "the testbed file has none"
                part.reading.add((*where, "name"), f"{entry.name}: no job of the testbed file; {known}")
                return ()
            if entry.arguments and not job.arguments:
                part.reading.add((*where, "arguments"), f"{entry.name}: its entry has not arguments: true")
            hosts = {rank.host for rank in job.ranks}
            ports = frozenset(port.id for port in self._fabric.optical_ports() if port.id.host in hosts)
        return (JobStep(name=entry.name, arguments=tuple(map(as_text, entry.arguments)), ports=ports),)

    def _note(self, node: Node, where: Where, part: Part) -> tuple[LeafStep, ...]:
        if not isinstance(node.value, str | int | float) or not node.text.strip() or len(node.text) > NOTE_LENGTH_MAX:
            raise ConfigError(f"must be text of 1 to {NOTE_LENGTH_MAX} characters")

        def value(expression: Expression) -> Value:
            """The value of parameters now; measurements are evaluated when the step runs."""
            if MEASUREMENTS.keys().isdisjoint(expression.names):
                return expression.value(part.scope)
            expression.try_out({**MEASUREMENTS, **part.scope})
            return f"{{{{ {expression} }}}}"

        self.effort.holes(node.text)
        text = fill_text(node.text, value)
        names = names_in(text)
        return (NoteStep(text=text, scope={name: part.scope[name] for name in sorted(names & part.scope.keys())}),)

    def _assert(self, node: Node, where: Where, part: Part) -> tuple[LeafStep, ...]:
        if not isinstance(node.value, str) or "{{" in node.value:
            raise ConfigError("must be a single expression without {{ }}, such as `last.turnaround.max_s < 12`")
        expression = Expression.parse(node.value)
        if not isinstance(expression.try_out({**MEASUREMENTS, **part.scope}), bool):
            raise ConfigError(f"{node.value!r}: is no question; compare it with something")
        scope = {name: part.scope[name] for name in expression.names if name in part.scope}
        return (AssertStep(expression=expression, scope=scope),)

    def _filled(self, node: Node, where: Where, part: Part) -> Node:
        return fill(part.reading, node, part.scope, where, self.effort)


def _what(entry: ApplyEntry, where: Where, reading: Reading) -> str | None:
    """The text that the command line would take for it."""
    arguments = dict(entry.__pydantic_extra__ or {})
    if sum(one is not None for one in (entry.topology, entry.links, entry.pairs)) != 1:
        reading.add(where, "needs exactly one of topology, links and pairs")
        return None
    if entry.links is not None and ARROW not in entry.links:
        reading.add((*where, "links"), f"{entry.links!r} is no link; write h0.eth0 <-> h2.eth0, or a list of them")
        return None
    named = entry.topology if entry.topology in topologies.names() else None
    if entry.topology is not None and named is None and not (is_file(entry.topology) or ARROW in entry.topology):
        reading.add(
            (*where, "topology"),
            f"{entry.topology!r} is no topology, no file (.yaml) and no links (h0.eth0 <-> h2.eth0); "
            f"{nearest(entry.topology, topologies.names())}",
        )
        return None
    try:
        takes = () if named is None else topologies.find(named).takes
    except ConfigError as error:  # its package cannot be loaded
        reading.add((*where, "topology"), str(error))
        return None
    known = [*ApplyEntry.model_fields, *takes]
    unknown = [key for key in arguments if key not in known]
    for key in unknown:
        reading.add((*where, key), f"unknown key; {nearest(key, known)}")
    if unknown:
        return None
    if named is None:
        return entry.links or entry.pairs or entry.topology
    return " ".join([named, *(f"{key}={','.join(text.split())}" for key, text in arguments.items())])


def few(ports: Iterable[str]) -> str:
    """A few of them, for a message."""
    names = sorted(ports)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _said(value: Any) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case Mapping():
            return " ".join(f"{key}={one}" for key, one in value.items())
        case _:
            return str(value)
