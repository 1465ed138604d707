"""Datastore: the data of a Polatis unit in its YANG modules, and the effect of an edit-config."""

from collections.abc import Callable, Mapping
from typing import Final
from xml.etree.ElementTree import Element

from hwd_drivers.core.unit_error import UnitError
from hwd_drivers.families.polatis.attenuators import LEVELLED
from hwd_drivers.families.polatis.groups import GROUPS_LIMIT, Group
from hwd_drivers.families.polatis.netconf import xml
from hwd_drivers.families.polatis.netconf.containers import Containers, port_entry
from hwd_drivers.families.polatis.netconf.messages import BASE
from hwd_drivers.families.polatis.netconf.old_ports import OldPorts, label_setter
from hwd_drivers.families.polatis.netconf.protocol import OPSW, VOA_MODES, to_level
from hwd_drivers.families.polatis.netconf.refusals import refusal_of, refuse
from hwd_drivers.families.polatis.settings import AlarmMode, AlarmType, Edge, VoaSetting
from hwd_drivers.families.polatis.unit import BootMode, Unit

Step = Callable[[], float | None]
"""Does one part of an edit; returns the seconds until the answer, None for none."""

OPERATIONS: Final = frozenset({"merge", "replace", "create", "delete", "remove", "none"})
STARTUP_MODES: Final = {"MODE_VOLATILE": BootMode.DARK, "MODE_PRESERVE": BootMode.RESTORE}

DEFAULTS: Final[Mapping[str, Mapping[str, str]]] = {
    "port-config": {"label": "", "peer-port": ""},
    "ports": {"port-label": "", "port-state": "PC_ENABLED", "peer-port": ""},
    "opm-config": {"wavelength": "1550", "offset": "0", "averaging-time": "4"},
    "opm-alarm-config": {
        "mode": "POWER_ALARM_DISABLED",
        "signal-low-threshold": "-60",
        "signal-degrade-threshold": "-60",
        "signal-high-threshold": "25",
        "alarm-clear-holdoff": "0",
    },
    "voa": {"atten-mode": "VOA_MODE_NONE", "reference-port": "0"},
}
"""Values of a deleted entry of a list of ports: the defaults of the modules."""


