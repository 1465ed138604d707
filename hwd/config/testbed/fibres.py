"""Fibres of a testbed file: their texts to strands between fibre ends.

| text | means |
|---|---|
| `h0.eth0`, `ocs1.1`, `sn3700.1` | both fibres of a duplex port; a two-sided switch has them on A and B |
| `h0.eth1/2` | both fibres of one lane of a parallel module |
| `sel.1`, `sel.1A` | the same of a composite: the fibre ends at the element's end that this is |
| `h0.eth0.tx`, `h0.eth1/2.rx`, `ocs1.3A`, `sel0.in`, `sn3700.1.rx` | one fibre end |
| `pp1.17` (in `via`), `pp1.17A`, `pp1.17B` | a panel port; its front and back |
| `sp.in`, `sp.out3`; `tap.in`, `tap.out`; `att.in`, `att.out` | splitter, tap, attenuator |
| `c.1`, `c.2`, `c.3` | circulator |

`X <-> Y` joins two duplex ports (two strands a lane) or two single ends; `X -> Y` is one strand, with light from X to
Y.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hwd.config.yaml.file_problem import nearest
from hwd.model.plural import plural
from hwd.model.testbed import Composite, Module, PacketSwitch, Passive, PassiveKind, Switch
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import FibreEnd, PortSide, Side

_PLUG = re.compile(r"([^.\s]+)\.([^.\s/]+)(?:/(\d{1,3}))?(?:\.(tx|rx))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plug:
    """The fibre ends that one end of a fibre entry names. Duplex: `sends` and `receives` have one end a lane; else
    `single` is the one end.

    `any_lanes`: a packet switch takes as many lanes as the other end has.
    """

    text: str
    sends: tuple[FibreEnd, ...] = ()
    receives: tuple[FibreEnd, ...] = ()
    single: FibreEnd | None = None
    any_lanes: bool = False

    def with_lanes(self, lanes: int) -> "Plug":
        if not self.any_lanes or lanes <= 1:
            return self
        owner, port = self.sends[0].owner, self.sends[0].port
        ends = {
            side: tuple(FibreEnd(owner=owner, port=port, lane=lane, side=side) for lane in range(1, lanes + 1))
            for side in (Side.TX, Side.RX)
        }
        return Plug(text=self.text, sends=ends[Side.TX], receives=ends[Side.RX])


class UnsureError(Exception):
    """The end belongs to a part whose own entry has problems: it cannot be checked until they are corrected."""


@dataclass(slots=True, kw_only=True)
class Sockets:
    """All ends that a fibre can have. `unsure` are owners, and `owner.port`, whose own entries have problems."""

    switches: Mapping[str, Switch]
    modules: Mapping[str, Mapping[str, Module]]
    passives: Mapping[str, Passive]
    packet_switches: Mapping[str, PacketSwitch]
    unsure: frozenset[str]
    composites: Mapping[str, Composite] = field(default_factory=dict)
    _ends: dict[str, dict[PortSide, FibreEnd]] = field(default_factory=dict)

    def owners(self) -> list[str]:
        return [
            *self.switches,
            *self.modules,
            *self.passives,
            *self.packet_switches,
            *self.composites,
            *(name for name in self.unsure if "." not in name),
        ]

    def plug(self, text: str) -> Plug:
        """Raises ConfigError where there is no such end, UnsureError where that cannot be decided."""
        match = _PLUG.fullmatch(text)
        if not match:
            raise ConfigError(f"{text!r} is no fibre end; write h0.eth0, h0.eth1/2.tx, ocs1.3A")
        owner, port, lane, side = match[1], match[2], int(match[3] or 0), Side(match[4] or "")
        if owner in self.unsure or f"{owner}.{port}" in self.unsure:
            raise UnsureError(text)
        if owner in self.modules:
            return self._nic(text, owner, port, lane, side)
        if owner in self.packet_switches:
            return self._packet(text, self.packet_switches[owner], port, lane, side)
        if lane or side:
            known = owner in self.switches or owner in self.passives or owner in self.composites
            what = (
                "only NIC and packet switch ports have lanes, tx and rx"
                if known
                else f"nothing is named {owner}; {nearest(owner, self.owners())}"
            )
            raise ConfigError(f"{text}: {what}")
        if owner in self.switches:
            return self._switch(text, self.switches[owner], port)
        if owner in self.composites:
            return _composite(text, self.composites[owner], port)
        if owner in self.passives:
            return self._passive(text, self.passives[owner], port)
        raise ConfigError(f"{text}: nothing is named {owner}; {nearest(owner, self.owners())}")

    def panel(self, text: str) -> FibreEnd:
        """A port of a patch panel that a strand passes through."""
        owner, _, port = text.partition(".")
        if owner in self.unsure:
            raise UnsureError(text)
        passive = self.passives.get(owner)
        if passive is None or passive.kind is not PassiveKind.PANEL:
            panels = [name for name, part in self.passives.items() if part.kind is PassiveKind.PANEL]
            raise ConfigError(f"via {text}: {owner} is no patch panel; {nearest(owner, panels)}")
        if not (port.isascii() and port.isdigit() and 1 <= int(port) <= passive.ports):
            raise ConfigError(f"via {text}: {owner} has the ports 1 to {passive.ports}; write {owner}.17")
        return FibreEnd(owner=owner, port=str(int(port)))

    def _nic(self, text: str, host: str, port: str, lane: int, side: Side) -> Plug:
        modules = self.modules[host]
        if port not in modules:
            raise ConfigError(f"{text}: host {host} has no NIC port {port}; {nearest(port, modules)}")
        module = modules[port]
        lanes = module.fibre_lanes
        if lane and lane not in lanes:
            have = f"lanes 1 to {len(lanes)}" if module.parallel else "all lanes on one fibre: omit the lane"
            raise ConfigError(f"{text}: module {module.type} has {have}")
        chosen = (lane,) if lane else lanes
        ends = {
            part: tuple(FibreEnd(owner=host, port=port, lane=each, side=part) for each in chosen)
            for part in (Side.TX, Side.RX)
        }
        return self._duplex_or_single(text, ends[Side.TX], ends[Side.RX], side)

    def _packet(self, text: str, switch: PacketSwitch, port: str, lane: int, side: Side) -> Plug:
        if not (port.isascii() and port.isdigit() and 1 <= int(port) <= switch.ports):
            raise ConfigError(f"{text}: packet switch {switch.name} has the ports 1 to {switch.ports}")
        tx, rx = (FibreEnd(owner=switch.name, port=str(int(port)), lane=lane, side=part) for part in (Side.TX, Side.RX))
        plug = self._duplex_or_single(text, (tx,), (rx,), side)
        return plug if plug.single or lane else Plug(text=text, sends=(tx,), receives=(rx,), any_lanes=True)

    def _duplex_or_single(self, text: str, tx: tuple[FibreEnd, ...], rx: tuple[FibreEnd, ...], side: Side) -> Plug:
        if side is Side.NONE:
            return Plug(text=text, sends=tx, receives=rx)
        chosen = tx if side is Side.TX else rx
        if len(chosen) > 1:
            raise ConfigError(f"{text}: {plural(len(chosen), 'fibre')}, one a lane; name the lane, such as {chosen[0]}")
        return Plug(text=text, single=chosen[0])

    def _switch(self, text: str, switch: Switch, port: str) -> Plug:
        if (ends := self._ends.get(switch.name)) is None:
            ends = self._ends[switch.name] = {
                end: FibreEnd(owner=switch.name, port=end.port, side=end.side) for end in switch.capabilities.ends
            }
        if (plug := _one_or_both_sides(text, ends, port)) is not None:
            return plug
        here = sorted(ends, key=PortSide.sort_key)
        span = f"{plural(len(here), 'end')} from {here[0]} to {here[-1]}" if here else "no ends"
        raise ConfigError(f"{text}: switch {switch.name} ({switch.model}) has no port {port}; it has {span}")

    def _passive(self, text: str, passive: Passive, port: str) -> Plug:
        known = passive_ends(passive)
        if port in known:
            side = PortSide.parse(port)
            return Plug(text=text, single=FibreEnd(owner=passive.name, port=side.port, side=side.side))
        if passive.kind is PassiveKind.PANEL and f"{port}A" in known:
            raise ConfigError(
                f"{text}: a fibre ends on the front or the back of a panel port: "
                f"write {text}A or {text}B, or name it under via"
            )
        raise ConfigError(f"{text}: {passive.kind} {passive.name} has no end {port}; {nearest(port, known)}")


def _composite(text: str, composite: Composite, port: str) -> Plug:
    if (plug := _one_or_both_sides(text, composite.ports, port)) is not None:
        return plug
    ends = list(composite.ports)
    raise ConfigError(f"{text}: composite {composite.name} has no end {port}; its ends go from {ends[0]} to {ends[-1]}")


def _one_or_both_sides(text: str, ends: Mapping[PortSide, FibreEnd], port: str) -> Plug | None:
    """The end of this name, or those of a port on sides A and B; None where there is neither. Raises ConfigError where
    the port has one side only.
    """
    if (end := ends.get(PortSide.parse(port))) is not None:
        return Plug(text=text, single=end)
    into, out = (ends.get(PortSide(port=port, side=part)) for part in (Side.A, Side.B))
    if into is not None and out is not None:
        return Plug(text=text, sends=(out,), receives=(into,))
    if one := into or out:
        raise ConfigError(f"{text}: port {port} has one side only; write {text}{'A' if one is into else 'B'}")
    return None


def passive_ends(passive: Passive) -> tuple[str, ...]:
    """Names of the fibre ends of a passive part."""
    match passive.kind:
        case PassiveKind.PANEL:
            return tuple(f"{port}{side}" for port in range(1, passive.ports + 1) for side in (Side.A, Side.B))
        case PassiveKind.SPLITTER:
            return ("in", *(f"out{port}" for port in range(1, passive.ports + 1)))
        case PassiveKind.TAP | PassiveKind.ATTENUATOR:
            return ("in", "out")
        case PassiveKind.CIRCULATOR:
            return ("1", "2", "3")


def join(one: Plug, other: Plug, *, directed: bool) -> tuple[tuple[FibreEnd, FibreEnd], ...]:
    """The pairs of ends that strands join; raises ConfigError where the two do not fit."""
    if one.single and other.single:
        _check_single(one.single, other.single, directed=directed)
        return ((one.single, other.single),)
    if one.single or other.single:
        single, duplex = (one, other) if one.single else (other, one)
        raise ConfigError(
            f"{single.text} is one fibre and {duplex.text} is {2 * len(duplex.sends)}: name the end, such as "
            f"{duplex.sends[0]} or {duplex.receives[0]}"
        )
    if directed:
        raise ConfigError(
            f"{one.text} -> {other.text}: -> is one fibre; "
            f"name the ends ({one.sends[0]} -> {other.receives[0]}), or write <->"
        )
    lanes = max(len(one.sends), len(other.sends))
    one, other = one.with_lanes(lanes), other.with_lanes(lanes)
    if len(one.sends) != len(other.sends):
        many = one if len(one.sends) > len(other.sends) else other
        raise ConfigError(
            f"{many.text} has {plural(lanes, 'fibre')} each way: write one entry a lane, such as {many.text}/1 <-> ..."
        )
    return (*zip(one.sends, other.receives, strict=True), *zip(other.sends, one.receives, strict=True))


def _check_single(one: FibreEnd, other: FibreEnd, *, directed: bool) -> None:
    if one == other:
        raise ConfigError(f"{one} cannot be joined to itself")
    if one.side is other.side and one.side in (Side.TX, Side.RX):
        raise ConfigError(
            f"{one} and {other} are both {'transmitters' if one.side is Side.TX else 'receivers'}: "
            "no light can pass from one to the other"
        )
    if directed and (one.side is Side.RX or other.side is Side.TX):
        raise ConfigError(f"{one} -> {other}: light goes from a tx to an rx; swap the two")


def split(text: str) -> tuple[str, str, bool]:
    """Both ends of a short form and whether it is directed."""
    for arrow, directed in (("<->", False), ("->", True)):
        one, found, other = text.partition(arrow)
        if found:
            return one.strip(), other.strip(), directed
    raise ConfigError(f"{text!r} is no fibre; write h0.eth0 <-> ocs1.1, or ocs1.9B -> sel0.in")
