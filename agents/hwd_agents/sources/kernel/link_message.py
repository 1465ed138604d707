"""reading_of: the LinkReading in an rtnetlink message about a link, as pyroute2 decodes it."""

from typing import Any

from pyroute2.netlink.rtnl.ifinfmsg import IFF_LOWER_UP, IFF_UP

from hwd_agents.sources.link_source import LinkReading, OperState, Origin


class Attributes:
    """The attributes of a message by name. `get_attr` of the message would look through all of them each time."""

    def __init__(self, message: Any) -> None:
        self._slots = {slot.name: slot for slot in message["attrs"]}

    def __call__(self, name: str, default: Any = None) -> Any:
        slot = self._slots.get(name)
        return default if slot is None else slot.value


def reading_of(
    message: Any, attribute: Attributes, *, origin: Origin, at_ns: int, earliest_ns: int | None
) -> LinkReading:
    """The reading in an `ifinfmsg` of an interface that exists."""
    flags = message["flags"]
    return LinkReading(
        interface=_text(attribute("IFLA_IFNAME")),
        ifindex=message["index"],
        present=True,
        admin_up=bool(flags & IFF_UP),
        carrier=bool(flags & IFF_LOWER_UP),
        operstate=OperState(attribute("IFLA_OPERSTATE", "UNKNOWN").lower()),
        carrier_changes=attribute("IFLA_CARRIER_CHANGES", 0),
        carrier_ups=attribute("IFLA_CARRIER_UP_COUNT", 0),
        carrier_downs=attribute("IFLA_CARRIER_DOWN_COUNT", 0),
        mtu=attribute("IFLA_MTU", 0),
        origin=origin,
        at_ns=at_ns,
        earliest_ns=earliest_ns,
    )


def _text(name: str | bytes) -> str:
    """The name as text. Names may be no UTF-8, which pyroute2 leaves as bytes: each invalid byte becomes U+FFFD."""
    return name if isinstance(name, str) else name.decode(errors="replace")
