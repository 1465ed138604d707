"""Loads a testbed file: all problems at once, or the testbed where there is none.

loaded = load_testbed("examples/opus-testbed.yaml", specs)
for problem in loaded.problems: print(problem)
testbed = loaded.require()
"""

import grp
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

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
from hwd.config.yaml.file_problem import Loaded, Where, nearest, nearest_name
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


def load_testbed(
    source: str | Path | Reading,
    specs: Mapping[str, DriverSpecLike],
    *,
    switch_timings: Timings | None = None,
    host_timings: Timings | None = None,
    broken: Mapping[str, str] = MappingProxyType({}),
    environment: Mapping[str, str] | None = None,
) -> Loaded[Testbed]:
    """Read a testbed file against the known drivers; names of twin timings are checked where these are known. `broken`:
    why an installed driver cannot be used. With an `environment`, missing secrets are reported as warnings.
    """
    reading = read_tree(source)
    if reading.root is None or is_other_kind(reading, "testbed"):
        return Loaded(None, reading.in_order())
    testbed = _load(reading, reading.root, specs, broken, switch_timings, host_timings)
    if testbed is not None and environment is not None:
        _warn_of_secrets(reading, testbed, environment)
        _warn_of_files(reading, testbed)
        _warn_of_group(reading, testbed)
    return Loaded(testbed if reading.sound else None, reading.in_order())


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


def _load(
    reading: Reading,
    root: Node,
    specs: Mapping[str, DriverSpecLike],
    broken: Mapping[str, str],
    switch_timings: Timings | None,
    host_timings: Timings | None,
) -> Testbed | None:
    """Read the sections in the order of their dependencies."""
    with_content = {key: node for key, node in root.mapping().items() if node.value is not None}
    read = validate(TestbedFile, replace(root, value=with_content), (), reading)
    top = TestbedFile.model_construct(testbed="") if read is None else read
    root = reading.root = _with_meant_names(root)
    for where, node in root.walk():
        is_of_device = where[2:4] != ("twin", "options")  # secrets of simulated devices are none
        if where and is_of_device and is_secret(where[-1:]) and isinstance(node.value, str | int | float):
            reading.add(where, "a secret in clear; write {env: NAME} or {file: PATH}")
    sections = Sections(reading, root)
    hosts = HostsReader(sections, host_timings).read()
    switches = SwitchesReader(sections, specs, broken, switch_timings).read(hosts)
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
    notes = _port_notes(sections, switches, composites)
    interlocks = InterlocksReader(sections, switches, composites, hosts).read()
    testbed = Testbed(
        name=top.testbed,
        switches=switches,
        hosts=hosts,
        strands=strands,
        passives=passives,
        packet_switches=packet_switches,
        port_notes=notes,
        host_actions=tuple(dict.fromkeys(top.host_actions)),
        programs=read_programs(sections, hosts),
        jobs=read_jobs(sections, hosts),
        composites=composites,
        interlocks=interlocks,
        drift=top.drift,
        leases=LeaseRules(**top.leases.model_dump()),
        transfers=TransferRules(**top.transfers.model_dump()),
        retention=RetentionRules(**top.retention.model_dump()),
        access_group=top.access_group,
    )
    if testbed.drift is DriftPolicy.RESTORE and testbed.leases.required:
        reading.add(
            ("drift",),
            "restore acts under no lease, and `leases: {required: true}` refuses that. Use `report` and "
            "`hwd restore`, or leave out `required`: others' leases refuse all the same",
        )
    if not all_known:
        return None
    graph = Graph(testbed)
    check_insides(reading, graph)
    if read is None or not reading.sound:
        return None
    for found in over_budget(graph):
        reading.add(("hosts", found.source.host, "nics", found.source.port), str(found), warning=True)
    return testbed


def _with_meant_names(root: Node) -> Node:
    """Misspelt sections under the name that was meant: the wrong name is reported once, and not again by everything
    that depends on the section.
    """
    there = root.mapping()
    absent = [name for name in TestbedFile.model_fields if name not in there]
    renamed = {
        name: found for name in there if name not in TestbedFile.model_fields and (found := nearest_name(name, absent))
    }
    value = {renamed.get(name, name): node for name, node in there.items()}
    lines = {renamed.get(name, name): line for name, line in root.key_lines.items()}
    return replace(root, value=value, key_lines=lines)


def _port_notes(
    sections: Sections, switches: Mapping[str, Switch], composites: Mapping[str, Composite]
) -> tuple[PortNote, ...]:
    parts = {name: (f"switch {name} ({one.model})", one.capabilities.ends) for name, one in switches.items()}
    parts |= {name: (f"composite {name}", tuple(one.ports)) for name, one in composites.items()}
    section = sections.root.child("ports")
    notes = []
    for text, node in (section.mapping() if section else {}).items():
        where: Where = ("ports", text)
        entry = validate(PortNoteEntry, node, where, sections.reading)
        switch, _, port = text.partition(".")
        if switch in sections.unsure:
            continue
        if switch not in parts:
            sections.reading.add(where, f"{switch} is no switch (write ocs1.31); {nearest(switch, parts)}")
        elif port not in {end.port for end in parts[switch][1]}:
            why = f"{parts[switch][0]} has no port {port!r}; name both sides at once, such as {switch}.31"
            sections.reading.add(where, why)
        elif entry:
            notes.append(PortNote(switch=switch, port=port, **entry.model_dump()))
    return tuple(notes)
