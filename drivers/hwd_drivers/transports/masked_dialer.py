"""MaskedDialer: a dialer that carries the secrets of a device, which must not be logged."""

import asyncio
from collections.abc import Callable

from hwd_drivers.transports.dial import Dialer, Listener, ProtoT
from hwd_drivers.transports.mask import Mask


class MaskedDialer:
    """A dialer with the mask for all code that logs received bytes."""

    def __init__(self, inner: Dialer, mask: Mask) -> None:
        self.mask = mask
        self._inner = inner

    async def connect(self, factory: Callable[[], ProtoT], address: str) -> tuple[asyncio.Transport, ProtoT]:
        return await self._inner.connect(factory, address)

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        return await self._inner.listen(factory, address)


def mask_of(dialer: object) -> Mask:
    """The mask of a dialer, or of the dialer inside it; an empty mask where there is none."""
    mask = getattr(dialer, "mask", None)
    return mask if isinstance(mask, Mask) else Mask()
