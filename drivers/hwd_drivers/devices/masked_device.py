"""Masked device: a device whose errors and identity pass through a Mask, so that they hold no secret."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hwd_drivers.core.values import Identity
from hwd_drivers.devices.abilities import Device
from hwd_drivers.transports.mask import Mask


def masked(device: Device, mask: Mask) -> Device:
    """The device with the same abilities; its errors, its identity and the cause of its loss hold no secret."""
    found = _Masked(device, mask)
    assert isinstance(found, Device)
    return found


class _Masked:
    """Sets the wrapped methods on the instance, so that it has exactly the abilities of the device."""

    def __init__(self, device: Device, mask: Mask) -> None:
        self._device = device
        self.name = device.name
        for name in dir(device):
            if not name.startswith("_") and inspect.isroutine(getattr(type(device), name, None)):
                setattr(self, name, _wrapped(getattr(device, name), mask))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


def _wrapped(call: Callable[..., Any], mask: Mask) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(call):

        async def answered(*args: Any, **named: Any) -> Any:
            try:
                return _masked_result(await call(*args, **named), mask)
            except Exception as error:
                mask.error(error)
                raise

        return answered

    def called(*args: Any, **named: Any) -> Any:
        try:
            return _masked_result(call(*args, **named), mask)
        except Exception as error:
            mask.error(error)
            raise

    return called


def _masked_result(result: Any, mask: Mask) -> Any:
    if isinstance(result, Exception):
        mask.error(result)
    if isinstance(result, Identity):
        return replace(
            result,
            vendor=mask.text(result.vendor),
            model=mask.text(result.model),
            serial=mask.text(result.serial),
            firmware=mask.text(result.firmware),
        )
    return result
