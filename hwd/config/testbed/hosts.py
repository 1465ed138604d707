"""Hosts and NIC ports of a testbed file."""

import ipaddress
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from hwd.config.testbed.module_types import (
    LANES_MOST,
    LOS_DEASSERT_UNDER_RX_MIN_DB,
    LOS_HYSTERESIS_DB,
    MODULE_TYPES,
    standard_of,
)
from hwd.config.testbed.sections import Sections, Timings
from hwd.config.testbed.testbed_schema import (
    PORT_NAME,
    ClockEntry,
    HostEntry,
    HostTwinEntry,
    ModuleEntry,
    NicEntry,
    SshEntry,
)
from hwd.config.yaml.file_problem import Where, nearest
from hwd.config.yaml.tree import Node
from hwd.config.yaml.validate import matches, validate
from hwd.model.nic_port import NicPortId
from hwd.model.ssh import SshPlace
from hwd.model.testbed import Host, HostTwin, Module, ModuleStandard, NicPort
from hwd_drivers.core.errors import ConfigError

TOPIC_OF_RUNS = "runs"
"""The level of MQTT topics where the states of runs are published, next to the hosts."""


@dataclass(slots=True)
class HostsReader:
    """Reads the section `hosts`; `timings`: those that a host twin can have, loaded where there is one
    (None: not checked).
    """

    sections: Sections
    timings: Timings | None
    addresses: dict[str, NicPortId] = field(default_factory=dict)
    part_timings: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """The delays of the readings of each part: no two entries give one part different delays."""

    def read(self) -> dict[str, Host]:
        hosts = {}
        for name, node, where in self.sections.entries("hosts"):
            before = len(self.sections.reading.problems)
            entry = validate(HostEntry, node, where, self.sections.reading)
            if len(self.sections.reading.problems) > before and node.child("nics") is None:
                self.sections.unsure.add(name)  # they may be under a misspelt name
            gpus = set(entry.gpus) if entry else None
            ports = self._nics(name, node, where, gpus)
            if name == TOPIC_OF_RUNS:
                self.sections.reading.add(where, f"no host can be named {name}: run states have that MQTT topic")
            if entry is None:
                self.sections.unsure.add(name)
                continue
            if {"ssh", "twin"} <= node.mapping().keys():
                self.sections.reading.add((*where, "twin"), "a host is real (ssh) or a twin, not both")
            twin = None
            if entry.twin:
                self.sections.check_timing(entry.twin.timing, self.timings, (*where, "twin", "timing"))
                clock = entry.twin.clock
                self._check_machine(entry.twin, (*where, "twin"))
                twin = HostTwin(
                    clock_offset_s=clock.offset_s,
                    clock_drift_ppm=clock.drift_ppm,
                    **entry.twin.model_dump(exclude={"clock"}),
                )
            ssh = None if entry.ssh is None else self._ssh(entry.ssh, (*where, "ssh"))
            stated = entry.model_dump(include={"jobs", "groups", "region"})
            hosts[name] = Host(name=name, ports=ports, ssh=ssh, twin=twin, **stated)
        return hosts

    def _check_machine(self, entry: HostTwinEntry, where: Where) -> None:
        if entry.machine is None:
            return
        try:
            ipaddress.ip_address(entry.machine)
        except ValueError:
            self.sections.reading.add(
                (*where, "machine"),
                f"{entry.machine!r} is no IP address; "
                "write the address at which the machine reaches this one, as 10.0.2.2 of QEMU's user network",
            )
        if entry.kernel:
            self.sections.reading.add(
                (*where, "kernel"),
                "a host is a virtual machine with a kernel of its own (machine) or in the kernel of this one, not both",
            )
        if entry.clock != ClockEntry():
            self.sections.reading.add((*where, "clock"), "a virtual machine has a clock of its own: it cannot be moved")

    def _ssh(self, entry: SshEntry, where: Where) -> SshPlace | None:
        try:
            place = SshPlace.parse(entry.address)
            jump = None if entry.jump is None else SshPlace.parse(entry.jump)
        except ConfigError as error:
            self.sections.reading.add(where, str(error))
            return None
        key, known_hosts = self._beside(entry.key), self._beside(entry.known_hosts)
        if jump is not None:
            jump = replace(jump, key=key, known_hosts=known_hosts)
        return replace(place, key=key, known_hosts=known_hosts, jump=jump)

    def _beside(self, path: str | None) -> str | None:
        """A path in the testbed file is relative to the folder of that file."""
        if path is None or path.startswith("~"):
            return path
        return str(Path(self.sections.reading.file).parent / path)

    def _nics(self, host: str, node: Node, host_where: Where, gpus: set[int] | None) -> tuple[NicPort, ...]:
        nics = node.child("nics")
        ports: list[NicPort] = []
        matched: dict[str, str] = {}
        for name, below in (nics.mapping() if nics else {}).items():
            where = (*host_where, "nics", name)
            if not matches(PORT_NAME, name):
                self.sections.reading.add(where, f"port name {name!r} must be 1 to 15 letters, digits, - and _")
            entry = validate(NicEntry, below, where, self.sections.reading)
            module = self._module(entry.module, (*where, "module")) if entry else None
            if entry is None or module is None:
                self.sections.unsure.add(f"{host}.{name}")
                continue
            for gpu in entry.gpus:
                if gpus is not None and gpu not in gpus:
                    self.sections.reading.add(
                        (*where, "gpus"), f"host {host} has no GPU {gpu}; {nearest(str(gpu), map(str, gpus))}"
                    )
            if entry.match:
                key = json.dumps(entry.match, sort_keys=True)
                if key in matched:
                    self.sections.reading.add((*where, "match"), f"matches the same interface as {host}.{matched[key]}")
                matched.setdefault(key, name)
            id = NicPortId(host=host, port=name)
            ports.append(
                NicPort(
                    id=id,
                    module=module,
                    interface=entry.interface or name,
                    ip=self._ip(entry.ip, id, (*where, "ip")),
                    **entry.model_dump(exclude={"module", "interface", "ip"}),
                )
            )
        return tuple(ports)

    def _ip(self, text: str | None, port: NicPortId, where: Where) -> str | None:
        if text is None:
            return None
        try:
            address = ipaddress.ip_interface(text)
        except ValueError:
            self.sections.reading.add(where, f"{text!r} is no IP address; write 10.1.0.1/32")
            return None
        key = str(address.ip)
        if key in self.addresses:
            first = self.addresses[key]
            self.sections.reading.add(where, f"{key} is the address of {first} already")
            return None
        self.addresses[key] = port
        return str(address)

    def _module(self, entry: ModuleEntry, where: Where) -> Module | None:
        standard = MODULE_TYPES.get(entry.type)
        needed = ("lanes", "parallel", "tx_min_dbm", "tx_max_dbm", "rx_min_dbm", "rx_max_dbm")
        values = {name: getattr(entry, name) for name in needed}
        if standard:
            values = {name: getattr(standard, name) if value is None else value for name, value in values.items()}
        elif missing := [name for name, value in values.items() if value is None]:
            hint = nearest(entry.type, MODULE_TYPES)
            self.sections.reading.add(
                (*where, "type"),
                f"module type {entry.type!r} is not known, and some of its values ({', '.join(missing)}) are missing; "
                f"{hint}",
            )
            return None
        deassert = entry.los_deassert_dbm
        if deassert is None:
            deassert = values["rx_min_dbm"] - LOS_DEASSERT_UNDER_RX_MIN_DB
        raised = deassert - LOS_HYSTERESIS_DB if entry.los_assert_dbm is None else entry.los_assert_dbm
        for low, high, text in (
            (values["tx_min_dbm"], values["tx_max_dbm"], "tx_min_dbm is over tx_max_dbm"),
            (values["rx_min_dbm"], values["rx_max_dbm"], "rx_min_dbm is over rx_max_dbm"),
            (
                raised,
                deassert,
                "los_assert_dbm is over los_deassert_dbm: loss of signal would be raised and cleared at once",
            ),
        ):
            if low > high:
                self.sections.reading.add(where, f"{text} ({low:.2f} over {high:.2f} dBm)")
                return None
        if (memory := self._memory(entry, values["lanes"], where)) is None:
            return None
        return Module(
            type=entry.type,
            los_assert_dbm=raised,
            los_deassert_dbm=deassert,
            standard=memory,
            part=entry.part,
            los_s=entry.los_s,
            monitor_s=entry.monitor_s,
            **values,
        )

    def _memory(self, entry: ModuleEntry, lanes: int, where: Where) -> ModuleStandard | None:
        """The standard of the memory; None where something is wrong, which is reported."""
        standard = standard_of(entry, lanes)
        problems: dict[str, str] = {}
        if lanes > LANES_MOST[standard]:
            problems["memory"] = f"{standard} has room for {LANES_MOST[standard]} lanes, and this module has {lanes}"
        timing = (entry.los_s, entry.monitor_s)
        if timing != (None, None):
            if entry.part is None:
                name = "los_s" if entry.los_s is not None else "monitor_s"
                why = "applies to a part: add part, the number in the module's memory (an agent's birth has it)"
                problems[name] = why
            elif self.part_timings.setdefault(entry.part, timing) != timing:
                problems["part"] = f"{entry.part} has another los_s or monitor_s elsewhere in this file"
        for name, text in problems.items():
            self.sections.reading.add((*where, name), text)
        return None if problems else standard
