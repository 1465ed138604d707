"""Executes TL1 requests about ports on a Polatis unit: `change` acts, `answer_lines` returns data lines."""

from collections.abc import Sequence
from typing import TypeGuard

from hwd_drivers.core.errors import BugError
from hwd_drivers.core.values import AttenuationMode
from hwd_drivers.families.polatis.numbering import UnitError, Wrong
from hwd_drivers.families.polatis.settings import FlapProgramme, VoaSetting
from hwd_drivers.families.polatis.tl1 import lines
from hwd_drivers.families.polatis.tl1 import requests as ask
from hwd_drivers.families.polatis.unit import Unit

Change = (
    ask.SetMonitorConfig
    | ask.SetThreshold
    | ask.ClearAlarm
    | ask.CloseShutter
    | ask.OpenShutter
    | ask.EditLabel
    | ask.EnterFlap
    | ask.StartFlap
    | ask.StopFlap
    | ask.SetAttenuation
)


def is_change(request: ask.Request) -> TypeGuard[Change]:
    return isinstance(request, Change)


def change(unit: Unit, request: Change) -> None:
    """Raises UnitError where the unit refuses."""
    match request:
        case ask.SetMonitorConfig(ports=ports):
            unit.monitors.configure(
                ports,
                wavelength_nm=request.wavelength_nm,
                offset_db=request.offset_db,
                averaging_code=request.averaging_code,
            )
        case ask.SetThreshold(ports=ports, type=kind):
            unit.alarms.configure(
                ports,
                kind,
                mode=request.mode,
                edge=request.edge,
                high_dbm=request.high_dbm,
                low_dbm=request.low_dbm,
            )
        case ask.ClearAlarm(ports=ports, type=kind):
            unit.alarms.clear(ports, kind)
        case ask.CloseShutter(ports=ports):
            unit.shut(ports)
        case ask.OpenShutter(ports=ports):
            unit.open(ports)
        case ask.EditLabel(ports=ports, label=label):
            unit.check(ports)
            for port in ports:
                unit.label(port, label)
        case ask.EnterFlap(ports=ports):
            unit.check(ports)
            unit.flapping.programme(
                ports, FlapProgramme(off_ms=request.off_ms, on_ms=request.on_ms, cycles=request.cycles)
            )
        case ask.StartFlap(ports=ports):
            unit.check(ports)
            unit.flapping.start(ports)
        case ask.StopFlap(ports=ports):
            unit.check(ports)
            unit.flapping.stop(ports)
        case ask.SetAttenuation(ports=ports):
            _attenuate(unit, request)


def answer_lines(unit: Unit, request: ask.Request) -> tuple[str, ...]:
    """Data lines. Raises UnitError where the unit refuses."""
    options = unit.options
    match request:
        case ask.RetrievePatch(ports=ports):
            return lines.write_patches(unit.pairs(ports))
        case ask.RetrievePower(ports=ports, reverse=reverse):
            fitted = _fitted(unit, ports, unit.monitors.reverse_ports if reverse else unit.monitors.ports)
            powers = unit.monitors.read_reverse(fitted) if reverse else unit.powers(fitted)
            return lines.write_powers(powers, dark_dbm=options.dark_dbm)
        case ask.RetrieveType():
            product = unit.product
            return lines.write_type(
                lines.UnitType(vendor=product.vendor, model=product.code, type="OXC", version=product.firmware)
            )
        case ask.RetrieveInventory():
            return lines.write_serial(unit.product.serial)
        case ask.RetrieveSize():
            return lines.write_size(unit.numbering)
        case ask.RetrieveMonitors(reverse=reverse):
            having = unit.monitors.reverse_ports if reverse else unit.monitors.ports
            if not having:
                raise UnitError(Wrong.HARDWARE)
            return lines.write_monitors(sorted(having), unit.numbering, reverse=reverse)
        case ask.RetrieveAttenuators():
            if not unit.voas.ports:
                raise UnitError(Wrong.HARDWARE)
            return lines.write_attenuators()
        case ask.RetrieveMonitorConfig(ports=ports):
            return lines.write_monitor_configs(
                [(port, unit.monitors.config(port)) for port in _fitted(unit, ports, unit.monitors.ports)]
            )
        case ask.RetrieveThreshold(ports=ports, type=kind):
            fitted = _fitted(unit, ports, unit.monitors.ports)
            return lines.write_thresholds([(port, unit.alarms.threshold(port, kind)) for port in fitted])
        case ask.RetrieveAlarm(ports=ports, type=kind):
            alarms = unit.alarms
            fitted = _fitted(unit, ports, unit.monitors.ports)
            states = [(port, alarms.threshold(port, kind).mode, alarms.triggered(port, kind)) for port in fitted]
            return lines.write_alarms(states, separator=options.alarm_separator)
        case ask.RetrieveShutter(ports=ports):
            unit.check(ports)
            words = {True: options.shutter_closed, False: options.shutter_open}
            return lines.write_words([(port, words[unit.is_shut(port)]) for port in ports])
        case ask.RetrieveLabel(ports=ports):
            unit.check(ports)
            return lines.write_words([(port, unit.labels.get(port, "")) for port in ports])
        case ask.RetrieveFlap(ports=ports):
            flapping = unit.flapping
            unit.check(ports or ())
            asked = flapping.programmes if ports is None else [port for port in ports if port in flapping.programmes]
            return lines.write_flaps(
                [(port, flapping.programmes[port], flapping.state(port)) for port in sorted(asked)]
            )
        case ask.RetrieveAttenuation(ports=ports):
            fitted = _fitted(unit, ports, unit.voas.ports)
            return lines.write_attenuation([(port, unit.voas.setting(port)) for port in fitted])
        case _:
            raise BugError(f"{type(request).__name__}: not about ports")


def _fitted(unit: Unit, ports: Sequence[int], having: frozenset[int]) -> Sequence[int]:
    """The requested ports that have the part, as published programs ask for all ports at once.

    Where none has it, all requested ports, to be refused.
    """
    if unit.options.unfitted == "deny" or having.isdisjoint(ports):
        return ports
    unit.check(ports)
    return [port for port in ports if port in having]


def _attenuate(unit: Unit, request: ask.SetAttenuation) -> None:
    if request.references and request.mode is not AttenuationMode.RELATIVE:
        raise UnitError(Wrong.VALUE, "REFS is for MODE=REL")
    if not request.references:
        unit.attenuate(request.ports, VoaSetting(mode=request.mode, level=request.level))
        return
    for port, reference in zip(request.ports, request.references, strict=True):
        unit.attenuate([port], VoaSetting(mode=request.mode, level=request.level, reference=reference))
