"""What the memory of a simulated NIC port's module shows, in the layout of the standard that it follows."""

from collections.abc import Sequence
from typing import Final

from hwd.model.testbed import Module, ModuleStandard
from hwd.twin.nic import Nic
from hwd_agents.sources.modules import cmis, sff8472, sff8636

VENDOR: Final = "hwd twin"
PART_CHARACTERS: Final = 16
"""A part number is as long in all three standards."""
THRESHOLD_MA, SLOPE_MW_MA = 15.0, 0.04
"""Of a DFB laser at 35 degrees: the current at which it begins to shine, and the power in the fibre for each mA beyond it."""


def part_of(module: Module) -> str:
    """The part number that a twin's module shows: that of the testbed file, or the name of its type."""
    return (module.part or module.type)[:PART_CHARACTERS]


def module_memory(nic: Nic, tx_dbm: Sequence[float], *, serial: str) -> bytes:
    """As it is read now; flags that the standard latches are cleared by it."""
    part, name = part_of(nic.module), serial[:PART_CHARACTERS]
    bias_ma = tuple(THRESHOLD_MA + 10 ** (power_dbm / 10) / SLOPE_MW_MA for power_dbm in tx_dbm)
    rx_dbm, sent_dbm = nic.lanes_dbm, tuple(tx_dbm)
    if nic.module.standard is ModuleStandard.SFF_8472:
        return sff8472.build_memory(
            vendor=VENDOR,
            part=part,
            serial=name,
            rx_power_dbm=rx_dbm[0],
            tx_power_dbm=sent_dbm[0],
            lost=nic.los[0],
            bias_ma=bias_ma[0],
        )
    build = cmis.build_memory if nic.module.standard is ModuleStandard.CMIS else sff8636.build_memory
    return build(
        vendor=VENDOR,
        part=part,
        serial=name,
        rx_power_dbm=rx_dbm,
        tx_power_dbm=sent_dbm,
        rx_los=nic.take_latched_los(),
        bias_ma=bias_ma,
    )
