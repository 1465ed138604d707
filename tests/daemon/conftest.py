"""Virtual machines for the tests of the daemon as a service."""

from ..machines.fixtures import machine_image, machines, pytest_runtest_makereport

__all__ = ["machine_image", "machines", "pytest_runtest_makereport"]
