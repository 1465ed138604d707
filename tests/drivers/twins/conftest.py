"""Virtual time for the tests that ask for it."""

from ...virtual import clock, loop, pytest_asyncio_loop_factories, virtual_time

__all__ = ["clock", "loop", "pytest_asyncio_loop_factories", "virtual_time"]
