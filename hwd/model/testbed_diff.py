"""The differences of two testbeds, in words: switches, hosts, fibres, passives, composites, ports, rules."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from hwd.model.interlock import InterlockRules
from hwd.model.testbed import Host, HostTwin, JobEntry, Module, Switch, SwitchTwin, Testbed
from hwd_drivers.core.values import FibreEnd, natural_key


class ChangeKind(StrEnum):
    """A kind of change to a part of the testbed."""

    ADDED = "added"
    """The part is new."""
    REMOVED = "removed"
    """The part is gone."""
    CHANGED = "changed"
    """The part is there, and something of it differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestbedChange:
    """One difference. `subject`: `switch ocs1`, `fibre h0.eth0 - ocs1.1`, `key drift`. `what`: what of it differs.

    `ports`: those that nobody may hold while it is taken in, since their light, or who drives it, changes. `switches`:
    those that nobody may use meanwhile. `obstacle`: why a running daemon cannot take it in; empty where it can.
    """

    __test__ = False

    kind: ChangeKind
    subject: str
    what: str = ""
    ports: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    obstacle: str = ""

    def __str__(self) -> str:
        """`switch ocs1 changed: address 10.0.0.5:3082 -> 10.0.0.9:3082`."""
        return f"{self.subject} {self.kind}{f': {self.what}' if self.what else ''}"


TWIN: Final = "a twin rack knows the testbed file of its start"
OWNED: Final = "it belongs to a host, whose agent has its file and its lease"
LOGINS: Final = "the broker's users are made at the start of the daemon"
WINDOWS: Final = "changes are counted for these limits from the start of the daemon"
YAML: Final[Mapping[type, Mapping[str, str]]] = {
    Switch: {"login_user": "login.user", "login_password": "login.password"},
    HostTwin: {"clock_offset_s": "clock.offset_s", "clock_drift_ppm": "clock.drift_ppm"},
    Module: {"standard": "memory"},
    JobEntry: {"plane_arguments": "plane", "ranks": "hosts"},
    InterlockRules: {
        "input_max_dbm": "input-power.max_dbm",
        "moves_max": "wear.moves",
        "moves_per_hour_max": "wear.moves_per_hour",
        "changes_max": "rate.changes",
        "rate_s": "rate.per_s",
        "forbidden_ports": "forbidden-pair.pairs",
        "forbidden_crossconnects": "forbidden-pair.pairs",
    },
}
"""By type, the fields that have other names in a testbed file."""
KEYS: Final = ("leases", "drift", "interlocks", "transfers", "retention")
"""Fields of `Testbed` that are rules: they count from the next plan on, and nothing is drained for them."""


def testbed_diff(old: Testbed, new: Testbed) -> tuple[TestbedChange, ...]:
    """All differences, in the order of the parts of a testbed file."""
    return tuple(_Diff(old, new).changes())


