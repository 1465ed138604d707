"""Plans of many pairs over eight switches, in which all move, with the prediction of their time; and in steps."""

import itertools
import time
from pathlib import Path

from bench.measure import Bar, Summary, alternate
from bench.progress import Progress
from hwd.daemon.installed_drivers import load_text
from hwd.fabric.fabric import Fabric
from hwd.model.bodies import PlanBody
from hwd.model.link import SwitchCrossconnect
from hwd.model.plan import Plan
from hwd.model.request import Request, WantedState
from hwd.model.testbed import Testbed
from hwd.reconfigure.plans.device_times import REMEMBERED, DeviceTimes
from hwd.reconfigure.plans.planner import Planner
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortSide, Side

SWITCHES = 8
PAIRS = (128, 512, 1024)
LIMITED, LIMIT_MS = 512, 20.0


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 10 if quick else 100
    bars: list[Bar] = []
    for pairs, steps in itertools.product(PAIRS, (False, True)):
        turns = max(2, rounds // 20) if steps else rounds
        progress.say(f"plan: {pairs} pairs{' in steps' if steps else ''}, {turns} turns")
        rack = _Rack(hosts=pairs // SWITCHES)

        async def once(rack: _Rack = rack, steps: bool = steps) -> float:
            began_s = time.perf_counter()
            plan = rack.plan(steps=steps)
            took_s = time.perf_counter() - began_s
            assert sum(len(move.add) for move in plan.moves) == rack.pairs
            assert plan.prediction is not None
            return took_s

        (took_s,) = await alternate(turns, once)
        took = Summary.of([second * 1e3 for second in took_s])
        order = rack.plan(steps=True).order if steps else None
        what = "" if order is None else f"; {order}"
        bars.append(
            Bar(
                name=f"plan of {pairs} pairs over {SWITCHES} switches{', in steps' if steps else ''}",
                value=took.median,
                limit=LIMIT_MS if pairs == LIMITED and not steps else None,
                unit="ms",
                spread=f"quartiles {took.p25:.1f}-{took.p75:.1f}, max {took.max:.1f}{what}",
                n=took.n,
                detail={"ours_ms": took.to_data()},
            )
        )
    return bars


class _Rack:
    """Hosts with a NIC on each switch, in pairs of neighbours; each pair of pairs is to swap its partners."""

    def __init__(self, *, hosts: int) -> None:
        self.pairs = hosts * SWITCHES
        self.testbed: Testbed = load_text(_testbed(hosts), file="testbed.yaml").require()
        device_times = DeviceTimes()
        switches = [f"ocs{number}" for number in range(SWITCHES)]
        for switch, turn in itertools.product(switches, range(REMEMBERED)):
            device_times.add((switch, ()), 0.020 + turn % 17 / 1000)
        for host, (rail, switch), turn in itertools.product(range(hosts), enumerate(switches), range(REMEMBERED)):
            device_times.add((f"h{host}.eth{rail}", (switch,)), 2.0 + (turn * 7919 + host) % 997 / 1000)
        self._planner = Planner(
            Fabric(self.testbed), lambda switches, links: (0.0, "nobody"), device_times=device_times
        )
        self._observed = {
            switch: tuple(
                CrossconnectReading(crossconnect=_crossconnect(one, one ^ 1), state=CrossconnectState.TUNED)
                for one in range(hosts)
            )
            for switch in switches
        }
        crossconnects = tuple(
            SwitchCrossconnect(switch=switch, crossconnect=_crossconnect(one, one ^ 2))
            for switch in switches
            for one in range(hosts)
        )
        self._wanted = WantedState(name="swapped", crossconnects=crossconnects)

    def plan(self, *, steps: bool) -> Plan:
        body = PlanBody(steps=steps, ready_within_s=20.0)
        return self._planner.plan_at_once(
            self._planner.router.route(Request(wanted=self._wanted, body=body)), self._observed
        )


def _crossconnect(one: int, other: int) -> Crossconnect:
    return Crossconnect(a=PortSide(port=str(one + 1), side=Side.A), b=PortSide(port=str(other + 1), side=Side.B))


def _testbed(hosts: int) -> str:
    switches = "\n".join(
        f"  ocs{number}: {{driver: polatis-tl1, model: polatis-6000, size: {hosts}x{hosts}, twin: {{}}}}"
        for number in range(SWITCHES)
    )
    nics = "\n".join(f"      eth{rail}: {{rail: {rail}, module: 100g-lr4}}" for rail in range(SWITCHES))
    named = "\n".join(f"  h{host}:\n    nics:\n{nics}" for host in range(hosts))
    fibres = "\n".join(
        f"  - h{host}.eth{rail} <-> ocs{rail}.{host + 1}" for host in range(hosts) for rail in range(SWITCHES)
    )
    return f"testbed: plan\nswitches:\n{switches}\nhosts:\n{named}\nfibres:\n{fibres}\n"
