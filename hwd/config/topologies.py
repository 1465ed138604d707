"""Topologies that are installed, by the entry points of `hwd.topologies`."""

from hwd.config.plug_ins import PlugIns
from hwd.topology.kind import GROUP, TopologyKind

_ALL = PlugIns(GROUP, TopologyKind, "topology")
names = _ALL.names
find = _ALL.find
