"""Containers: the data of a Polatis unit as its YANG modules write it in XML."""

from collections.abc import Callable
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from hwd_drivers.core.values import AttenuationMode
from hwd_drivers.families.polatis.netconf import xml
from hwd_drivers.families.polatis.netconf.old_ports import OldPorts
from hwd_drivers.families.polatis.netconf.protocol import OPSW, PLTS, VOA_MODES, to_level
from hwd_drivers.families.polatis.settings import AlarmMode, AlarmType, FlapState
from hwd_drivers.families.polatis.unit import BootMode, PortState, Unit

STATUSES: Final = {PortState.ENABLED: "ENABLED", PortState.DISABLED: "DISABLED", PortState.FAILED: "FAILED"}
SHUTTERS: Final = {FlapState.IDLE: "SHUTTER_IDLE", FlapState.SET: "SHUTTER_SET", FlapState.ACTIVE: "SHUTTER_ACTIVE"}


class Containers:
    """Reads one unit. `peers`: notes on the far ends. `old`: whether its modules are older than 2017-08-04."""

    def __init__(self, unit: Unit, peers: dict[int, str], old_ports: OldPorts) -> None:
        self._unit = unit
        self._peers = peers
        self._pair = unit.options.netconf_list
        self.old = self._pair == "pairs"
        self._configuration: dict[str, Callable[[], Element]] = {
            "cross-connects": self._crossconnects,
            "ports": lambda: old_ports.read(state=False),
            "system-config": self._system_config,
        }
        self._state = self._configuration | {
            "product-information": self._product,
            "ports": lambda: old_ports.read(state=True),
            "shutter-status": self._shutter_status,
        }
        if not self.old:
            self._configuration |= {
                "port-config": lambda: self._port_config(state=False),
                "opm-config": self._opm_config,
                "opm-alarm-config": self._opm_alarm_config,
                "voa": self._voa,
                "groups": lambda: self._groups(state=False),
            }
            self._state |= self._configuration | {
                "ports": self._state["ports"],
                "port-config": lambda: self._port_config(state=True),
                "opm-power": self._opm_power,
                "groups": lambda: self._groups(state=True),
            }

    def read(self, names: frozenset[str] | None, *, state: bool) -> list[Element]:
        """The containers of these names, all for None; with `state` also state data. Empty ones are left out."""
        makers = self._state if state else self._configuration
        made = [make() for name, make in makers.items() if names is None or name in names]
        return [each for each in made if len(each) or each.text]

    def _crossconnects(self) -> Element:
        container = Element(f"{{{OPSW}}}cross-connects")
        for ingress, egress in sorted(self._unit.pairs()):
            pair = SubElement(container, f"{{{OPSW}}}{self._pair}")
            xml.leaf(pair, "ingress", ingress)
            xml.leaf(pair, "egress", egress)
        return container

    def _port_config(self, *, state: bool) -> Element:
        unit = self._unit
        container = Element(f"{{{OPSW}}}port-config")
        for port in range(1, unit.numbering.total + 1):
            entry = port_entry(container, port)
            if state:
                xml.leaf(entry, "status", STATUSES[unit.state(port)])
            xml.leaf(entry, "label", unit.labels.get(port, ""))
            xml.leaf(entry, "peer-port", self._peers.get(port, ""))
        return container

    def _opm_power(self) -> Element:
        container = Element(f"{{{OPSW}}}opm-power")
        dark_dbm = self._unit.options.dark_dbm
        ports = sorted(self._unit.monitors.ports)
        for port, dbm in self._unit.powers(ports) if ports else ():
            xml.leaf(port_entry(container, port), "power", f"{dark_dbm if dbm is None else dbm:.2f}")
        return container

    def _opm_config(self) -> Element:
        container = Element(f"{{{OPSW}}}opm-config")
        for port in sorted(self._unit.monitors.ports):
            config = self._unit.monitors.config(port)
            entry = port_entry(container, port)
            xml.leaf(entry, "wavelength", f"{config.wavelength_nm:.2f}")
            xml.leaf(entry, "offset", f"{config.offset_db:.2f}")
            xml.leaf(entry, "averaging-time", config.averaging_code)
        return container

    def _opm_alarm_config(self) -> Element:
        container = Element(f"{{{OPSW}}}opm-alarm-config")
        for port in sorted(self._unit.monitors.ports):
            loss = self._unit.alarms.threshold(port, AlarmType.LOS)
            degraded = self._unit.alarms.threshold(port, AlarmType.DEGRADED)
            entry = port_entry(container, port)
            enabled = loss.mode is not AlarmMode.OFF
            xml.leaf(entry, "mode", "POWER_ALARM_ENABLED" if enabled else "POWER_ALARM_DISABLED")
            xml.leaf(entry, "signal-low-threshold", f"{loss.low_dbm:.2f}")
            xml.leaf(entry, "signal-degrade-threshold", f"{degraded.low_dbm:.2f}")
            xml.leaf(entry, "signal-high-threshold", f"{loss.high_dbm:.2f}")
            xml.leaf(entry, "alarm-clear-holdoff", f"{loss.clears_after_s:.0f}")
        return container

    def _voa(self) -> Element:
        container = Element(f"{{{OPSW}}}voa")
        for port in sorted(self._unit.voas.ports):
            setting = self._unit.voas.setting(port)
            entry = port_entry(container, port)
            xml.leaf(entry, "atten-mode", VOA_MODES[setting.mode])
            if setting.level is not None:
                xml.leaf(entry, "atten-level", f"{to_level(setting.mode, setting.level):.2f}")
            relative = setting.mode is AttenuationMode.RELATIVE
            in_use = (setting.reference or self._unit.peer(port) or 0) if relative else 0
            xml.leaf(entry, "reference-port", in_use)
        return container

    def _groups(self, *, state: bool) -> Element:
        container = Element(f"{{{OPSW}}}groups")
        connected = self._unit.groups.connected() if state else {}
        for group in self._unit.groups.all():
            entry = SubElement(container, f"{{{OPSW}}}group")
            xml.leaf(entry, "group-name", group.name)
            for port in group.ingress:
                xml.leaf(entry, "ingress", port)
            for port in group.egress:
                xml.leaf(entry, "egress", port)
            if state:
                xml.leaf(entry, "connected-group", connected.get(group.name, ""))
        return container

    def _system_config(self) -> Element:
        container = Element(f"{{{OPSW}}}system-config")
        mode = "MODE_VOLATILE" if self._unit.boot is BootMode.DARK else "MODE_PRESERVE"
        SubElement(container, f"{{{PLTS}}}startup-mode").text = mode
        return container

    def _product(self) -> Element:
        product = self._unit.product
        container = Element(f"{{{OPSW}}}product-information")
        xml.leaf(container, "manufacturer", product.vendor)
        xml.leaf(container, "serial-number", product.serial)
        xml.leaf(container, "model-name", product.model)
        xml.leaf(container, "software-version", product.firmware)
        return container

    def _shutter_status(self) -> Element:
        container = Element(f"{{{PLTS}}}shutter-status")
        for port in sorted(self._unit.flapping.programmes):
            entry = SubElement(container, f"{{{PLTS}}}port")
            xml.leaf(entry, "port-id", port)
            xml.leaf(entry, "status", SHUTTERS[self._unit.flapping.state(port)])
        return container


def port_entry(container: Element, port: int) -> Element:
    """Add the entry of a port to a list of ports."""
    entry = SubElement(container, f"{{{OPSW}}}port")
    xml.leaf(entry, "port-id", port)
    return entry
