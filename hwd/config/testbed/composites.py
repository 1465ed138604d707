"""Composites of a testbed file: names of their ends, each of which is an end of an element.

composites:
  sel: {ports: {1A..4A: osw1.1A..4A, 1B..16B: osw1.1B..16B, 17B: sw9.in}}
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwd.config.testbed.ends import ports_in
from hwd.config.testbed.sections import Sections
from hwd.config.testbed.testbed_schema import CompositeEntry
from hwd.config.yaml.file_problem import Where, nearest
from hwd.config.yaml.tree import Reading
from hwd.fabric.composite_parts import CompositeParts
from hwd.fabric.graph import Graph
from hwd.model.plural import plural
from hwd.model.testbed import Composite, Switch
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import FibreEnd, PortSide, Side


@dataclass(slots=True)
class CompositesReader:
    """Reads the section `composites`."""

    sections: Sections
    switches: Mapping[str, Switch]
    _taken: dict[FibreEnd, str] = field(default_factory=dict)

    def read(self) -> dict[str, Composite]:
        found = {}
        for name, entry, _, where in self.sections.sound("composites", CompositeEntry):
            if ports := self._ports(name, entry, (*where, "ports")):
                found[name] = Composite(name=name, ports=ports)
            else:
                self.sections.unsure.add(name)
        return found

    def _ports(self, name: str, entry: CompositeEntry, where: Where) -> dict[PortSide, FibreEnd] | None:
        """Read the ports of a composite; None where anything is wrong: all problems are reported."""
        ports: dict[PortSide, FibreEnd] = {}
        sound = True
        for key, text in entry.ports.items():
            try:
                pairs = _written_out(key, text)
            except ConfigError as error:
                self.sections.reading.add((*where, key), str(error))
                sound = False
                continue
            for port, place in pairs:
                try:
                    end = self._element_end(place)
                    if end is None:
                        sound = False
                        continue
                    self._claim(name, port, end, ports)
                    ports[port] = end
                except ConfigError as error:
                    self.sections.reading.add((*where, key), str(error))
                    sound = False
        if sound and len({port.side is Side.NONE for port in ports}) > 1:
            one, other = (next(port for port in ports if (port.side is Side.NONE) is plain) for plain in (True, False))
            self.sections.reading.add(
                where, f"{one} has no side and {other} has one; name all ends with sides (1A, 1B), or none"
            )
            sound = False
        if sound and not any(Side.B is port.side or port.side is Side.NONE for port in ports):
            self.sections.reading.add(where, "has ends on side A only; light that enters by them cannot leave")
            sound = False
        return ports if sound else None

    def _element_end(self, text: str) -> FibreEnd | None:
        """The end of an element; None where the switch has problems of its own. Raises ConfigError where there is no
        such end.
        """
        owner, dot, port = text.partition(".")
        if owner in self.sections.unsure:
            return None
        if not dot or owner not in self.switches:
            raise ConfigError(
                f"{text}: {owner!r} is no switch (write sw1.in, osw1.3A); {nearest(owner, self.switches)}"
            )
        side = PortSide.parse(port)
        ends = self.switches[owner].capabilities.ends
        if side not in ends:
            raise ConfigError(
                f"{text}: switch {owner} ({self.switches[owner].model}) has no end {port}; "
                f"its ends are {ends[0]} to {ends[-1]}"
            )
        return FibreEnd(owner=owner, port=side.port, side=side.side)

    def _claim(self, name: str, port: PortSide, end: FibreEnd, ports: Mapping[PortSide, FibreEnd]) -> None:
        if port in ports:
            raise ConfigError(f"{port} is used twice, for {ports[port]} and {end}")
        if end in self._taken:
            raise ConfigError(f"{end} is {self._taken[end]} already; an end of an element is one end of one composite")
        self._taken[end] = f"{name}.{port}"


def check_insides(reading: Reading, graph: Graph) -> None:
    """Check by the fibres that light of an element leaves its composite by named ports only."""
    for composite in graph.testbed.composites.values():
        for end, far in CompositeParts(graph, composite).leaks:
            reading.add(
                ("composites", composite.name, "ports"),
                f"{end} is an end of an element inside of {composite.name}, and its fibre leads outside, to {far}. "
                "Name the end under ports",
            )


def _written_out(key: str, text: str) -> list[tuple[PortSide, str]]:
    """Ranges on both sides, expanded."""
    names = ports_in(key)
    owner, dot, port = text.partition(".")
    places = [f"{owner}{dot}{one}" for one in ports_in(port)] if ".." in port else [text]
    if len(names) != len(places):
        raise ConfigError(
            f"{key}: {text}: {plural(len(names), 'name')} for {plural(len(places), 'end')}; the numbers must be equal"
        )
    return list(zip(names, places, strict=True))
