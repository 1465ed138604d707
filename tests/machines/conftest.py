"""Virtual machines for the tests of themselves."""

from .fixtures import machine_image, machines, pytest_collection_modifyitems, pytest_runtest_makereport

__all__ = ["machine_image", "machines", "pytest_collection_modifyitems", "pytest_runtest_makereport"]
