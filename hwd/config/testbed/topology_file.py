"""Topology files: `topology: NAME` and `links: [h0.eth0 <-> h1.eth0, ...]`."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hwd.config.file_kind import is_other_kind
from hwd.config.testbed.testbed_schema import Entry
from hwd.config.yaml.file_problem import Loaded, nearest
from hwd.config.yaml.tree import Reading, read_tree
from hwd.config.yaml.validate import validate
from hwd.model.circuit import Topology
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError

PROBLEMS_MAX = 100
"""Problems that are reported of one file: the first of a million wrong links are enough, and each may take
10 ms to word.
"""


class TopologyFile(Entry):
    """The top of the file; links are read one by one."""

    topology: Annotated[str, Field(min_length=1, max_length=200)]
    links: list[Any]


def load_topology(source: str | Path | Reading, testbed: Testbed | None = None) -> Loaded[Topology]:
    """Read a topology file; names are checked where there is a testbed."""
    reading = read_tree(source)
    if reading.root is None or is_other_kind(reading, "topology"):
        return Loaded(None, reading.in_order())
    top = validate(TopologyFile, reading.root, (), reading)
    known = {port.id for port in testbed.ports()} if testbed else None
    used: dict[NicPortId, Link] = {}
    links = []
    for index, item in enumerate(top.links if top else ()):
        where = ("links", index)
        if len(reading.problems) >= PROBLEMS_MAX:
            reading.add(where, f"over {PROBLEMS_MAX} problems; the rest was not checked. Correct these first")
            break
        try:
            if not isinstance(item, str):
                raise ConfigError("a link is text, such as h0.eth0 <-> h1.eth0")
            link = Link.parse(item)
        except ConfigError as error:
            reading.add(where, str(error))
            continue
        for end in link.ends:
            if known is not None and end not in known:
                reading.add(
                    where,
                    f"{end}: no such NIC port in testbed {testbed.name if testbed else ''}; {nearest(end, known)}",
                )
            elif end in used:
                reading.add(where, f"{end} is in {used[end]} already; a NIC port is in one link at a time")
            used.setdefault(end, link)
        links.append(link)
    if top is not None and not links and reading.sound:
        reading.add(("links",), "names no link")
    topology = Topology(name=top.topology, links=tuple(links)) if top and reading.sound else None
    return Loaded(topology, reading.in_order())
