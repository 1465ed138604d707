"""Polatis optical switches (HUBER+SUHNER) over TL1."""

from hwd_drivers.polatis.models import driver

__all__ = ["driver"]
