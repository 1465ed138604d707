"""Loads a testbed file: all problems at once, or the testbed where there is none.

loaded = load_testbed("examples/opus-testbed.yaml", specs)
for problem in loaded.problems: print(problem)
testbed = loaded.require()
"""

import grp
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from hwd.config.file_kind import is_other_kind
from hwd.config.testbed.composites import CompositesReader, check_insides
from hwd.config.testbed.equipment import DriverSpecLike, SwitchesReader, read_packet_switches, read_passives
from hwd.config.testbed.fibres import Sockets
from hwd.config.testbed.hosts import HostsReader
from hwd.config.testbed.interlocks import InterlocksReader
from hwd.config.testbed.jobs import read_jobs
from hwd.config.testbed.patching import FibresReader, find_open_lanes
from hwd.config.testbed.programs import read_programs
from hwd.config.testbed.secrets import resolve
from hwd.config.testbed.sections import Sections, Timings
from hwd.config.testbed.testbed_schema import PortNoteEntry, TestbedFile
from hwd.config.yaml.file_problem import Problem, Where, nearest, nearest_name, refuse
from hwd.config.yaml.tree import Node, Reading, read_tree
from hwd.config.yaml.validate import is_secret, validate
from hwd.fabric.graph import Graph
from hwd.fabric.loss_budget import over_budget
from hwd.model.rules import DriftPolicy, LeaseRules, RetentionRules, TransferRules
from hwd.model.testbed import (
    Composite,
    PortNote,
    SecretRef,
    Switch,
    Testbed,
)
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user import in_home

NAMES_SHOWN = 4


class LoadedTestbed(NamedTuple):
    """`testbed` is None where a problem is more than a warning."""

    testbed: Testbed | None
    problems: tuple[Problem, ...]

    def require(self) -> Testbed:
        """The testbed; raises ConfigError with all problems, one a line."""
        refuse(self.problems)
        assert self.testbed is not None
        return self.testbed


def load_testbed(
    path: str | Path,
    specs: Mapping[str, DriverSpecLike],
    *,
    switch_timings: Timings | None = None,
    host_timings: Timings | None = None,
    broken: Mapping[str, str] = MappingProxyType({}),
) -> LoadedTestbed:
    """Read a testbed file against the known drivers; names of twin timings are checked where these are known. `broken`:
    why an installed driver cannot be used.
    """
    return load_read(read_tree(path), specs, switch_timings=switch_timings, host_timings=host_timings, broken=broken)


def load_read(
    reading: Reading,
    specs: Mapping[str, DriverSpecLike],
    *,
    switch_timings: Timings | None = None,
    host_timings: Timings | None = None,
    broken: Mapping[str, str] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None,
) -> LoadedTestbed:
    """Load a testbed from a file that was read already. With an `environment`, missing secrets are reported as
    warnings.
    """
    if reading.root is None or is_other_kind(reading, "testbed"):
        return LoadedTestbed(None, reading.in_order())
    testbed = _Loader(reading, reading.root, specs, broken, switch_timings, host_timings).load()
    if testbed is not None and environment is not None:
        _warn_of_secrets(reading, testbed, environment)
        _warn_of_files(reading, testbed)
        _warn_of_group(reading, testbed)
    return LoadedTestbed(testbed if reading.sound else None, reading.in_order())


def _warn_of_secrets(reading: Reading, testbed: Testbed, environment: Mapping[str, str]) -> None:
    """Warn of each missing secret once, with the switches that need it: the daemon may run elsewhere."""
    needed: dict[SecretRef, list[str]] = {}
    for switch in testbed.switches.values():
        if switch.login_password is not None and switch.twin is None:
            needed.setdefault(switch.login_password, []).append(switch.name)
    for reference, names in needed.items():
        try:
            resolve(reference, environment=environment)
        except ConfigError as error:
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            reading.add(
                ("switches", names[0], "login", "password"),
                f"{error}. Set it where the daemon runs; "
                f"without it no session with {', '.join(names[:NAMES_SHOWN])}{more} is opened",
                warning=True,
            )


def _warn_of_files(reading: Reading, testbed: Testbed) -> None:
    """Warn of keys and certificates that are named and not there: the daemon may run elsewhere."""
    named: list[tuple[Where, object]] = [
        (("switches", name, "options", option), value)
        for name, switch in testbed.switches.items()
        if switch.twin is None
        for option, value in switch.options.items()
        if option.endswith("_file")
    ]
    named += [(("hosts", name, "ssh"), host.ssh.key) for name, host in testbed.hosts.items() if host.ssh is not None]
    for where, file in named:
        if not isinstance(file, str):
            continue
        try:
            is_there = in_home(file).exists()
        except ConfigError as error:
            reading.add(where, str(error), warning=True)
            continue
        if not is_there:
            reading.add(where, f"{file}: there is no such file here. The daemon needs it where it runs", warning=True)


def _warn_of_group(reading: Reading, testbed: Testbed) -> None:
    """A warning, since the daemon may run on another machine, which has the group."""
    if testbed.access_group is None:
        return
    try:
        grp.getgrnam(testbed.access_group)
    except KeyError:
        reading.add(
            ("access_group",),
            f"group {testbed.access_group} does not exist on this machine; without it no daemon starts here",
            warning=True,
        )


