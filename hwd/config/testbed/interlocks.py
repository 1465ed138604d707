"""The section `interlocks` of a testbed file: limits beyond those of models and modules, and what may be overridden.

interlocks:
  loss-budget: {override: allowed}
  rate: {changes: {ocs1: 30}, per_s: 60}
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from hwd.config.testbed.sections import Sections
from hwd.config.testbed.testbed_schema import InterlocksEntry
from hwd.config.yaml.file_problem import Where, nearest
from hwd.config.yaml.validate import validate
from hwd.model.interlock import InterlockName, InterlockRules
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Composite, Host, Switch
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Crossconnect, PortSide

ARROW = "<->"
N = TypeVar("N", int, float)
Pair = frozenset[NicPortId] | tuple[str, Crossconnect]


@dataclass(slots=True)
class InterlocksReader:
    """Reads the section, against the parts that it names."""

    sections: Sections
    switches: Mapping[str, Switch]
    composites: Mapping[str, Composite]
    hosts: Mapping[str, Host]

    def read(self) -> InterlockRules:
        node = self.sections.root.child("interlocks")
        if node is None or node.value is None:
            return InterlockRules()
        if (entry := validate(InterlocksEntry, node, ("interlocks",), self.sections.reading)) is None:
            return InterlockRules()
        pairs = dict(self._pairs(entry.forbidden_pair.pairs, ("interlocks", "forbidden-pair", "pairs")))
        wear, rate = entry.wear, entry.rate
        return InterlockRules(
            overridable=frozenset(
                InterlockName(field.alias or name)
                for name, field in InterlocksEntry.model_fields.items()
                if getattr(entry, name).override == "allowed"
            ),
            input_max_dbm=self._of_switches(entry.input_power.max_dbm, ("input-power", "max_dbm")),
            moves_max=self._of_switches(wear.moves, ("wear", "moves"), moved_by_us=True),
            moves_per_hour_max=self._of_switches(wear.moves_per_hour, ("wear", "moves_per_hour"), moved_by_us=True),
            changes_max=self._of_switches(rate.changes, ("rate", "changes"), moved_by_us=True),
            rate_s=rate.per_s,
            forbidden_ports={pair: why for pair, why in pairs.items() if isinstance(pair, frozenset)},
            forbidden_crossconnects={pair: why for pair, why in pairs.items() if isinstance(pair, tuple)},
        )

    def _of_switches(self, limits: Mapping[str, N], where: Where, *, moved_by_us: bool = False) -> dict[str, N]:
        """The limits of switches that there are. `moved_by_us`: a host's own switch can have none."""
        found = {}
        for name, limit in limits.items():
            at = ("interlocks", *where, name)
            if name in self.sections.unsure:
                continue
            if (switch := self.switches.get(name)) is None:
                self.sections.reading.add(at, f"{name} is no switch; {nearest(name, self.switches)}")
            elif moved_by_us and switch.owner is not None:
                self.sections.reading.add(at, _not_ours(name, switch.owner))
            else:
                found[name] = limit
        return found

    def _pairs(self, pairs: Mapping[str, str], where: Where) -> Iterator[tuple[Pair, str]]:
        for text, why in pairs.items():
            try:
                if (pair := self._link(text) if ARROW in text else self._crossconnect(text)) is not None:
                    yield pair, why
            except ConfigError as error:
                self.sections.reading.add((*where, text), str(error))

    def _link(self, text: str) -> Pair | None:
        link = Link.parse(text)
        for end in link.ends:
            if end.host in self.sections.unsure or end in self.sections.unsure:
                return None
            ports = {port.id for host in self.hosts.values() for port in host.ports}
            if end not in ports:
                raise ConfigError(f"{end} is no NIC port; {nearest(end, ports)}")
        return frozenset(link.ends)

    def _crossconnect(self, text: str) -> Pair | None:
        if ":" not in text:
            raise ConfigError(f"{text!r} is no pair; write h0.eth0 <-> h1.eth0, or ocs1:1A-2B")
        one = SwitchCrossconnect.parse(text)
        if one.switch in self.sections.unsure:
            return None
        ends: Collection[PortSide]
        if (composite := self.composites.get(one.switch)) is not None:
            ends, switches = composite.ports, sorted({end.owner for end in composite.ports.values()})
        elif (switch := self.switches.get(one.switch)) is not None:
            ends, switches = switch.capabilities.ends, [one.switch]
        else:
            raise ConfigError(f"{one.switch} is no switch; {nearest(one.switch, [*self.switches, *self.composites])}")
        for name in switches:
            if (owner := self.switches[name].owner) is not None:
                raise ConfigError(_not_ours(name, owner))
        for end in one.crossconnect.ends:
            if end not in ends:
                raise ConfigError(f"{one.switch} has no {end}")
        return one.switch, one.crossconnect


def _not_ours(switch: str, owner: str) -> str:
    """Why a switch of a host can have no limit on its moves, and no forbidden crossconnect."""
    return f"{switch} belongs to host {owner}, which sets it: no plan moves it"