@dataclass(slots=True)
class _Diff:
    old: Testbed
    new: Testbed
    _near: dict[str, set[FibreEnd]] = field(init=False)
    """By passive: the fibre ends that a strand of the old or the new testbed joins it to."""

    def __post_init__(self) -> None:
        self._near = defaultdict(set)
        for strand in (*self.old.strands, *self.new.strands):
            for end in (*strand.ends, *strand.via):
                if self._is_passive(end.owner):
                    self._near[end.owner].update(strand.ends)

    def changes(self) -> Iterator[TestbedChange]:
        if self.old.name != self.new.name:
            what = f"{self.old.name} -> {self.new.name}"
            yield _changed("key testbed", what, obstacle=renamed(self.old.name))
        if self.old.access_group != self.new.access_group:
            what = _words(self.old.access_group, self.new.access_group)
            yield _changed("key access_group", what, obstacle="the token is given to its group at the start")
        yield from self._switches()
        yield from self._hosts()
        yield from self._strands()
        yield from self._passives()
        yield from self._packet_switches()
        yield from self._composites()
        yield from self._port_notes()
        yield from self._rules()

    # --- devices

    def _switches(self) -> Iterator[TestbedChange]:
        for kind, name, before, after in _pairs(self.old.switches, self.new.switches):
            found = [one for one in (before, after) if one is not None]
            obstacle = OWNED if any(one.owner is not None for one in found) else ""
            if not obstacle and after is not None and any(one.twin is not None for one in found):
                obstacle = TWIN
            what = "" if after is None else f"{after.model} {after.size or ''}".strip() + _at(after)
            yield TestbedChange(
                kind=kind,
                subject=f"switch {name}",
                what=_fields(before, after, but={"capabilities"}) if before and after else what,
                ports=frozenset(f"{name}.{end.port}" for one in found for end in one.capabilities.ends),
                switches=frozenset({name}),
                obstacle=obstacle,
            )

    def _hosts(self) -> Iterator[TestbedChange]:
        for kind, name, before, after in _pairs(self.old.hosts, self.new.hosts):
            ports = frozenset(port.id for one in (before, after) if one is not None for port in one.ports)
            if before is None or after is None:
                yield TestbedChange(kind=kind, subject=f"host {name}", ports=ports, obstacle=LOGINS)
                continue
            if what := _fields(before, after, but={"ports"}):
                yield _changed(f"host {name}", what, obstacle=TWIN if before.twin != after.twin else "")
            yield from self._nic_ports(before, after)

    def _nic_ports(self, before: Host, after: Host) -> Iterator[TestbedChange]:
        old, new = ({port.id: port for port in host.ports} for host in (before, after))
        for kind, name, one, other in _pairs(old, new):
            what = ""
            if one is not None and other is not None:
                module = _keys(one.module, other.module, section="module.")
                what = ", ".join((*_keys(one, other, but={"module"}), *module))
            obstacle = TWIN if after.twin is not None else ""
            yield TestbedChange(
                kind=kind, subject=f"NIC port {name}", what=what, ports=frozenset({name}), obstacle=obstacle
            )

    def _packet_switches(self) -> Iterator[TestbedChange]:
        for kind, name, before, after in _pairs(self.old.packet_switches, self.new.packet_switches):
            what = _fields(before, after) if before and after else ""
            yield TestbedChange(kind=kind, subject=f"packet switch {name}", what=what)

    # --- fibres

    def _strands(self) -> Iterator[TestbedChange]:
        """One change for all strands between the same two ports, as of a duplex cable, where they differ alike."""
        found: dict[tuple[ChangeKind, str, str], frozenset[str]] = {}
        old, new = ({frozenset(one.ends): one for one in bed.strands} for bed in (self.old, self.new))
        for kind, _, before, after in _pairs(old, new):
            strand = after or before
            assert strand is not None
            subject = f"fibre {' - '.join(in_order(f'{end.owner}.{end.port}' for end in strand.ends))}"
            what = _fields(before, after, but={"ends", "source"}) if before and after else f"{strand.loss_db:g} dB"
            if before and after and not what:
                continue  # it stands in another line of the file, or the other way round
            key = kind, subject, "" if kind is ChangeKind.REMOVED else what
            found[key] = found.get(key, frozenset()) | self._ports_of(strand.ends)
        for (kind, subject, what), ports in found.items():
            yield TestbedChange(kind=kind, subject=subject, what=what, ports=ports)

    def _passives(self) -> Iterator[TestbedChange]:
        for kind, name, before, after in _pairs(self.old.passives, self.new.passives):
            what = _fields(before, after) if before and after else ""
            ports = self._ports_of(self._near.get(name, ()))
            yield TestbedChange(kind=kind, subject=f"passive {name}", what=what, ports=ports)

    def _composites(self) -> Iterator[TestbedChange]:
        for kind, name, before, after in _pairs(self.old.composites, self.new.composites):
            places = [place for one in (before, after) if one is not None for place in one.ports.values()]
            yield TestbedChange(
                kind=kind,
                subject=f"composite {name}",
                what="its ports" if before and after else "",
                ports=frozenset(f"{place.owner}.{place.port}" for place in places),
                switches=frozenset(place.owner for place in places),
            )

    def _ports_of(self, ends: Iterable[FibreEnd]) -> frozenset[str]:
        """The switch ports and NIC ports that the light of these ends comes from or goes to, through passives."""
        found, seen, left = set[str](), set[str](), list(ends)
        while left:
            end = left.pop()
            if not self._is_passive(end.owner):
                found.add(f"{end.owner}.{end.port}")
            elif end.owner not in seen:
                seen.add(end.owner)
                left += self._near[end.owner]
        return frozenset(found)

    def _is_passive(self, owner: str) -> bool:
        return owner in self.old.passives or owner in self.new.passives

    # --- rules

    def _port_notes(self) -> Iterator[TestbedChange]:
        old, new = ({f"{one.switch}.{one.port}": one for one in bed.port_notes} for bed in (self.old, self.new))
        for kind, name, before, after in _pairs(old, new):
            what = " -> ".join(str(one) for one in (before, after) if one is not None)
            yield TestbedChange(kind=kind, subject=f"state of port {name}", what=what)

    def _rules(self) -> Iterator[TestbedChange]:
        for noun, old, new in (
            ("host action", dict.fromkeys(self.old.host_actions), dict.fromkeys(self.new.host_actions)),
            ("program", self.old.programs, self.new.programs),
            ("job", self.old.jobs, self.new.jobs),
        ):
            for kind, name, one, other in _pairs(old, new):
                added = "" if other is None else str(other).removeprefix(f"{name}: ")
                what = _fields(one, other) if one is not None and other is not None else added
                yield TestbedChange(kind=kind, subject=f"{noun} {name}", what=what)
        for key in KEYS:
            before, after = getattr(self.old, key), getattr(self.new, key)
            if before != after:
                what = _fields(before, after) if hasattr(before, "__dataclass_fields__") else _words(before, after)
                yield _changed(f"key {key}", what, obstacle=_window_obstacle(before, after))


