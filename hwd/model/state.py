"""Crossconnects of switches, as they shall be and as they were reported."""

from collections.abc import Mapping

from hwd_drivers.core.values import Crossconnect, CrossconnectReading

Needed = Mapping[str, frozenset[Crossconnect]]
"""Crossconnects that links need, by the name of their switch."""

Observed = Mapping[str, tuple[CrossconnectReading, ...]]
"""What each switch reported, by its name. A switch that could not be read is missing."""
