"""Values from their texts, for tests that write many."""

from collections.abc import Mapping
from typing import TypeVar

from hwd.model.link import Link, SwitchCrossconnect
from hwd_drivers.core.values import Crossconnect, PortSide

T = TypeVar("T")


def pairs_of(*texts: str) -> list[Crossconnect]:
    return [*map(Crossconnect.parse, texts)]


def ends_of(*texts: str) -> list[PortSide]:
    return [*map(PortSide.parse, texts)]


def links_of(*texts: str) -> list[Link]:
    return [*map(Link.parse, texts)]


def switch_pairs_of(*texts: str, switch: str = "") -> list[SwitchCrossconnect]:
    """`switch`: that of all, where the texts do not name it."""
    return [SwitchCrossconnect.parse(f"{switch}:{text}" if switch else text) for text in texts]


def by_end(found: Mapping[str, T]) -> dict[PortSide, T]:
    return {PortSide.parse(end): one for end, one in found.items()}
