"""The testbeds of the tests of the fabric."""

from ..fabric.conftest import make, star

__all__ = ["make", "star"]
