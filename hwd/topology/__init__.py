"""Topologies by name: pairs, rings, the giant ring. Pure: no asyncio, no clock, no I/O."""
