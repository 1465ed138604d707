"""Examine: runs the checks of the suite on a driver and its twin, one by one, in virtual time where the driver has no threads."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from hwd_drivers.kit.bench import Bench, twin_bench
from hwd_drivers.kit.beside import beside
from hwd_drivers.kit.clock import SystemClock
from hwd_drivers.kit.conformance import Check, ConformanceError
from hwd_drivers.kit.dial import MemoryDialer, TcpDialer
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.memory import MemoryNet
from hwd_drivers.kit.quality import Outcome, Quality, Result, cases, needed_for
from hwd_drivers.kit.registry import DriverSpec
from hwd_drivers.kit.rough import Way
from hwd_drivers.kit.virtual import VirtualClock, VirtualLoop, run_virtual

SEED: Final = 7
CHECK_S: Final = 900.0
"""Limit for one check, in virtual time; a check of 200 rounds that each end at their deadline needs 400 s."""
REAL_CHECK_S: Final = 120.0
"""Limit for one check of a driver that works in threads."""


def examine(spec: DriverSpec, *, up_to: Quality = Quality.PLATINUM) -> Iterator[Result]:
    """Each check of each model on each way, as they end; then what lies beside the code."""
    for model in spec.models:
        for way, check in cases(up_to=up_to):
            yield examine_one(spec, model, way, check)
    wanted = list(Quality)
    yield from (one for one in beside(spec) if wanted.index(one.needed_for) <= wanted.index(up_to))


def examine_one(spec: DriverSpec, model: str, way: Way, check: Check) -> Result:
    """One check on the driver's own twin, which lives for it alone."""

    async def main() -> tuple[Outcome, str, float]:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        outcome, text = await _outcome(lambda: _on_twin(spec, model, way, check))
        return outcome, text, loop.time() - started_s

    outcome, text, took_s = asyncio.run(main()) if spec.threads else run_virtual(main())
    return Result(
        driver=spec.name,
        model=model,
        check=name_of(check),
        way=way,
        needed_for=needed_for(check, way),
        outcome=outcome,
        text=text,
        took_s=took_s,
    )


async def examine_on(bench: Bench, driver: str, model: str, check: Check) -> Result:
    """One check on a bench that is there, such as one on glass."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    outcome, text = await _outcome(lambda: _within(REAL_CHECK_S, check, bench))
    return Result(
        driver=driver,
        model=model,
        check=name_of(check),
        way=bench.way,
        needed_for=needed_for(check, bench.way),
        outcome=outcome,
        text=text,
        took_s=loop.time() - started_s,
    )


def name_of(check: Check) -> str:
    return check.__name__.removeprefix("check_")


async def _on_twin(spec: DriverSpec, model: str, way: Way, check: Check) -> str | None:
    loop = asyncio.get_running_loop()
    virtual = isinstance(loop, VirtualLoop)
    async with twin_bench(
        spec,
        model=model,
        size=spec.sizes.get(model),
        way=way,
        dialer=MemoryDialer(MemoryNet()) if virtual else TcpDialer(),
        clock=VirtualClock(loop, wall_start_ns=0) if isinstance(loop, VirtualLoop) else SystemClock(),
        draws=Draws(SEED),
        address="mem:" if virtual else "127.0.0.1:0",
    ) as bench:
        return await _within(CHECK_S if virtual else REAL_CHECK_S, check, bench)


async def _within(limit_s: float, check: Check, bench: Bench) -> str | None:
    try:
        async with asyncio.timeout(limit_s):
            return await check(bench)
    except TimeoutError:
        raise ConformanceError(f"conformance: not through within {limit_s:g} s") from None


async def _outcome(work: Callable[[], Awaitable[str | None]]) -> tuple[Outcome, str]:
    try:
        why = await work()
    except Exception as error:  # noqa: BLE001 - a driver that is checked may raise anything: that is the finding
        words = str(error) if isinstance(error, ConformanceError) else f"{type(error).__name__}: {error}"
        return Outcome.FAILED, words.removeprefix("conformance: ")
    return (Outcome.PASSED, "") if why is None else (Outcome.NOT_APPLICABLE, why)
