"""The container `ports` of modules before 2017-08-04; newer modules have it too, deprecated, beside its successors."""

from collections.abc import Callable
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from hwd_drivers.families.polatis.netconf import xml
from hwd_drivers.families.polatis.netconf.protocol import OLD_STATES, OPSW
from hwd_drivers.families.polatis.netconf.refusals import refuse
from hwd_drivers.families.polatis.unit import PortState, Unit

STATUSES: Final = {
    PortState.ENABLED: "PO_ENABLED",
    PortState.DISABLED: "PO_DISABLED",
    PortState.FAILED: "PO_FAILED",
}
ENABLED, DISABLED = OLD_STATES


class OldPorts:
    """Reads and edits the ports of a unit as in old modules: label, state and power. `peers`: notes on the far ends."""

    def __init__(self, unit: Unit, peers: dict[int, str]) -> None:
        self._unit = unit
        self._peers = peers

    def read(self, *, state: bool) -> Element:
        unit = self._unit
        container = Element(f"{{{OPSW}}}ports")
        monitored = sorted(unit.monitors.ports)
        powers = dict(unit.powers(monitored)) if state and monitored else {}
        for port in range(1, unit.numbering.total + 1):
            entry = SubElement(container, f"{{{OPSW}}}port")
            xml.leaf(entry, "port-id", port)
            xml.leaf(entry, "port-label", unit.labels.get(port, ""))
            xml.leaf(entry, "port-state", DISABLED if unit.state(port) is PortState.DISABLED else ENABLED)
            if state:
                xml.leaf(entry, "port-status", STATUSES[unit.state(port)])
            xml.leaf(entry, "peer-port", self._peers.get(port, ""))
            if port in unit.monitors.ports:
                monitor = SubElement(entry, f"{{{OPSW}}}opm")
                xml.leaf(monitor, "lambda", f"{unit.monitors.config(port).wavelength_nm:.2f}")
                if state:
                    dbm = powers[port]
                    xml.leaf(monitor, "power", f"{unit.options.dark_dbm if dbm is None else dbm:.2f}")
        return container

    def setter(self, port: int, entry: Element) -> Callable[[], None]:
        """The changes of an edit's entry; raises RefusedRpc for a leaf that cannot be set."""
        unit = self._unit
        unit.check((port,))
        known = ("port-id", "port-label", "port-state", "peer-port")
        if others := [xml.name(each) for each in entry if xml.name(each) not in known]:
            raise refuse("unknown-element", f"{others[0]} cannot be set", bad_element=others[0])
        state = xml.text(xml.child(entry, "port-state"))
        if state not in ("", *OLD_STATES):
            raise refuse("invalid-value", f"port-state {state[:80]}", bad_element="port-state")
        set_label = label_setter(unit, self._peers, port, entry, "port-label")

        def do() -> None:
            set_label()
            if state:
                (unit.disable if state == DISABLED else unit.enable)((port,))

        return do


def label_setter(unit: Unit, peers: dict[int, str], port: int, entry: Element, leaf: str) -> Callable[[], None]:
    """Sets the label, which is in `leaf`, and the note on the far end of a port, where an entry has them."""
    label, peer = xml.child(entry, leaf), xml.child(entry, "peer-port")

    def do() -> None:
        if label is not None:
            unit.label(port, xml.text(label))
        if peer is not None:
            peers[port] = xml.text(peer)

    return do