def _pairs(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> Iterator[tuple[ChangeKind, Any, Any | None, Any | None]]:
    """What differs between two tables: those that are gone first, so that what replaces them comes after."""
    for name in old:
        if name not in new:
            yield ChangeKind.REMOVED, name, old[name], None
    for name, after in new.items():
        if name not in old:
            yield ChangeKind.ADDED, name, None, after
        elif old[name] != after:
            yield ChangeKind.CHANGED, name, old[name], after


def _changed(subject: str, what: str, *, obstacle: str = "") -> TestbedChange:
    return TestbedChange(kind=ChangeKind.CHANGED, subject=subject, what=what, obstacle=obstacle)


def _fields(before: Any, after: Any, *, but: Iterable[str] = ()) -> str:
    """`address 10.0.0.5:3082 -> 10.0.0.9:3082, size 8x8 -> 16x16`, by the keys of the testbed file; long values by
    their key alone.
    """
    return ", ".join(dict.fromkeys(_keys(before, after, but=but)))


def _keys(before: Any, after: Any, *, but: Iterable[str] = (), section: str = "") -> Iterator[str]:
    names = YAML.get(type(before), {})
    for one in fields(before):
        was, is_ = getattr(before, one.name), getattr(after, one.name)
        if one.name in but or was == is_:
            continue
        key = section + names.get(one.name, one.name)
        if isinstance(was, InterlockRules | HostTwin | SwitchTwin) and type(is_) is type(was):
            yield from _keys(was, is_, section=f"{key}.")
        elif isinstance(before, InterlockRules) and one.name == "overridable":
            for name in sorted(was ^ is_):
                yield f"{section}{name}.override {'never -> allowed' if name in is_ else 'allowed -> never'}"
        elif isinstance(was, Mapping) and isinstance(is_, Mapping):
            yield from _entries(key, was, is_)
        else:
            yield f"{key} {_words(was, is_)}" if _is_short(was) and _is_short(is_) else key


def _entries(key: str, before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[str]:
    """`rate.changes.ocs1 none -> 3`; entries without a short value by the key of all alone."""
    for name in dict.fromkeys((*before, *after)):
        was, is_ = before.get(name), after.get(name)
        if was != is_:
            short = isinstance(name, str) and _is_short(was) and _is_short(is_)
            yield f"{key}.{name} {_words(was, is_)}" if short else key


def _is_short(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def renamed(name: str) -> str:
    """Why the testbed of this name cannot get another one, and what to do."""
    return (
        "the name cannot change while the daemon runs, since its data folder, its token and its topics have it. "
        f"Write `testbed: {name}` again; or stop this daemon, and start one of the new name, which has data of its own"
    )


def _words(before: object, after: object) -> str:
    def word(value: object) -> str:
        if isinstance(value, tuple):
            return " ".join(map(str, value)) or "none"
        if isinstance(value, Mapping):
            return ", ".join(map(str, value.values())) or "none"
        if isinstance(value, float):
            return str(value).removesuffix(".0")
        return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    return f"{word(before)} -> {word(after)}"


def _at(switch: Switch) -> str:
    return f" at {switch.address}" if switch.address is not None else ""


def _window_obstacle(before: object, after: object) -> str:
    if not isinstance(before, InterlockRules) or not isinstance(after, InterlockRules):
        return ""
    same = (
        before.moves_per_hour_max.keys() == after.moves_per_hour_max.keys()
        and before.changes_max.keys() == after.changes_max.keys()
        and (before.rate_s == after.rate_s or not before.changes_max)
    )
    return "" if same else WINDOWS


def in_order(ports: Iterable[str]) -> list[str]:
    """Ports as people read them: `ocs1.2` before `ocs1.10`."""
    return sorted(ports, key=natural_key)
