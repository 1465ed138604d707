"""Clock alignment by UDP, on an idle and a busy machine, and over the broker, against known offsets of clocks."""

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from bench.agents.carriers import EVENT_WITHIN_S, Daemon, Ports
from bench.broker import mosquitto
from bench.child import child
from bench.measure import Bar, Summary
from bench.progress import Progress
from hwd_drivers.core.errors import BugError

DRIFT_PPM = 50.0
OFFSETS_S = {"h0": 5.0, "h1": -5.0}
ERROR_LIMIT_US, WITHIN_LIMIT_PERCENT = 100.0, 99.0
SPACING_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """An agent's clock and the machine's clock at one moment. The drift is exact: all other times follow from it."""

    agent_ns: int
    machine_ns: int

    def of(self, agent_ns: int) -> float:
        """The machine's clock when the agent's showed `agent_ns`."""
        return self.machine_ns + (agent_ns - self.agent_ns) / (1 + DRIFT_PPM * 1e-6)


@dataclass(slots=True)
class Found:
    """Results of one phase, one entry per event; times in us."""

    errors: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    true: list[bool] = field(default_factory=list)
    """The true time of the stamp is within the error that was stated for the clock."""
    early: list[bool] = field(default_factory=list)
    """The call that set the carrier had returned before the stated interval began."""
    partly: list[bool] = field(default_factory=list)
    """The call that set the carrier had begun before the stated interval: the carrier may have changed before or in the
    interval.
    """
    late: list[bool] = field(default_factory=list)
    """The agent's stamp, which is made after the change, is later than the end of the stated interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase; `busy`: processes that use all CPU time. `limited`: the carrier change has a limit too, not only the
    clock.

    Over the broker the error depends on the load, and has no limit; its bound must be true there too.
    """

    name: str
    by_udp: bool
    busy: int
    limited: bool


CORES = os.cpu_count() or 1
PHASES = (
    Phase(name="by UDP", by_udp=True, busy=0, limited=True),
    Phase(name=f"by UDP, {2 * CORES} busy processes beside", by_udp=True, busy=2 * CORES, limited=False),
    Phase(name="over the broker", by_udp=False, busy=0, limited=False),
)


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 30 if quick else 600
    bars = []
    for number, phase in enumerate(PHASES):
        place = folder / str(number)
        place.mkdir()
        progress.say(f"clock: {rounds} flaps on hosts 5 s off and {DRIFT_PPM:g} ppm fast, asked {phase.name}")
        bars += _bars(phase, await _flap(place, phase, rounds))
    return bars


async def _flap(folder: Path, phase: Phase, rounds: int) -> Found:
    found = Found()
    async with contextlib.AsyncExitStack() as stack:
        ports = await stack.enter_async_context(Ports.open(list(OFFSETS_S), folder))
        url = f"mqtt://127.0.0.1:{await stack.enter_async_context(mosquitto(folder))}"
        daemon = await stack.enter_async_context(Daemon.run(url, list(OFFSETS_S)))
        truths: dict[str, Truth] = {}
        for host, offset_s in OFFSETS_S.items():
            config = ports.config(host, broker=url, folder=folder, clock_by_udp=phase.by_udp)
            agent = await stack.enter_async_context(
                child("bench.processes.agent", str(config), str(offset_s), str(DRIFT_PPM))
            )
            agent_ns, machine_ns = map(int, (await agent.hear()).split())
            truths[host] = Truth(agent_ns=agent_ns, machine_ns=machine_ns)
        await daemon.aligned()
        for _ in range(phase.busy):
            await stack.enter_async_context(child("bench.processes.busy"))
        for _ in range(rounds):
            await asyncio.sleep(SPACING_S)
            expected = daemon.expect(ports.upcoming)
            port, _, bracket = ports.flap()
            _, document = await asyncio.wait_for(expected, EVENT_WITHIN_S)
            data = {key: int(str(document.fact.to_data()[key])) for key in ("best_ns", "earliest_ns", "latest_ns")}
            stamped_ns = truths[port.partition(".")[0]].of(int(str(document.fact.to_data()["agent_ns"])))
            error_ns, stated_ns = data["best_ns"] - stamped_ns, data["latest_ns"] - data["best_ns"]
            found.errors.append(error_ns / 1e3)
            found.bounds.append(stated_ns / 1e3)
            found.true.append(abs(error_ns) <= stated_ns)
            found.delays.append((stamped_ns - bracket.before_ns) / 1e3)
            found.early.append(bracket.after_ns < data["earliest_ns"])
            found.partly.append(bracket.before_ns < data["earliest_ns"] <= bracket.after_ns)
            found.late.append(stamped_ns > data["latest_ns"])
        ways = {str(view.exchange and view.exchange.via) for view in daemon.gateway.hosts().values()}
        if ways != {"udp" if phase.by_udp else "broker"}:
            raise BugError(f"clock: the agents were asked by {' and '.join(sorted(ways))}, and not {phase.name}")
    return found


def _bars(phase: Phase, found: Found) -> list[Bar]:
    error = Summary.of([abs(error) for error in found.errors])
    signed, delay, bound = Summary.of(found.errors), Summary.of(found.delays), Summary.of(found.bounds)
    outside = sum(early or late for early, late in zip(found.early, found.late, strict=True))
    detail = {
        "error_us": error.to_data(),
        "signed_error_us": signed.to_data(),
        "set_to_stamp_us": delay.to_data(),
        "stated_error_us": bound.to_data(),
    }
    return [
        Bar(
            name=f"clock error p99, asked {phase.name}",
            value=error.p99,
            limit=ERROR_LIMIT_US if phase.by_udp else None,
            unit="us",
            spread=f"median {error.median:.2f}, max {error.max:.2f}; stated +-{bound.median:.1f} (p99 {bound.p99:.1f})",
            n=error.n,
            detail=detail,
        ),
        Bar(
            name=f"true time of a stamp within its stated clock error, asked {phase.name}",
            value=100 * sum(found.true) / error.n,
            limit=WITHIN_LIMIT_PERCENT,
            unit="%",
            spread=f"{error.n - sum(found.true)} outside",
            n=error.n,
            at_least=True,
        ),
        Bar(
            name=f"capture delay (carrier set to stamp) p99, {phase.name}",
            value=delay.p99,
            limit=None,
            unit="us",
            spread=(
                f"median {delay.median:.0f}, quartiles {delay.p25:.0f}-{delay.p75:.0f}, max {delay.max:.0f} us; "
                "none of it is the clock's"
            ),
            n=delay.n,
        ),
        Bar(
            name=f"carrier change within its stated interval, {phase.name}",
            value=100 * (1 - outside / error.n),
            limit=WITHIN_LIMIT_PERCENT if phase.limited else None,
            unit="%",
            spread=f"{sum(found.early)} before it, {sum(found.late)} after it, {sum(found.partly)} set on its edge",
            n=error.n,
            at_least=True,
        ),
    ]
