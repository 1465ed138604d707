"""Calient S-series optical circuit switches over TL1 and over REST."""

from hwd_drivers.calient.models import rest_driver, tl1_driver

__all__ = ["rest_driver", "tl1_driver"]
