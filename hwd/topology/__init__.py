"""Topologies: which links hosts are joined by, by name. Pure: no asyncio, no clock, no I/O."""

from hwd.topology.choice import Party, need_hosts, need_ports
from hwd.topology.generate import generate
from hwd.topology.kind import Given, TopologyKind

__all__ = ["Given", "Party", "TopologyKind", "generate", "need_hosts", "need_ports"]
