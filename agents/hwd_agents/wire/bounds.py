"""Bounds on the fields of messages: the length of texts, the range of numbers, the number of items.

They are far above the sizes that hosts send.
"""

import ipaddress
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta

NAME_MOST: Final = 256
TEXT_MOST: Final = 8192
"""In characters. A sender cuts a longer text: see `clipped`."""
NUMBER_MOST: Final = (1 << 62) - 1
COUNTER_MOST: Final = (1 << 64) - 1
"""The kernel's counters have 64 bits."""
PORTS_MOST: Final = 256
"""NIC ports or switches of one host."""
ENDS_MOST: Final = 4096
"""Fibre ends or crossconnects of one switch."""
LANES_MOST: Final = 64
RANKS_MOST: Final = 256
"""Ranks of one job."""
LINKS_MOST: Final = 4096
"""Links of the light of one job."""

Name = Annotated[str, Meta(max_length=NAME_MOST)]
"""The name of a port, an interface, a switch or a run."""
Text = Annotated[str, Meta(max_length=TEXT_MOST)]
"""A text for people."""
Boot = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z._: -]{1,64}\Z")]
"""One start of an agent: a UUID."""
Kind = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9-]{0,63}\Z")]
"""The kind of an event."""
Origin = Annotated[str, Meta(pattern=r"\A(measured|kernel|twin|fitted)\Z")]
"""A member of `hwd.model.instant.Origin`."""
At = Annotated[int, Meta(ge=-NUMBER_MOST, le=NUMBER_MOST)]
"""A time in ns on a monotonic clock."""
Span = Annotated[int, Meta(ge=0, le=NUMBER_MOST)]
"""A duration in ns."""
Number = Annotated[int, Meta(ge=0, le=NUMBER_MOST)]
"""A count, or a sequence number."""
Seq = Annotated[int, Meta(ge=1, le=NUMBER_MOST)]
"""A sequence number, from 1."""
UdpPort = Annotated[int, Meta(ge=1, le=65535)]
Measured = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""A measured value in the unit in the name of its field."""
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Lanes = Annotated[list[Measured | None], Meta(max_length=LANES_MOST)]
Ends = Annotated[list[Name], Meta(max_length=ENDS_MOST)]
T = TypeVar("T")
ByName = Annotated[dict[Name, T], Meta(max_length=PORTS_MOST)]
"""By port, or by switch, of one host."""
Words = Annotated[list[Name], Meta(max_length=PORTS_MOST)]

_Plain = bool | Annotated[int, Meta(ge=-NUMBER_MOST, le=NUMBER_MOST)] | Measured | Text | None
SettingState = _Plain | Annotated[dict[Name, _Plain | Words], Meta(max_length=32)]
"""The state of a setting (`hwd_agents.sources.setting_source`): one value, or named fields with values or names."""


def check_ip(what: str, address: str) -> None:
    """Raises ValueError for a name: it would go to the resolver, which blocks."""
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        raise ValueError(f"{what}: {address[:NAME_MOST]!r} is no numeric IP address") from error


def clipped(value: Any) -> Any:
    """JSON with texts cut to `TEXT_MOST` characters; messages of a device or of the kernel may be longer."""
    match value:
        case str() if len(value) > TEXT_MOST:
            return f"{value[: TEXT_MOST - 40]}... ({len(value)} characters)"
        case dict():
            return {key: clipped(one) for key, one in value.items()}
        case list() | tuple():
            return [clipped(one) for one in value]
        case _:
            return value
