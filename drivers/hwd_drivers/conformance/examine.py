"""Examine: runs the checks of the suite on a driver and its twin; in virtual time where the driver has no threads."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from hwd_drivers.conformance import Check, ConformanceError
from hwd_drivers.conformance.bench import Bench, TwinUnderTest, bench_of
from hwd_drivers.conformance.driver_files import file_results
from hwd_drivers.conformance.quality import Outcome, Quality, Result, cases, needed_for
from hwd_drivers.conformance.suite import why_not
from hwd_drivers.conformance.uncaught_errors import collect_uncaught, what_and_where
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices.registry import DriverSpec
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.transports.rough import Way
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

CHECK_S: Final = 900.0
"""Limit for one check, in virtual time; a check of 200 rounds that each end at their deadline needs 400 s."""
AT_ONCE: Final = 16
"""Checks that run at the same time in real time: all of NETCONF's take 7 s of a core."""
REAL_CHECK_S: Final = 180.0
"""Limit for one check of a driver that works in threads."""


def examine(
    spec: DriverSpec, *, up_to: Quality = Quality.PLATINUM, on: Sequence[TwinUnderTest] | None = None
) -> Iterator[Result]:
    """Yield the result of each check, for each model or these twins on each kind of connection; then those of files."""
    twins = [TwinUnderTest.of(spec, model) for model in spec.models] if on is None else on
    wanted = [(twin, way, check) for twin in twins for way, check in cases(up_to=up_to)]
    printed: set[str] = set()
    if spec.threads:
        yield from _in_real_time(wanted, printed)
    else:
        yield from (run_virtual(_examined(*each, printed)) for each in wanted)
    known = list(Quality)
    yield from (one for one in file_results(spec) if known.index(one.needed_for) <= known.index(up_to))


def examine_one(spec: DriverSpec, model: str, way: Way, check: Check) -> Result:
    """Run one check on a twin of the driver that is made for it only."""
    main = _examined(TwinUnderTest.of(spec, model), way, check, set())
    return asyncio.run(main) if spec.threads else run_virtual(main)


def _in_real_time(wanted: Sequence[tuple[TwinUnderTest, Way, Check]], printed: set[str]) -> Iterator[Result]:
    """Yield results as checks end. Many run at once; those on rough ways are longest and start first."""

    async def begin() -> tuple[list[asyncio.Task[None]], asyncio.Queue[Result]]:
        ended: asyncio.Queue[Result] = asyncio.Queue()
        room = asyncio.Semaphore(AT_ONCE)

        async def one(twin: TwinUnderTest, way: Way, check: Check) -> None:
            async with room:
                await ended.put(await _examined(twin, way, check, printed))

        return [
            asyncio.create_task(one(*each), name=f"hwd:bench/{each[2].__name__}") for each in reversed(wanted)
        ], ended

    with asyncio.Runner() as runner:
        tasks, ended = runner.run(begin())
        for _ in tasks:
            yield runner.run(ended.get())
        runner.run(_all(tasks))


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)


async def _examined(twin: TwinUnderTest, way: Way, check: Check, printed: set[str]) -> Result:
    return await _result(twin.spec.name, twin.model, way, check, lambda: _on_twin(twin, way, check), printed)


async def examine_on(bench: Bench, driver: str, model: str, check: Check) -> Result:
    """Run one check on an existing bench, such as a real unit."""
    return await _result(driver, model, bench.way, check, lambda: _within(REAL_CHECK_S, check, bench), set())


def name_of(check: Check) -> str:
    return check.__name__.removeprefix("check_")


async def _on_twin(twin: TwinUnderTest, way: Way, check: Check) -> str | None:
    loop = asyncio.get_running_loop()
    virtual = isinstance(loop, VirtualLoop)
    async with bench_of(
        twin,
        way=way,
        dialer=MemoryDialer(MemoryNet()) if virtual else TcpDialer(),
        clock=VirtualClock(loop, wall_start_ns=0) if isinstance(loop, VirtualLoop) else SystemClock(),
        draws=Draws(twin.seed),
        address="mem:" if virtual else "127.0.0.1:0",
    ) as bench:
        return await _within(CHECK_S if virtual else REAL_CHECK_S, check, bench)


async def _within(limit_s: float, check: Check, bench: Bench) -> str | None:
    try:
        async with asyncio.timeout(limit_s):
            return why_not(check, bench) or await check(bench)
    except TimeoutError:
        raise ConformanceError(f"conformance: not through within {limit_s:g} s") from None


async def _result(
    driver: str, model: str, way: Way, check: Check, work: Callable[[], Awaitable[str | None]], printed: set[str]
) -> Result:
    """Run `work`; an uncaught exception in driver or twin is a failure. `printed`: those that were printed already."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    with collect_uncaught(printed) as errors:
        try:
            why = await work()
            outcome, text = (Outcome.PASSED, "") if why is None else (Outcome.NOT_APPLICABLE, why)
        except Exception as error:  # noqa: BLE001 - a driver that is checked may raise anything: that is the finding
            if isinstance(error, ConformanceError):
                words = str(error)
            else:
                words = f"{type(error).__name__}: {error}" if str(error) else what_and_where(error)
            outcome, text = Outcome.FAILED, words.removeprefix("conformance: ")
    if errors.counts:
        outcome, text = Outcome.FAILED, f"{text}; {errors}" if text else str(errors)
    return Result(
        driver=driver,
        model=model,
        check=name_of(check),
        way=way,
        needed_for=needed_for(check, way),
        outcome=outcome,
        text=text,
        took_s=loop.time() - started_s,
    )
