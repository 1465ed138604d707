"""The sources are tried on a rack of two hosts in the kernel too."""

from ...twin.kernel.conftest import clock, crossbar, keeper, until_up

__all__ = ["clock", "crossbar", "keeper", "until_up"]
