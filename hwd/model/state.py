"""Desired and observed crossconnects of switches, and their difference."""

from collections.abc import Mapping
from dataclasses import dataclass

from hwd_drivers.core.values import Crossconnect, CrossconnectReading

Desired = Mapping[str, frozenset[Crossconnect]]
"""Crossconnects that a switch shall have, by its name. Switches that are not named stay as they are."""

Observed = Mapping[str, tuple[CrossconnectReading, ...]]
"""What each switch reported, by its name. A switch that could not be read is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One switch: wanted crossconnects that are missing, and existing ones that are not wanted."""

    switch: str
    missing: tuple[Crossconnect, ...]
    stale: tuple[Crossconnect, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale)

    def __str__(self) -> str:
        parts = [f"missing {', '.join(map(str, self.missing))}"] if self.missing else []
        parts += [f"stale {', '.join(map(str, self.stale))}"] if self.stale else []
        return f"{self.switch}: {'; '.join(parts) or 'as wanted'}"
