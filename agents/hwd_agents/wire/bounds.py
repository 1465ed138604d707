"""Bounds of what messages carry: how long a text, how large a number, how many of them.

Sizes are of what hosts send, with much room.
"""

import ipaddress
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta

NAME_MOST: Final = 256
TEXT_MOST: Final = 8192
"""Characters. A sender cuts what is longer: see `clipped`."""
NUMBER_MOST: Final = (1 << 62) - 1
COUNTER_MOST: Final = (1 << 64) - 1
"""The kernel's counters have 64 bits."""
PORTS_MOST: Final = 256
"""NIC ports or switches of one host."""
ENDS_MOST: Final = 4096
"""Fibre ends or crossconnects of one switch."""
LANES_MOST: Final = 64

Name = Annotated[str, Meta(max_length=NAME_MOST)]
"""Of a port, an interface, a switch, a run."""
Text = Annotated[str, Meta(max_length=TEXT_MOST)]
"""Words for people."""
Boot = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z._: -]{1,64}\Z")]
"""One start of an agent: a UUID."""
Kind = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9-]{0,63}\Z")]
"""Of an event."""
Origin = Annotated[str, Meta(pattern=r"\A(measured|kernel|twin|fitted)\Z")]
"""As `hwd.model.instant.Origin`."""
At = Annotated[int, Meta(ge=-NUMBER_MOST, le=NUMBER_MOST)]
"""A time in ns of some monotonic clock."""
Span = Annotated[int, Meta(ge=0, le=NUMBER_MOST)]
"""A duration in ns."""
Number = Annotated[int, Meta(ge=0, le=NUMBER_MOST)]
"""A count, or a sequence number."""
Seq = Annotated[int, Meta(ge=1, le=NUMBER_MOST)]
"""A sequence number of something that was sent."""
UdpPort = Annotated[int, Meta(ge=1, le=65535)]
Measured = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""In whatever unit its field names."""
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Lanes = Annotated[list[Measured | None], Meta(max_length=LANES_MOST)]
Ends = Annotated[list[Name], Meta(max_length=ENDS_MOST)]
T = TypeVar("T")
ByName = Annotated[dict[Name, T], Meta(max_length=PORTS_MOST)]
"""By port, or by switch, of one host."""
Words = Annotated[list[Name], Meta(max_length=PORTS_MOST)]

_Plain = bool | Annotated[int, Meta(ge=-NUMBER_MOST, le=NUMBER_MOST)] | Measured | Text | None
SettingState = _Plain | Annotated[dict[Name, _Plain | Words], Meta(max_length=32)]
"""What `hwd_agents.sources.setting_source` reads or sets of a port: one value, or fields that are values or words."""


def check_ip(what: str, address: str) -> None:
    """Raises ValueError where it is a name: that would go to a resolver, which blocks."""
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        raise ValueError(f"{what}: {address[:NAME_MOST]!r} is no numeric IP address") from error


def clipped(value: Any) -> Any:
    """JSON whose texts are at most `TEXT_MOST` characters long; what a device or the kernel has said may be longer."""
    match value:
        case str() if len(value) > TEXT_MOST:
            return f"{value[: TEXT_MOST - 40]}... ({len(value)} characters)"
        case dict():
            return {key: clipped(one) for key, one in value.items()}
        case list() | tuple():
            return [clipped(one) for one in value]
        case _:
            return value
