"""Virtual machines for the tests of the daemon as a service, and virtual time for those of its parts."""

from ..machines.fixtures import machine_image, machines, pytest_collection_modifyitems, pytest_runtest_makereport
from ..virtual_time import pytest_asyncio_loop_factories, virtual_loop

__all__ = [
    "machine_image",
    "machines",
    "pytest_asyncio_loop_factories",
    "pytest_collection_modifyitems",
    "pytest_runtest_makereport",
    "virtual_loop",
]
