"""Bench: a switch for the conformance suite to check, on glass or on its twin."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Self

from pydantic import BaseModel

from hwd_drivers.conformance.answer_tap import TappedDialer
from hwd_drivers.conformance.arrangements import Arrangements
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.registry import DriverSpec, OpenContext, open_device
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.rough import RoughDialer, Way
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.registry import Twin, twin_of
from hwd_drivers.twins.timing import SwitchTiming, find_timing

GRACE_S: Final = 0.2
"""How much later than its deadline an exchange may fail, in virtual time."""
REAL_GRACE_S: Final = 1.0
"""How much later an exchange may fail where threads run, on a machine that does other things too."""

SEED: Final = 7
LOGIN: Final = "bench"
"""Default user and password; a twin without configured ones accepts any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinUnderTest:
    """A driver and the twin that it is checked on. `options` are the driver's, `twin_options` those of the twin."""

    spec: DriverSpec
    model: str
    capabilities: Capabilities
    options: BaseModel
    timing: SwitchTiming = field(default_factory=lambda: find_timing("polatis-opus"))
    seed: int = SEED
    twin_options: Mapping[str, Json] = field(default_factory=dict)
    user: str = LOGIN
    password: str = field(default=LOGIN, repr=False)

    @classmethod
    def of(cls, spec: DriverSpec, model: str) -> Self:
        """A model at the size that its driver is checked with, and defaults for the rest."""
        return cls(
            spec=spec, model=model, capabilities=spec.capabilities(model, spec.sizes.get(model)), options=spec.options()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A switch to check.

    `arrangements`: the crossconnects that the checks may use. `twin`: None on glass. `denial`: a refusal of its twin;
    None where the protocol has none. `tap`: holds back answers of the twin, or replaces them. `blind`: the device
    cannot be asked for its state. `grace_s`: how much later than its deadline an exchange may fail.
    """

    open: Callable[[], Awaitable[Device]]
    capabilities: Capabilities
    arrangements: Arrangements
    clock: Clock
    way: Way = Way.WHOLE
    twin: Twin | None = None
    denial: Denial | None = None
    tap: TappedDialer | None = None
    blind: bool = False
    grace_s: float = GRACE_S


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
    options: Mapping[str, Json] | None = None,
) -> AsyncIterator[Bench]:
    """A bench with the driver's own twin behind `dialer`, reached by `way`; `options` are those of the twin."""
    simulated = TwinUnderTest(
        spec=spec,
        model=model,
        capabilities=spec.capabilities(model, size),
        options=spec.options(),
        timing=timing or find_timing("polatis-opus"),
        twin_options=options or {},
    )
    async with bench_of(simulated, way=way, dialer=dialer, clock=clock, draws=draws, address=address) as bench:
        yield bench


@asynccontextmanager
async def bench_of(
    simulated: TwinUnderTest, *, way: Way, dialer: Dialer, clock: Clock, draws: Draws, address: str = "mem:"
) -> AsyncIterator[Bench]:
    """A bench with this twin behind `dialer`, reached by `way`."""
    spec, capabilities = simulated.spec, simulated.capabilities
    rough = RoughDialer(dialer, way, draws=draws)
    declared = twin_of(spec)
    twin = declared.make(
        name="bench",
        capabilities=capabilities,
        timing=simulated.timing,
        draws=draws,
        clock=clock,
        dialer=rough,
        address=address,
        options=simulated.twin_options,
    )
    listening = await twin.start()
    tap = TappedDialer(rough)
    context = OpenContext(
        name="bench",
        address=listening,
        dialer=tap,
        clock=clock,
        sink=_no_documents,
        user=simulated.user,
        password=simulated.password,
        options=simulated.options,
        capabilities=capabilities,
    )
    try:
        yield Bench(
            open=lambda: open_device(spec, context),
            capabilities=capabilities,
            arrangements=Arrangements.of(capabilities),
            clock=clock,
            way=way,
            twin=twin,
            denial=declared.denial,
            tap=tap,
            blind=spec.blind,
            grace_s=REAL_GRACE_S if spec.threads else GRACE_S,
        )
    finally:
        await twin.close()


def _no_documents(document: Document) -> None:
    """Discard documents: the suite reads the device itself."""
