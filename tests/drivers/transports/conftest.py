"""Virtual time for the tests that ask for it."""

from ...virtual import both_times, clock, loop, pytest_asyncio_loop_factories, virtual_time

__all__ = ["both_times", "clock", "loop", "pytest_asyncio_loop_factories", "virtual_time"]
