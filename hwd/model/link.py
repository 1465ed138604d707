"""Links, and what makes them: crossconnects and ends with the name of their switch."""

import functools
from typing import Self

from hwd.model.nic_port import NicPortId
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import KEPT_MOST, Crossconnect, PortSide, ValueText


class Link(ValueText):
    """Two NIC ports joined, both ways. The smaller end is the first: use `Link.of`. Text: `h0.eth0<->h1.eth0`."""

    __slots__ = ("a", "b")
    a: NicPortId
    b: NicPortId

    def __new__(cls, *, a: NicPortId, b: NicPortId) -> Self:
        made = super().__new__(cls, f"{a}<->{b}")
        made.a, made.b = a, b
        return made

    @staticmethod
    def of(one: NicPortId, other: NicPortId) -> "Link":
        """The link of two NIC ports in any order; raises ConfigError for twice the same."""
        return (_kept_link if len(one) + len(other) <= KEPT_MOST else _link)(one, other)

    @classmethod
    def read(cls, text: str) -> "Link":
        one, arrow, other = text.partition("<->")
        if not arrow:
            raise ConfigError(f"link {text!r}: write it as h0.eth0<->h1.eth0")
        return cls.of(NicPortId.parse(one.strip()), NicPortId.parse(other.strip()))

    @property
    def ends(self) -> tuple[NicPortId, NicPortId]:
        return self.a, self.b

    def other(self, end: NicPortId) -> NicPortId:
        return self.b if end == self.a else self.a


def _link(one: NicPortId, other: NicPortId) -> Link:
    if one == other:
        raise ConfigError(f"link {one}<->{other}: a NIC port cannot be joined to itself")
    a, b = sorted((one, other), key=NicPortId.sort_key)
    return Link(a=a, b=b)


_kept_link = functools.lru_cache(maxsize=65_536)(_link)


class SwitchCrossconnect(ValueText):
    """A crossconnect with the name of its switch. Text: `ocs1:1A-2B`."""

    __slots__ = ("crossconnect", "switch")
    switch: str
    crossconnect: Crossconnect

    def __new__(cls, *, switch: str, crossconnect: Crossconnect) -> Self:
        made = super().__new__(cls, f"{switch}:{crossconnect}")
        made.switch, made.crossconnect = switch, crossconnect
        return made

    @classmethod
    def read(cls, text: str) -> Self:
        switch, colon, pair = text.partition(":")
        if not (switch and colon):
            raise ConfigError(f"crossconnect {text!r}: write it with its switch, as ocs1:1A-2B")
        return cls(switch=switch, crossconnect=Crossconnect.parse(pair))


@functools.lru_cache(maxsize=262_144)
def switch_crossconnect(switch: str, crossconnect: Crossconnect) -> SwitchCrossconnect:
    """The crossconnect of a switch, the same object at each call, for what a plan asks for again and again."""
    return SwitchCrossconnect(switch=switch, crossconnect=crossconnect)


class SwitchEnd(ValueText):
    """One fibre end of a switch with the name of the switch. Text: `ocs1:1A`."""

    __slots__ = ("end", "switch")
    switch: str
    end: PortSide

    def __new__(cls, *, switch: str, end: PortSide) -> Self:
        made = super().__new__(cls, f"{switch}:{end}")
        made.switch, made.end = switch, end
        return made

    @classmethod
    def read(cls, text: str) -> Self:
        switch, colon, end = text.partition(":")
        if not (switch and colon):
            raise ConfigError(f"end {text!r}: write it with its switch, as ocs1:1A")
        return cls(switch=switch, end=PortSide.parse(end))
