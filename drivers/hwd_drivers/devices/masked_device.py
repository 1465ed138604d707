"""Masked device: a device whose errors and identity pass through a Mask, so that they hold no secret."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hwd_drivers.core.errors import BugError
from hwd_drivers.core.values import Identity
from hwd_drivers.devices.abilities import ABILITIES, Device, methods
from hwd_drivers.transports.mask import Mask


def masked(device: Device, mask: Mask) -> Device:
    """The device with the same abilities; its errors, its identity and the cause of its loss hold no secret.

    Raises BugError for what is no device.
    """
    found = _MaskedMethods(device, mask)
    if not isinstance(found, Device):
        missing = [name for name in methods(Device) if not hasattr(found, name)]
        raise BugError(f"{device.name}: its driver made a {type(device).__name__}, which has no {', '.join(missing)}")
    return found


class _MaskedMethods:
    """Sets the wrapped methods on the instance, so that it has exactly the abilities of the device.

    Also those that the device has from `__getattr__` or in its instance, as one around another device: from Python 3.12
    on `isinstance` of an ability asks no `__getattr__`.
    """

    def __init__(self, device: Device, mask: Mask) -> None:
        self._device = device
        self.name = device.name
        own = [name for name in dir(device) if inspect.isroutine(getattr(type(device), name, None))]
        for name in (*own, *(name for ability in ABILITIES for name in methods(ability) if hasattr(device, name))):
            if not name.startswith("_"):
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
