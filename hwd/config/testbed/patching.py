"""Fibres of a testbed file and the ends that they use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwd.config.testbed.fibres import Sockets, UnsureError, join, split
from hwd.config.testbed.sections import Sections
from hwd.config.testbed.testbed_schema import FibreEntry
from hwd.config.yaml.file_problem import Where
from hwd.config.yaml.tree import Node
from hwd.config.yaml.validate import validate
from hwd.model.plural import plural
from hwd.model.testbed import Host, Strand
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import FibreEnd, Side


@dataclass(slots=True)
class FibresReader:
    """Reads the section `fibres`."""

    sections: Sections
    sockets: Sockets
    used: dict[FibreEnd, str] = field(default_factory=dict)

    def read(self) -> tuple[tuple[Strand, ...], bool]:
        """All strands, and whether every entry could be read."""
        section = self.sections.root.child("fibres")
        items = section.value if section and isinstance(section.value, list) else []
        strands: list[Strand] = []
        all_known = True
        for index, node in enumerate(items):
            where: Where = ("fibres", index)
            try:
                made = self._fibre(node, where)
            except ConfigError as error:
                self.sections.reading.add(where, str(error))
                all_known = False
                continue
            except UnsureError:
                all_known = False
                continue
            for strand in made:
                self._claim(strand, where)
            strands.extend(made)
        return tuple(strands), all_known

    def _fibre(self, node: Node, where: Where) -> tuple[Strand, ...]:
        if isinstance(node.value, str):
            one, other, directed = split(node.value)
            entry = None
        elif isinstance(node.value, dict):
            entry = validate(FibreEntry, node, where, self.sections.reading)
            if entry is None:
                raise UnsureError
            one, other, directed = entry.source, entry.target, False
        else:
            raise ConfigError("a fibre is `X <-> Y`, `X -> Y`, or a mapping with from and to")
        a, b = self.sockets.plug(one), self.sockets.plug(other)
        ends = join(a, b, directed=directed or (entry is not None and bool(a.single)))
        via = tuple(self.sockets.panel(text) for text in entry.via) if entry else ()
        if via and len(ends) > 1:
            raise ConfigError(
                f"{plural(len(ends), 'strand')} cannot pass through the same panel port: write one entry for each"
            )
        stated = entry.model_dump(include={"length_m", "loss_db", "label"}) if entry else {}
        source = f"{self.sections.reading.file}:{node.line}"
        return tuple(Strand(ends=pair, via=via, source=source, **stated) for pair in ends)

    def _claim(self, strand: Strand, where: Where) -> None:
        through = [
            FibreEnd(owner=end.owner, port=end.port, side=side) for end in strand.via for side in (Side.A, Side.B)
        ]
        for end in (*strand.ends, *through):
            if end in self.used:
                self.sections.reading.add(
                    where,
                    f"{end} has a fibre already, of line {self.used[end].rpartition(':')[2]}; a fibre end takes one",
                )
            self.used.setdefault(end, strand.source)


def find_open_lanes(sections: Sections, hosts: Mapping[str, Host], strands: tuple[Strand, ...]) -> None:
    patched = {end for strand in strands for end in strand.ends}
    for host in hosts.values():
        for port in host.ports:
            ends = (*port.ends(Side.TX), *port.ends(Side.RX))
            open_ends = [end for end in ends if end not in patched]
            where = ("hosts", host.name, "nics", port.id.port)
            if len(open_ends) == len(ends):
                sections.reading.add(where, f"{port.id} has no fibre; no link can use it", warning=True)
            elif open_ends:
                names = ", ".join(open_ends)
                sections.reading.add(where, f"no fibre at {names}, while the other lanes of {port.id} have one")