class Datastore:
    """Reads and edits one unit."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._entry = unit.options.netconf_list
        self._peers: dict[int, str] = {}
        old_ports = OldPorts(unit, self._peers)
        self._containers = Containers(unit, self._peers, old_ports)
        self._setters: dict[str, Callable[[int, Element], Callable[[], None]]] = {"ports": old_ports.setter}
        if not self.old:
            self._setters |= {
                "port-config": self._set_label,
                "opm-config": self._set_monitor,
                "opm-alarm-config": self._set_alarm,
                "voa": self._set_voa,
            }

    @property
    def old(self) -> bool:
        """Whether its modules are older than 2017-08-04, without later containers and rpcs."""
        return self._containers.old

    def read(self, names: frozenset[str] | None, *, state: bool) -> list[Element]:
        """The containers of these names, all for None; with `state` also state data. Empty ones are left out."""
        return self._containers.read(names, state=state)

    def edit(self, config: Element, default: str) -> float:
        """Do the edits of `config`, all or none; returns the seconds until the answer. Raises RefusedRpc."""
        try:
            steps = [self._plan(part, _operation(part, default)) for part in config]
            return max([step() or 0.0 for step in steps], default=0.0)
        except UnitError as error:
            raise refusal_of(error) from error

    def _plan(self, part: Element, operation: str) -> Step:
        """The action of one part, checked as far as possible in advance."""
        match xml.name(part):
            case "cross-connects":
                return self._plan_crossconnects(part, operation)
            case name if name in self._setters:
                return self._plan_ports(part, operation, self._setters[name])
            case "system-config":
                return self._plan_system(part)
            case "groups" if not self.old:
                return self._plan_groups(part, operation)
            case other:
                raise refuse("unknown-element", f"{other} cannot be configured", bad_element=other)

    # --- crossconnects

    def _plan_crossconnects(self, part: Element, operation: str) -> Step:
        unit = self._unit
        present = dict(unit.pairs())
        if operation in ("delete", "remove"):
            if operation == "delete" and not present:
                raise refuse("data-missing", "There are no cross-connects", path="/cross-connects")
            return lambda: unit.disconnect(None)
        if operation == "create" and present:
            raise refuse("data-exists", "There are cross-connects", path="/cross-connects")
        whole = operation == "replace"
        gone: dict[int, int] = {}
        made: list[tuple[int, int]] = []
        for pair in part:
            if xml.name(pair) != self._entry:
                raise refuse("unknown-element", f"{xml.name(pair)} in cross-connects", bad_element=xml.name(pair))
            doing = _operation(pair, operation)
            ingress = _port(pair, "ingress")
            path = f"/cross-connects/{self._entry}[ingress={ingress}]"
            if doing in ("delete", "remove"):
                if ingress in present:
                    gone[ingress] = present[ingress]
                elif doing == "delete":
                    unit.check((ingress,))
                    raise refuse("data-missing", f"Port {ingress} has no cross-connect", path=path)
                continue
            if doing == "create" and ingress in present:
                raise refuse("data-exists", f"Port {ingress} has a cross-connect", path=path)
            if doing == "none":
                if ingress not in present:
                    raise refuse("data-missing", f"Port {ingress} has no cross-connect", path=path)
                continue
            made.append((ingress, _port(pair, "egress")))
        if whole:
            return lambda: unit.connect_only(made)
        return lambda: self._change(list(gone.items()), made)

    def _change(self, gone: list[tuple[int, int]], made: list[tuple[int, int]]) -> float:
        unit = self._unit
        for one, other in made:
            unit.crossconnect(one, other)
        answer_s = unit.disconnect_pairs(gone) if gone else 0.0
        return max(answer_s, unit.connect(made)) if made else answer_s

    # --- groups

    def connect_groups(self, given: Element) -> float:
        """add-group-cross-connect: returns the seconds until the answer."""
        return self._unit.groups.connect(_word(given, "group-name-from"), _word(given, "group-name-to"))

    def disconnect_group(self, given: Element) -> float:
        """delete-group-cross-connect: returns the seconds until the answer."""
        return self._unit.groups.disconnect(_word(given, "group-name"))

    def _plan_groups(self, part: Element, operation: str) -> Step:
        groups = self._unit.groups
        kept = {} if operation in ("replace", "delete", "remove") else {each.name: each for each in groups.all()}
        if operation == "delete" and not groups.all():
            raise refuse("data-missing", "There are no groups", path="/groups")
        seen: set[str] = set()
        for entry in part if operation not in ("delete", "remove") else ():
            if xml.name(entry) != "group":
                raise refuse("unknown-element", f"{xml.name(entry)} in groups", bad_element=xml.name(entry))
            doing = _operation(entry, operation)
            name = _word(entry, "group-name")
            path = f"/groups/group[group-name={name}]"
            if name in seen:
                raise refuse("bad-element", f"Group {name} stands twice", bad_element="group-name", path=path)
            seen.add(name)
            if doing in ("delete", "none") and name not in kept:
                raise refuse("data-missing", f"There is no group {name}", path=path)
            if doing == "create" and name in kept:
                raise refuse("data-exists", f"There is a group {name}", path=path)
            if doing in ("delete", "remove"):
                kept.pop(name, None)
            elif doing != "none":
                before = kept.get(name, Group(name=name)) if doing == "merge" else Group(name=name)
                kept[name] = _group(entry, before)
                groups.check(kept[name])
        if len(kept) > GROUPS_LIMIT:
            raise refuse("operation-failed", f"Over {GROUPS_LIMIT} groups", path="/groups")

        def do() -> None:
            self._unit.raise_denial()
            for each in groups.all():
                if each.name not in kept:
                    groups.remove(each.name)
            for group in kept.values():
                groups.define(group)

        return do

    # --- lists of ports

    def _plan_ports(self, part: Element, operation: str, setter: Callable[[int, Element], Callable[[], None]]) -> Step:
        steps = []
        for entry in part:
            if xml.name(entry) != "port":
                raise refuse("unknown-element", f"{xml.name(entry)} in {xml.name(part)}", bad_element=xml.name(entry))
            doing = _operation(entry, operation)
            port = _port(entry, "port-id")
            if doing == "none":
                continue
            if doing in ("delete", "remove"):
                entry = _defaults(xml.name(part), port)
            steps.append(setter(port, entry))

        def do() -> None:
            self._unit.raise_denial()
            for step in steps:
                step()

        return do

    def _set_label(self, port: int, entry: Element) -> Callable[[], None]:
        if xml.child(entry, "status") is not None:
            raise refuse("invalid-value", "status cannot be set", bad_element="status")
        self._unit.check((port,))
        return label_setter(self._unit, self._peers, port, entry, "label")

    def _set_monitor(self, port: int, entry: Element) -> Callable[[], None]:
        wavelength = _number(entry, "wavelength")
        offset = _number(entry, "offset")
        code = _number(entry, "averaging-time")
        return lambda: self._unit.monitors.configure(
            (port,),
            wavelength_nm=wavelength,
            offset_db=offset,
            averaging_code=None if code is None else int(code),
        )

    def _set_alarm(self, port: int, entry: Element) -> Callable[[], None]:
        words = {"POWER_ALARM_DISABLED": AlarmMode.OFF, "POWER_ALARM_ENABLED": AlarmMode.CONT, "": None}
        word = xml.text(xml.child(entry, "mode"))
        if word not in words:
            raise refuse("invalid-value", f"mode {word[:80]}", bad_element="mode")
        mode, holdoff = words[word], _number(entry, "alarm-clear-holdoff")
        low, degrade, high = (_number(entry, f"signal-{each}-threshold") for each in ("low", "degrade", "high"))
        alarms = self._unit.alarms

        def do() -> None:
            alarms.configure(
                (port,), AlarmType.LOS, mode=mode, edge=Edge.BOTH, low_dbm=low, high_dbm=high, clears_after_s=holdoff
            )
            alarms.configure((port,), AlarmType.DEGRADED, mode=mode, low_dbm=degrade, clears_after_s=holdoff)

        return do

    def _set_voa(self, port: int, entry: Element) -> Callable[[], None]:
        word = xml.text(xml.child(entry, "atten-mode"))
        before = self._unit.voas.setting(port) if port in self._unit.voas.ports else VoaSetting()
        mode = before.mode if not word else next((mode for mode, text in VOA_MODES.items() if text == word), None)
        if mode is None:
            raise refuse("invalid-value", f"atten-mode {word[:80]}", bad_element="atten-mode")
        level, reference = _number(entry, "atten-level"), _number(entry, "reference-port")
        setting = VoaSetting(
            mode=mode,
            level=(before.level if level is None else to_level(mode, level)) if mode in LEVELLED else None,
            reference=before.reference if reference is None else int(reference) or None,
        )
        return lambda: self._unit.voas.set((port,), setting)

    # --- the unit

    def _plan_system(self, part: Element) -> Step:
        for each in part:
            if xml.name(each) != "startup-mode":
                raise refuse("unknown-element", f"{xml.name(each)} in system-config", bad_element=xml.name(each))
        word = xml.text(xml.child(part, "startup-mode"))
        if word not in STARTUP_MODES:
            raise refuse("invalid-value", f"startup-mode {word[:80]}", bad_element="startup-mode")

        return lambda: setattr(self._unit, "boot", STARTUP_MODES[word])


def _word(parent: Element, name: str) -> str:
    word = xml.text(xml.child(parent, name))
    if not word:
        raise refuse("missing-element", f"{xml.name(parent)} without {name}", bad_element=name)
    return word


def _group(entry: Element, before: Group) -> Group:
    """The group of an entry, with the ports that it had before; a list keeps its order."""
    lists = {"ingress": dict.fromkeys(before.ingress), "egress": dict.fromkeys(before.egress)}
    for leaf in entry:
        if xml.name(leaf) not in ("group-name", *lists):
            raise refuse("unknown-element", f"{xml.name(leaf)} cannot be set", bad_element=xml.name(leaf))
        if xml.name(leaf) in lists:
            lists[xml.name(leaf)].setdefault(_port_of(leaf))
    return Group(name=before.name, ingress=tuple(lists["ingress"]), egress=tuple(lists["egress"]))


def _defaults(container: str, port: int) -> Element:
    made = port_entry(Element(f"{{{OPSW}}}{container}"), port)
    for name, value in DEFAULTS[container].items():
        xml.leaf(made, name, value)
    return made


def _operation(element: Element, inherited: str) -> str:
    """The operation attribute, or the inherited one.

    A published program omits its namespace, and real units accept it.
    """
    said = element.get(f"{{{BASE}}}operation") or element.get("operation") or inherited
    if said not in OPERATIONS:
        raise refuse(
            "bad-attribute", f"operation {said[:80]}", bad_attribute="operation", bad_element=xml.name(element)
        )
    return said


def _port(parent: Element, name: str) -> int:
    leaf = xml.child(parent, name)
    if leaf is None or not xml.text(leaf):
        raise refuse("missing-element", f"{xml.name(parent)} without {name}", bad_element=name)
    return _port_of(leaf)


def _port_of(leaf: Element) -> int:
    word = xml.text(leaf)
    if not (word.isascii() and word.isdigit() and len(word) <= 5 and 1 <= int(word) <= 65535):
        raise refuse("invalid-value", f"{xml.name(leaf)} {word[:80]} is not 1 to 65535", bad_element=xml.name(leaf))
    return int(word)


def _number(parent: Element, name: str) -> float | None:
    word = xml.text(xml.child(parent, name))
    if not word:
        return None
    digits = word.removeprefix("-").replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 12):
        raise refuse("invalid-value", f"{name} {word[:80]} is no number", bad_element=name)
    return float(word)
