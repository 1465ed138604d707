"""Clock alignment through the broker: what events of agents with moved clocks are put at, against the truth."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from bench.broker import mosquitto
from bench.carriers import EVENT_WITHIN_S, Daemon, Ports
from bench.child import child
from bench.measure import Bar, Summary
from bench.progress import Progress

DRIFT_PPM = 50.0
OFFSETS_S = {"h0": 5.0, "h1": -5.0}
ERROR_LIMIT_US, WITHIN_LIMIT_PERCENT = 100.0, 99.0
SPACING_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """A time of an agent's clock and the machine's at that moment: its drift is exact, so all others follow."""

    agent_ns: int
    machine_ns: int

    def of(self, agent_ns: int) -> float:
        """The machine's clock when the agent's showed `agent_ns`."""
        return self.machine_ns + (agent_ns - self.agent_ns) / (1 + DRIFT_PPM * 1e-6)


@dataclass(slots=True)
class Found:
    """One entry an event, in us."""

    errors: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    early: list[bool] = field(default_factory=list)
    """The call that set the carrier had returned before the stated interval began."""
    partly: list[bool] = field(default_factory=list)
    """That call had begun before the stated interval began: the carrier may have changed before it, or in it."""
    late: list[bool] = field(default_factory=list)
    """The agent's stamp, which comes after the change, comes after the stated interval ended."""


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 100 if quick else 600
    found = Found()
    async with contextlib.AsyncExitStack() as stack:
        ports = await stack.enter_async_context(Ports.open(list(OFFSETS_S), folder))
        url = f"mqtt://127.0.0.1:{await stack.enter_async_context(mosquitto(folder))}"
        daemon = await stack.enter_async_context(Daemon.run(url, list(OFFSETS_S)))
        truths: dict[str, Truth] = {}
        for host, offset_s in OFFSETS_S.items():
            config = ports.config(host, broker=url, folder=folder)
            agent = await stack.enter_async_context(
                child("bench.processes.agent", str(config), str(offset_s), str(DRIFT_PPM))
            )
            agent_ns, machine_ns = map(int, (await agent.hear()).split())
            truths[host] = Truth(agent_ns=agent_ns, machine_ns=machine_ns)
        await daemon.aligned()
        progress.say(f"clock: {rounds} flaps on hosts 5 s off and {DRIFT_PPM:g} ppm fast")
        for _ in range(rounds):
            await asyncio.sleep(SPACING_S)
            expected = daemon.expect(ports.upcoming)
            port, _, bracket = ports.flap()
            _, document = await asyncio.wait_for(expected, EVENT_WITHIN_S)
            data = {key: float(str(document.data[key])) for key in ("best_ns", "earliest_ns", "latest_ns")}
            stamped_ns = truths[port.partition(".")[0]].of(int(str(document.data["agent_ns"])))
            found.errors.append((data["best_ns"] - stamped_ns) / 1e3)
            found.delays.append((stamped_ns - bracket.before_ns) / 1e3)
            found.bounds.append((data["latest_ns"] - data["best_ns"]) / 1e3)
            found.early.append(bracket.after_ns < data["earliest_ns"])
            found.partly.append(bracket.before_ns < data["earliest_ns"] <= bracket.after_ns)
            found.late.append(stamped_ns > data["latest_ns"])
    return _bars(found)


def _bars(found: Found) -> list[Bar]:
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
            name="clock error p99",
            value=error.p99,
            limit=ERROR_LIMIT_US,
            unit="us",
            spread=f"median {error.median:.0f}, max {error.max:.0f}; stated +-{bound.median:.0f} (p99 {bound.p99:.0f}); set to stamp {delay.median:.0f} us",
            n=error.n,
            detail=detail,
        ),
        Bar(
            name="truth within the stated bound",
            value=100 * (1 - outside / error.n),
            limit=WITHIN_LIMIT_PERCENT,
            unit="%",
            spread=f"{sum(found.early)} before it, {sum(found.late)} after it, {sum(found.partly)} set on its edge",
            n=error.n,
            at_least=True,
        ),
    ]
