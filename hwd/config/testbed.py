"""Loads a testbed file: every problem at once, and the testbed where there is none.

loaded = load_testbed("examples/opus-testbed.yaml", specs)
for problem in loaded.problems: print(problem)
testbed = loaded.require()
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from hwd.config.composites import CompositesReader, check_insides
from hwd.config.equipment import DriverSpecLike, SwitchesReader, read_packet_switches, read_passives
from hwd.config.fibres import Sockets
from hwd.config.hosts import HostsReader
from hwd.config.patching import FibresReader, find_open_lanes
from hwd.config.problem import Problem, Where, nearest, refuse
from hwd.config.schema import PortNoteEntry, TestbedFile
from hwd.config.sections import Sections
from hwd.config.tree import Node, Reading, read_tree
from hwd.config.validate import is_secret, validate
from hwd.fabric.budget import over_budget
from hwd.model.testbed import Composite, PortNote, Switch, Testbed


class Loaded(NamedTuple):
    """`testbed` is None where a problem is more than a warning."""

    testbed: Testbed | None
    problems: tuple[Problem, ...]

    def require(self) -> Testbed:
        """The testbed; raises ConfigError with all problems, a line each."""
        refuse(self.problems)
        assert self.testbed is not None
        return self.testbed


def load_testbed(
    path: str | Path,
    specs: Mapping[str, DriverSpecLike],
    *,
    switch_timings: Collection[str] | None = None,
    host_timings: Collection[str] | None = None,
    broken: Mapping[str, str] = MappingProxyType({}),
) -> Loaded:
    """Read a testbed file against the known drivers; names of twin timings are checked where they are given. `broken`: why an installed driver cannot be used."""
    reading = read_tree(path)
    if reading.root is None:
        return Loaded(None, reading.in_order())
    testbed = _Loader(reading, reading.root, specs, broken, switch_timings, host_timings).load()
    return Loaded(testbed if reading.sound else None, reading.in_order())


@dataclass(slots=True)
class _Loader:
    """Goes through the sections in the order in which they need each other."""

    reading: Reading
    root: Node
    specs: Mapping[str, DriverSpecLike]
    broken: Mapping[str, str]
    switch_timings: Collection[str] | None
    host_timings: Collection[str] | None

    def load(self) -> Testbed | None:
        top = validate(TestbedFile, self._without_empty_sections(), (), self.reading)
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
        testbed = Testbed(
            name=top.testbed if top else "",
            switches=switches,
            hosts=hosts,
            strands=strands,
            passives=passives,
            packet_switches=packet_switches,
            port_notes=notes,
            host_actions=tuple(dict.fromkeys(top.host_actions)) if top else (),
            composites=composites,
        )
        if all_known:
            check_insides(self.reading, testbed)
        if top is None or not self.reading.sound:
            return None
        self._warn_of_budgets(testbed)
        return testbed

    def _without_empty_sections(self) -> Node:
        kept = {key: node for key, node in self.root.mapping().items() if node.value is not None}
        return Node(value=kept, line=self.root.line, key_lines=self.root.key_lines)

    def _find_clear_secrets(self) -> None:
        """Those of simulated devices are none."""
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

    def _warn_of_budgets(self, testbed: Testbed) -> None:
        for found in over_budget(testbed):
            where = ("hosts", found.source.host, "nics", found.source.port)
            self.reading.add(where, str(found), warning=True)
