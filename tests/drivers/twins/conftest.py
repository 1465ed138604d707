"""Virtual time for the tests that ask for it."""

from ...virtual_time import clock, loop

__all__ = ["clock", "loop"]
