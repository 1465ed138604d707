"""Lumen 1xN switches: a made-up part on a serial line, to start a driver from."""

from .part import driver

__all__ = ["driver"]
