"""Polatis switches over SCPI."""
