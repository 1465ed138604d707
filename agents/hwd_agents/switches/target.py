"""parse_target: the crossconnects that a request demands of a switch."""

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, Crossconnect

DARK = "dark"
"""The target of a switch that shall have no crossconnects."""


def parse_target(name: str, text: str, capabilities: Capabilities) -> frozenset[Crossconnect]:
    """Parse `in-2`, `1A-2B,3A-7B` or `dark`. Raises ConfigError for any other text, and for unknown ends."""
    if text.strip() == DARK:
        return frozenset()
    found = [Crossconnect.parse(one) for one in text.split(",")]
    ends = [end for one in found for end in one.ends]
    if unknown := [end for end in ends if end not in capabilities.ends]:
        known = capabilities.ends
        raise ConfigError(f"{name}: it has no {unknown[0]}; its ends go from {known[0]} to {known[-1]}")
    if twice := [end for end in ends if ends.count(end) > 1]:
        raise ConfigError(f"{name}: {text}: {twice[0]} is named twice; an end carries one crossconnect")
    return frozenset(found)
