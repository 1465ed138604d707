"""Templates of `hwd driver new`: complete, small drivers of fictitious devices, a matrix and a 1xN."""

from hwd_drivers.scaffold.scaffold import scaffold

__all__ = ["scaffold"]
