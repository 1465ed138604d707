"""What `hwd driver new` starts a driver from: a whole, small one, of a device that is made up."""

from hwd_drivers.scaffold.scaffold import SCAFFOLD_FILES, scaffold

__all__ = ["SCAFFOLD_FILES", "scaffold"]
