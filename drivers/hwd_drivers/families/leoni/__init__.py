"""Leoni eol and mol switches: one 1xN on a serial line or behind its own TCP port."""
