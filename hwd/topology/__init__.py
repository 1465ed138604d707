"""Topologies by name: pairs, rings, the giant ring. Pure: no asyncio, no clock, no I/O."""

from hwd.topology.generate import GENERATORS, generate
from hwd.topology.pairs import pairs
from hwd.topology.ring import giant_ring, ring

__all__ = ["GENERATORS", "generate", "giant_ring", "pairs", "ring"]