@dataclass(slots=True)
class _Loader:
    """Reads the sections in the order of their dependencies."""

    reading: Reading
    root: Node
    specs: Mapping[str, DriverSpecLike]
    broken: Mapping[str, str]
    switch_timings: Timings | None
    host_timings: Timings | None

    def load(self) -> Testbed | None:
        top = validate(TestbedFile, self._without_empty_sections(), (), self.reading)
        self._read_misspelt_sections()
        self._find_clear_secrets()
        sections = Sections(self.reading, self.root)
        hosts = HostsReader(sections, self.host_timings).read()
        switches = SwitchesReader(sections, self.specs, self.broken, self.switch_timings).read(hosts)
        composites = CompositesReader(sections, switches).read()
        packet_switches = read_packet_switches(sections)
        passives = read_passives(sections)
        sockets = Sockets(
            switches=switches,
            modules={host.name: {port.id.port: port.module for port in host.ports} for host in hosts.values()},
            passives=passives,
            packet_switches=packet_switches,
            unsure=frozenset(sections.unsure),
            composites=composites,
        )
        strands, all_known = FibresReader(sections, sockets).read()
        if all_known:
            find_open_lanes(sections, hosts, strands)
        notes = self._port_notes(switches, composites, sections.unsure)
        interlocks = InterlocksReader(sections, switches, composites, hosts).read()
        testbed = Testbed(
            name=top.testbed if top else "",
            switches=switches,
            hosts=hosts,
            strands=strands,
            passives=passives,
            packet_switches=packet_switches,
            port_notes=notes,
            host_actions=tuple(dict.fromkeys(top.host_actions)) if top else (),
            programs=read_programs(sections, hosts),
            jobs=read_jobs(sections, hosts),
            composites=composites,
            interlocks=interlocks,
            drift=top.drift if top else DriftPolicy.REPORT,
            leases=LeaseRules(required=top.leases.required, baseline=top.leases.baseline) if top else LeaseRules(),
            transfers=TransferRules(longest_s=top.transfers.longest_s, drain_s=top.transfers.drain_s)
            if top
            else TransferRules(),
            retention=RetentionRules(
                documents_days=top.retention.documents_days, history_days=top.retention.history_days
            )
            if top
            else RetentionRules(),
            access_group=top.access_group if top else None,
        )
        if testbed.drift is DriftPolicy.RESTORE and testbed.leases.required:
            self.reading.add(
                ("drift",),
                "restore acts under no lease, and `leases: {required: true}` refuses that. Use `report` and "
                "`hwd restore`, or leave out `required`: others' leases refuse all the same",
            )
        if not all_known:
            return None
        graph = Graph(testbed)
        check_insides(self.reading, graph)
        if top is None or not self.reading.sound:
            return None
        self._warn_of_budgets(graph)
        return testbed

    def _without_empty_sections(self) -> Node:
        kept = {key: node for key, node in self.root.mapping().items() if node.value is not None}
        return Node(value=kept, line=self.root.line, key_lines=self.root.key_lines)

    def _read_misspelt_sections(self) -> None:
        """Read misspelt sections under the name that was meant: the wrong name is reported once, and not again by
        everything that depends on the section.
        """
        there = self.root.mapping()
        absent = [name for name in TestbedFile.model_fields if name not in there]
        renamed = {
            name: found
            for name in there
            if name not in TestbedFile.model_fields and (found := nearest_name(name, absent))
        }
        if not renamed:
            return
        value = {renamed.get(name, name): node for name, node in there.items()}
        lines = {renamed.get(name, name): line for name, line in self.root.key_lines.items()}
        self.root = self.reading.root = Node(value=value, line=self.root.line, key_lines=lines)

    def _find_clear_secrets(self) -> None:
        """Report secrets in clear text, except those of simulated devices, which are none."""
        for where, node in self.root.walk():
            if where[2:4] == ("twin", "options"):
                continue
            if where and is_secret(where[-1:]) and isinstance(node.value, str | int | float):
                self.reading.add(where, "a secret in clear; write {env: NAME} or {file: PATH}")

    def _port_notes(
        self, switches: Mapping[str, Switch], composites: Mapping[str, Composite], unsure: Collection[str]
    ) -> tuple[PortNote, ...]:
        parts = {name: (f"switch {name} ({one.model})", one.capabilities.ends) for name, one in switches.items()}
        parts |= {name: (f"composite {name}", tuple(one.ports)) for name, one in composites.items()}
        section = self.root.child("ports")
        notes = []
        for text, node in (section.mapping() if section else {}).items():
            where: Where = ("ports", text)
            entry = validate(PortNoteEntry, node, where, self.reading)
            switch, _, port = text.partition(".")
            if switch in unsure:
                continue
            if switch not in parts:
                self.reading.add(where, f"{switch} is no switch (write ocs1.31); {nearest(switch, parts)}")
            elif port not in {end.port for end in parts[switch][1]}:
                self.reading.add(
                    where,
                    f"{parts[switch][0]} has no port {port!r}; name both sides at once, such as {switch}.31",
                )
            elif entry:
                notes.append(PortNote(switch=switch, port=port, state=entry.state, why=entry.why, until=entry.until))
        return tuple(notes)

    def _warn_of_budgets(self, graph: Graph) -> None:
        for found in over_budget(graph):
            where = ("hosts", found.source.host, "nics", found.source.port)
            self.reading.add(where, str(found), warning=True)
