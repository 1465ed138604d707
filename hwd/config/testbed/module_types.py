"""Modules of a testbed file: types by name, with the per-lane average powers of their standards, and memories.

A testbed file may override each value of a type.

The thresholds of loss of signal are not part of these standards (IEEE 802.3 only says that -30 dBm is none), so they
are ours: data sheets of 100GBASE-LR4 modules state that LOS is cleared at -13 dBm at the latest, 2.4 dB below their
sensitivity of -10.6 dBm, and raised at least 0.5 dB further down; parts on the bench raise it 1 to 2 dB lower.
"""

from dataclasses import dataclass
from typing import Final

from hwd.config.testbed.testbed_schema import ModuleEntry
from hwd.model.testbed import ModuleStandard

LOS_DEASSERT_UNDER_RX_MIN_DB = 2.4
LOS_HYSTERESIS_DB = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleType:
    """The values of a standard for one kind of module; `source` is the standard. Powers per lane, average. `standard`:
    the memory of the usual form factor.
    """

    lanes: int
    parallel: bool
    tx_min_dbm: float
    tx_max_dbm: float
    rx_min_dbm: float
    rx_max_dbm: float
    source: str
    standard: ModuleStandard = ModuleStandard.SFF_8636


MODULE_TYPES: dict[str, ModuleType] = {
    "10g-lr": ModuleType(
        lanes=1, parallel=False, tx_min_dbm=-8.2, tx_max_dbm=0.5, rx_min_dbm=-14.4, rx_max_dbm=0.5,
        source="IEEE 802.3 clause 52, tables 52-12 and 52-13 (10GBASE-LR, 10 km)", standard=ModuleStandard.SFF_8472,
    ),
    "25g-lr": ModuleType(
        lanes=1, parallel=False, tx_min_dbm=-7.0, tx_max_dbm=2.0, rx_min_dbm=-13.3, rx_max_dbm=2.0,
        source="IEEE 802.3cc clause 114 (25GBASE-LR, 10 km)", standard=ModuleStandard.SFF_8472,
    ),
    "100g-lr4": ModuleType(
        lanes=4, parallel=False, tx_min_dbm=-4.3, tx_max_dbm=4.5, rx_min_dbm=-10.6, rx_max_dbm=4.5,
        source="IEEE 802.3 clause 88, tables 88-7 and 88-8 (100GBASE-LR4, 10 km)",
    ),
    "100g-cwdm4": ModuleType(
        lanes=4, parallel=False, tx_min_dbm=-6.5, tx_max_dbm=2.5, rx_min_dbm=-11.5, rx_max_dbm=2.5,
        source="100G CWDM4 MSA technical specification 1.1 (2 km)",
    ),
    "100g-psm4": ModuleType(
        lanes=4, parallel=True, tx_min_dbm=-9.4, tx_max_dbm=2.0, rx_min_dbm=-12.66, rx_max_dbm=2.0,
        source="100G PSM4 MSA specification 2.0 (500 m)",
    ),
    "100g-dr1": ModuleType(
        lanes=1, parallel=False, tx_min_dbm=-2.9, tx_max_dbm=4.0, rx_min_dbm=-5.9, rx_max_dbm=4.0,
        source="IEEE 802.3 clause 140 (100GBASE-DR, 500 m)",
    ),
    "100g-fr1": ModuleType(
        lanes=1, parallel=False, tx_min_dbm=-3.1, tx_max_dbm=4.0, rx_min_dbm=-7.1, rx_max_dbm=4.5,
        source="IEEE 802.3cu clause 140 (100GBASE-FR1, 2 km)",
    ),
    "400g-dr4": ModuleType(
        lanes=4, parallel=True, tx_min_dbm=-2.9, tx_max_dbm=4.0, rx_min_dbm=-5.9, rx_max_dbm=4.0,
        source="IEEE 802.3 clause 124 (400GBASE-DR4, 500 m)", standard=ModuleStandard.CMIS,
    ),
    "400g-fr4": ModuleType(
        lanes=4, parallel=False, tx_min_dbm=-3.2, tx_max_dbm=3.5, rx_min_dbm=-7.2, rx_max_dbm=3.5,
        source="IEEE 802.3cu clause 151 (400GBASE-FR4, 2 km)", standard=ModuleStandard.CMIS,
    ),
    "800g-dr8": ModuleType(
        lanes=8, parallel=True, tx_min_dbm=-2.9, tx_max_dbm=4.0, rx_min_dbm=-5.9, rx_max_dbm=4.0,
        source="IEEE 802.3df clause 124 (800GBASE-DR8, 500 m)", standard=ModuleStandard.CMIS,
    ),
}  # fmt: skip
"""By the name that a testbed file writes under `module: {type: ...}`."""


LANES_MOST: Final = {ModuleStandard.SFF_8472: 1, ModuleStandard.SFF_8636: 4, ModuleStandard.CMIS: 32}
"""The most lanes that the layout has room for."""


def standard_of(entry: ModuleEntry, lanes: int) -> ModuleStandard:
    """The standard that the entry states, else that of its type; for a custom module a QSFP standard where its lanes
    fit.
    """
    if entry.memory is not None:
        return entry.memory
    if entry.type in MODULE_TYPES:
        return MODULE_TYPES[entry.type].standard
    return ModuleStandard.SFF_8636 if lanes <= LANES_MOST[ModuleStandard.SFF_8636] else ModuleStandard.CMIS
