"""Templates of `hwd driver new`: a complete, small driver of a fictitious device."""

from hwd_drivers.scaffold.scaffold import SCAFFOLD_FILES, scaffold

__all__ = ["SCAFFOLD_FILES", "scaffold"]
