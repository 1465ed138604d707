"""Switches, packet switches and passives of a testbed file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from hwd.config.testbed.sections import Sections, Timings
from hwd.config.testbed.testbed_schema import PacketSwitchEntry, PassiveEntry, SwitchEntry
from hwd.config.yaml.file_problem import Where, nearest
from hwd.config.yaml.tree import Node
from hwd.config.yaml.validate import validate
from hwd.model.testbed import Host, PacketSwitch, Passive, PassiveKind, SecretRef, Switch, SwitchTwin
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities
from hwd_drivers.transports.dial import check_address
from hwd_drivers.transports.serial_line import SerialLine, is_serial


class DriverSpecLike(Protocol):
    """A driver, as the loader needs to know it. `models`: capabilities of a model, for a size or for its default
    (None); they raise ConfigError.
    """

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> type[BaseModel]: ...

    @property
    def twin_options(self) -> type[BaseModel]: ...

    @property
    def models(self) -> Mapping[str, Callable[[str | None], Capabilities]]: ...

    @property
    def default_port(self) -> int: ...


@dataclass(slots=True)
class SwitchesReader:
    """Reads the section `switches`; `broken`: why an installed driver cannot be used.

    `timings`: those that a switch twin can have, loaded where there is one (None: not checked).
    """

    sections: Sections
    specs: Mapping[str, DriverSpecLike]
    broken: Mapping[str, str]
    timings: Timings | None

    def read(self, hosts: Mapping[str, Host]) -> dict[str, Switch]:
        switches = {}
        for name, entry, node, where in self.sections.sound("switches", SwitchEntry):
            if (switch := self._switch(name, entry, node, where)) is None:
                self.sections.unsure.add(name)
                continue
            if switch.owner is not None and switch.owner not in hosts and switch.owner not in self.sections.unsure:
                self.sections.reading.add(
                    (*where, "owner"), f"{switch.owner} is no host; {nearest(switch.owner, hosts)}"
                )
            switches[name] = switch
        return switches

    def _switch(self, name: str, entry: SwitchEntry, node: Node, where: Where) -> Switch | None:
        if len({"address", "twin"} & node.mapping().keys()) != 1:
            self.sections.reading.add(where, "a switch needs exactly one of address and twin")
        if entry.twin:
            self.sections.check_timing(entry.twin.timing, self.timings, (*where, "twin", "timing"))
        spec = self.specs.get(entry.driver)
        if spec is None:
            missing = f"driver {entry.driver!r} is not installed; {nearest(entry.driver, self.specs)}"
            self.sections.reading.add((*where, "driver"), self.broken.get(entry.driver, missing))
            return None
        options = self._options(spec.options, f"driver {spec.name}", node, (*where, "options"))
        twin = None
        if entry.twin is not None:
            what = f"a twin of driver {spec.name}"
            chosen = self._options(spec.twin_options, what, node.child("twin") or node, (*where, "twin", "options"))
            settings = chosen.model_dump(mode="json", exclude_unset=True) if chosen else {}
            twin = SwitchTwin(timing=entry.twin.timing, seed=entry.twin.seed, options=settings)
        capabilities_of = spec.models.get(entry.model)
        if capabilities_of is None:
            self.sections.reading.add(
                (*where, "model"),
                f"driver {entry.driver} has no model {entry.model!r}; {nearest(entry.model, spec.models)}",
            )
            return None
        try:
            capabilities = capabilities_of(entry.size)
        except ConfigError as error:
            self.sections.reading.add((*where, "model" if entry.size is None else "size"), str(error))
            return None
        login = entry.login
        password = login.password if login else None
        return Switch(
            name=name,
            driver=entry.driver,
            model=entry.model,
            capabilities=capabilities,
            address=self._address(entry.address, spec, (*where, "address")),
            login_user=login.user if login else None,
            login_password=SecretRef(kind="env" if password.env else "file", name=password.env or password.file or "")
            if password
            else None,
            options=options.model_dump(mode="json") if options else {},
            twin=twin,
            owner=entry.owner,
            size=entry.size,
        )

    def _address(self, address: str | None, spec: DriverSpecLike, where: Where) -> str | None:
        """Add the driver's default port to a network address without one; check the settings of a serial port."""
        if address is None:
            return None
        if is_serial(address):
            try:
                # the driver knows the settings of its serial line
                SerialLine.parse(SerialLine(baud=9600).complete(address))
            except ValueError as error:
                self.sections.reading.add(where, str(error))
            return address
        if "/" not in address and ":" not in address:
            if not spec.default_port:
                self.sections.reading.add(
                    where,
                    f"driver {spec.name} has no default port. "
                    f"Write {address}:PORT, or a serial port such as /dev/ttyUSB0",
                )
                return None
            address = f"{address}:{spec.default_port}"
        try:
            check_address(address)
        except ValueError as error:
            self.sections.reading.add(where, str(error))
        return address

    def _options(self, model: type[BaseModel], whose: str, node: Node, where: Where) -> BaseModel | None:
        """Read `options`. A model that ignores unknown keys would hide a misspelt one, so they are checked here."""
        options_node = node.child("options") or Node(value={}, line=node.line)
        options = validate(model, options_node, where, self.sections.reading)
        if model.model_config.get("extra") != "forbid":
            known = {alias for name, option in model.model_fields.items() for alias in (name, option.alias) if alias}
            for key in options_node.mapping():
                if key not in known:
                    self.sections.reading.add((*where, key), f"{whose} has no such option; {nearest(key, known)}")
        return options


def read_packet_switches(sections: Sections) -> dict[str, PacketSwitch]:
    return {
        name: PacketSwitch(name=name, **entry.model_dump())
        for name, entry, _, _ in sections.sound("packet_switches", PacketSwitchEntry)
    }


def read_passives(sections: Sections) -> dict[str, Passive]:
    found = {}
    for name, entry, _, where in sections.sound("passives", PassiveEntry):
        if entry.ports is None and entry.kind in (PassiveKind.PANEL, PassiveKind.SPLITTER):
            sections.reading.add((*where, "ports"), f"is missing: a {entry.kind} has as many as it says")
            sections.unsure.add(name)
            continue
        ports = entry.ports or (3 if entry.kind is PassiveKind.CIRCULATOR else 2)
        found[name] = Passive(name=name, kind=entry.kind, ports=ports, loss_db=entry.loss_db)
    return found
