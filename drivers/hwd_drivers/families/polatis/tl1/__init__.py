"""Polatis switches over TL1."""
