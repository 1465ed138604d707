"""The module that NIC ports of tests have, with the values of a 100G LR4 (IEEE 802.3, 88.7)."""

from hwd.model.testbed import Module

LR4 = Module(
    type="100g-lr4",
    lanes=4,
    parallel=False,
    tx_min_dbm=-4.3,
    tx_max_dbm=4.5,
    rx_min_dbm=-10.6,
    rx_max_dbm=4.5,
    los_assert_dbm=-14.5,
    los_deassert_dbm=-13.0,
)
