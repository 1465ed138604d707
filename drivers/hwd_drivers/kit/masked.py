"""A session with a device whose words go through a Mask: what its methods raise and tell, and the way its connections take."""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hwd_drivers.kit.abilities import Device
from hwd_drivers.kit.dial import Dialer, Listener, ProtoT
from hwd_drivers.kit.mask import Mask
from hwd_drivers.kit.values import Identity


class MaskedDialer:
    """A dialer that knows the secrets of what is dialled, for those that log what came."""

    def __init__(self, inner: Dialer, mask: Mask) -> None:
        self.mask = mask
        self._inner = inner

    async def connect(self, factory: Callable[[], ProtoT], address: str) -> tuple[asyncio.Transport, ProtoT]:
        return await self._inner.connect(factory, address)

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        return await self._inner.listen(factory, address)


def mask_of(dialer: object) -> Mask:
    """The mask that goes with a dialer, or with the one beneath it; one without secrets where there is none."""
    mask = getattr(dialer, "mask", None)
    return mask if isinstance(mask, Mask) else Mask()


def masked(device: Device, mask: Mask) -> Device:
    """The device, with all its abilities and no others; what its methods raise, its identity and the cause of its loss have no secret in them."""
    found = _Masked(device, mask)
    assert isinstance(found, Device)
    return found


class _Masked:
    """Methods stand in the instance, so that it has the abilities that the device has; the rest is asked of the device itself."""

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
