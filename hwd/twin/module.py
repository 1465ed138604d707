"""The memory of a simulated NIC port's module, in the layout of its standard."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from hwd.model.testbed import Module, ModuleStandard
from hwd.twin.nic import Nic
from hwd_agents.sources.modules import cmis, sff8472, sff8636

VENDOR: Final = "hwd twin"
PART_CHARACTERS: Final = 16
"""The length of a part number in all three standards."""
THRESHOLD_MA, SLOPE_MW_MA = 15.0, 0.04
"""The figures of a DFB laser at 35 degrees: the threshold current, and the power in the fibre for each mA above it."""

_CMIS = lru_cache(maxsize=256)(cmis.build_memory)
_SFF_8472 = lru_cache(maxsize=256)(sff8472.build_memory)
_SFF_8636 = lru_cache(maxsize=256)(sff8636.build_memory)
"""The light of a twin changes seldom, and is read 200 times a second."""


def part_of(module: Module) -> str:
    """The part number in a twin's module: that of the testbed file, or the name of its type."""
    return (module.part or module.type)[:PART_CHARACTERS]


def module_memory(nic: Nic, tx_dbm: Sequence[float], *, serial: str) -> bytes:
    """The memory at a read; flags that the standard latches are cleared by it."""
    part, name = part_of(nic.module), serial[:PART_CHARACTERS]
    bias_ma = tuple(THRESHOLD_MA + 10 ** (power_dbm / 10) / SLOPE_MW_MA for power_dbm in tx_dbm)
    rx_dbm, sent_dbm = nic.lanes_dbm, tuple(tx_dbm)
    if nic.module.standard is ModuleStandard.SFF_8472:
        return _SFF_8472(
            vendor=VENDOR,
            part=part,
            serial=name,
            rx_power_dbm=rx_dbm[0],
            tx_power_dbm=sent_dbm[0],
            lost=nic.los[0],
            bias_ma=bias_ma[0],
        )
    build = _CMIS if nic.module.standard is ModuleStandard.CMIS else _SFF_8636
    return build(
        vendor=VENDOR,
        part=part,
        serial=name,
        rx_power_dbm=rx_dbm,
        tx_power_dbm=sent_dbm,
        rx_los=nic.take_latched_los(),
        bias_ma=bias_ma,
    )
