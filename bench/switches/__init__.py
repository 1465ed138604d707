"""Measurements of commands to switches: change, apply, selection by a host, planning, many controllers, many twins."""
