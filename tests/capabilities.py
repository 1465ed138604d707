"""Capabilities of switches as tests make them up."""

from collections.abc import Iterable
from typing import Any

from hwd_drivers.core.values import Capabilities, PortSide, Side


def capabilities(ends: Iterable[PortSide], **more: Any) -> Capabilities:
    """Of a switch that keeps its light, moves ends in use, and loses 1 to 1.5 dB."""
    usual = {"latching": True, "atomic_batches": True, "moves_in_use": True, "settle_s": 0.05}
    losses = {"loss_db_typical": 1.0, "loss_db_max": 1.5}
    return Capabilities(ends=tuple(ends), **{"two_sided": True, "reciprocal": False, **usual, **losses, **more})


def both_sides(ports: int) -> tuple[PortSide, ...]:
    return tuple(PortSide(port=str(port), side=side) for side in (Side.A, Side.B) for port in range(1, ports + 1))
