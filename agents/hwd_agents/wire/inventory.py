"""The inventory in a birth message: kernel, machine, modules, NICs, spool.

An unknown value is null; an older agent leaves fields out.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from .bounds import NAME_MOST, At, ByName, Measured, Name, Number, Text, Words
from .events import LinkStateData, MonitorData


class LimitNote(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one quantity beyond which a module warns and raises an alarm."""

    low_alarm: Measured | None
    low_warning: Measured | None
    high_warning: Measured | None
    high_alarm: Measured | None


class ThresholdNote(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a module. Those of power and bias hold for each lane."""

    temperature_c: LimitNote
    bias_ma: LimitNote
    tx_power_dbm: LimitNote
    rx_power_dbm: LimitNote


class ModuleNote(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of the pluggable module of a port, from its memory."""

    vendor: Name
    part: Name
    revision: Name
    serial: Name
    standard: Name
    thresholds: ThresholdNote | None = None


class DriverNote(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel's driver of a port, and the firmware behind it."""

    name: Name | None
    version: Name | None
    firmware: Name | None
    bus: Name | None


class FecNote(msgspec.Struct, frozen=True, kw_only=True):
    """Forward error correction: chosen by the NIC, or by hand."""

    auto: bool
    modes: Words


class NicNote(msgspec.Struct, frozen=True, kw_only=True):
    """Driver and settings of a NIC port."""

    driver: DriverNote | None = None
    autoneg: bool | None = None
    speed_mbps: At | None = None
    fec: FecNote | None = None


class SpoolNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The spool of an agent. `why`: what is wrong with it and what to do; empty where nothing is."""

    bytes: Number | None = None
    limit_bytes: Number | None = None
    failures: Number | None = None
    why: Text | None = None
    damaged_bytes: Number | None = None


class SelectionNote(msgspec.Struct, frozen=True, kw_only=True):
    """The socket by which jobs of a host set its own switches.

    `why_not`: why they cannot; empty where they can, or where the host has no switches.
    """

    socket: Annotated[str, Meta(max_length=4 * NAME_MOST)] | None = None
    why_not: Text = ""


class Inventory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All but `kernel`, `machine`, `life`, `spool`, `selection` and `garbage` is by port.

    `links` has the data of the event `link-state`, `states` has one state for each instant.
    """

    kernel: Name | None = None
    machine: Name | None = None
    life: Name | None = None
    modules: ByName[ModuleNote] | None = None
    monitors: ByName[MonitorData | None] | None = None
    links: ByName[LinkStateData | None] | None = None
    nics: ByName[NicNote] | None = None
    states: ByName[ByName[bool | None]] | None = None
    spool: SpoolNote | None = None
    selection: SelectionNote | None = None
    garbage: Number | None = None
