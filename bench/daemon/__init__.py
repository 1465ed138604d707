"""Measurements of the daemon: events in, metrics out, memory, and the start of daemon and command line."""
