"""Polatis over RESTCONF."""
