"""Calient over TL1."""
