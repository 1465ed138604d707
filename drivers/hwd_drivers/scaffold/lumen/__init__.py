"""Lumen switches: a made-up device that speaks a line protocol, to start a driver from."""

from .models import driver

__all__ = ["driver"]
