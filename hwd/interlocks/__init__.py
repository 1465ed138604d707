"""Checks of a plan against the limits of its parts, each a pure function."""

from hwd.interlocks.check import Interlocks
from hwd.interlocks.proposal import NO_MOTION, Motion, Proposal
from hwd.interlocks.transfers import transfers_in_flight

__all__ = ["NO_MOTION", "Interlocks", "Motion", "Proposal", "transfers_in_flight"]
