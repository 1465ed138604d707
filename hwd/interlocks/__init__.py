"""Checks of a plan against the limits of its parts, each a pure function."""

from hwd.interlocks.check import Interlocks
from hwd.interlocks.proposal import NO_MOTION, Motion, Proposal

__all__ = ["NO_MOTION", "Interlocks", "Motion", "Proposal"]
