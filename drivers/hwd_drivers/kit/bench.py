"""Bench: a switch for the conformance suite to check, on glass or on its twin."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hwd_drivers.kit.abilities import Device
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.dial import Dialer
from hwd_drivers.kit.documents import Document
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.registry import DriverSpec, OpenContext, Twin
from hwd_drivers.kit.rough import RoughDialer, Way
from hwd_drivers.kit.timing import SwitchTiming, find_timing
from hwd_drivers.kit.values import Crossconnect


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A switch to check. `crossconnects`: at least two that the checks may make and remove, no end in two of them. `twin`: None on glass."""

    open: Callable[[], Awaitable[Device]]
    crossconnects: tuple[Crossconnect, ...]
    twin: Twin | None = None


@asynccontextmanager
async def twin_bench(
    spec: DriverSpec,
    *,
    model: str,
    size: str | None,
    way: Way,
    dialer: Dialer,
    clock: Clock,
    draws: Draws,
    timing: SwitchTiming | None = None,
    address: str = "mem:",
) -> AsyncIterator[Bench]:
    """A bench with the driver's own twin behind `dialer`, reached by `way`."""
    capabilities = spec.capabilities(model, size)
    rough = RoughDialer(dialer, way, draws=draws)
    twin = spec.twin(
        name="bench",
        capabilities=capabilities,
        timing=timing or find_timing("polatis-opus"),
        draws=draws,
        clock=clock,
        dialer=rough,
        address=address,
        options={},
    )
    listening = await twin.start()
    context = OpenContext(
        name="bench",
        address=listening,
        dialer=rough,
        clock=clock,
        sink=_no_documents,
        user="bench",
        password="bench",
        options=spec.options(),
        capabilities=capabilities,
    )
    half = len(capabilities.ends) // 2
    pairs = zip(capabilities.ends[:half], capabilities.ends[half:], strict=False)
    crossconnects = tuple(Crossconnect.of(one, other) for one, other in pairs)[:4]
    try:
        yield Bench(open=lambda: spec.open(context), crossconnects=crossconnects, twin=twin)
    finally:
        await twin.close()


def _no_documents(document: Document) -> None:
    """The suite looks at the device itself."""
