"""Plans of one link in racks of 1x4 and 2x2 switches, half of each kind: how they grow with the rack."""

import time
from dataclasses import replace
from pathlib import Path

from bench.measure import Bar, Summary, alternate
from bench.progress import Progress
from hwd.daemon.installed_drivers import load_text
from hwd.fabric.fabric import Fabric
from hwd.model.bodies import PlanBody
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plan import Plan
from hwd.model.request import Request, WantedState
from hwd.model.testbed import Host, Strand, Testbed
from hwd.reconfigure.plans.planner import Planner
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, FibreEnd

SWITCHES = (128, 1024, 8192, 65_536)
QUICK = (128, 1024)
LIMITED, LIMIT_MS = 8192, 2.0
OF_A_PAIR = 8
"""Switches that join two NIC ports: a 1x4 at each transmitter and receiver, and two ways of a 2x2 each for each
direction.
"""


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    bars: list[Bar] = []
    for switches in QUICK if quick else SWITCHES:
        progress.say(f"plan of one link: a rack of {switches} switches is made")
        rack = _Rack(switches // OF_A_PAIR)
        turns = 10 if quick else 100
        progress.say(f"plan of one link: {switches} switches, {turns} turns")

        async def once(rack: _Rack = rack) -> float:
            rack.turn += 1
            observed = rack.observed()
            began_s = time.perf_counter()
            plan = rack.plan(observed)
            took_s = time.perf_counter() - began_s
            assert [move.switch[0] for move in plan.moves if move.add] == ["x", "y"]
            return took_s

        await once()
        (took_s,) = await alternate(turns, once)
        took = Summary.of([second * 1e3 for second in took_s])
        bars.append(
            Bar(
                name=f"plan of one link in a rack of {switches} switches of 1x4 and 2x2",
                value=took.median,
                limit=LIMIT_MS if switches == LIMITED else None,
                unit="ms",
                spread=f"quartiles {took.p25:.2f}-{took.p75:.2f}, max {took.max:.1f}; the first {rack.first_ms:.0f}",
                n=took.n,
                detail={"ours_ms": took.to_data()},
            )
        )
    return bars


class _Rack:
    """Pairs of NIC ports, all joined but one, which is another one at each turn."""

    def __init__(self, pairs: int) -> None:
        self.pairs, self.turn = pairs, 0
        testbed = testbed_of(pairs)
        self._planner = Planner(Fabric(testbed), lambda switches, links: (0.0, "nobody"))
        self._all = {name: STATES[switch.capabilities.two_sided] for name, switch in testbed.switches.items()}
        began_s = time.perf_counter()
        self.plan(self.observed())
        self.first_ms = (time.perf_counter() - began_s) * 1e3

    def observed(self) -> dict[str, tuple[CrossconnectReading, ...]]:
        number = self.turn % self.pairs
        return {**self._all, f"x{number}": CROSSED, f"y{number}": CROSSED}

    def plan(self, observed: dict[str, tuple[CrossconnectReading, ...]]) -> Plan:
        number = self.turn % self.pairs
        link = Link.parse(f"p{number}.eth0<->q{number}.eth0")
        request = Request(wanted=WantedState(name="one", links=(link,)), body=PlanBody(ready_within_s=20.0))
        return self._planner.plan_at_once(self._planner.router.route(request), observed)


def _read(*pairs: str) -> tuple[CrossconnectReading, ...]:
    return tuple(
        CrossconnectReading(crossconnect=Crossconnect.parse(pair), state=CrossconnectState.TUNED) for pair in pairs
    )


CROSSED = _read("1A-2B", "2A-1B")
STATES = {False: _read("in-1"), True: _read("1A-1B", "2A-2B")}
"""By whether a switch has two sides."""


PAIR = """testbed: elements
switches:
  tp0: {driver: osw, model: osw, size: 1x4, twin: {}}
  tq0: {driver: osw, model: osw, size: 1x4, twin: {}}
  rp0: {driver: osw, model: osw, size: 1x4, twin: {}}
  rq0: {driver: osw, model: osw, size: 1x4, twin: {}}
  x0: {driver: osw, model: osw, size: 2x2, twin: {}}
  y0: {driver: osw, model: osw, size: 2x2, twin: {}}
  u0: {driver: osw, model: osw, size: 2x2, twin: {}}
  v0: {driver: osw, model: osw, size: 2x2, twin: {}}
hosts:
  p0: {nics: {eth0: {module: 100g-lr4}}}
  q0: {nics: {eth0: {module: 100g-lr4}}}
fibres:
  - p0.eth0.tx -> tp0.in
  - rp0.in -> p0.eth0.rx
  - q0.eth0.tx -> tq0.in
  - rq0.in -> q0.eth0.rx
  - tp0.1 -> x0.1A
  - x0.1B -> rq0.1
  - tq0.1 -> y0.1A
  - y0.1B -> rp0.1
  - tp0.2 -> u0.1A
  - u0.1B -> rq0.2
  - tq0.2 -> v0.1A
  - v0.1B -> rp0.2
"""


def testbed_of(pairs: int) -> Testbed:
    """Make a testbed of the same pair many times: a testbed file may have 4 MB at most."""
    pair = load_text(PAIR, file="testbed.yaml").require()

    def named(name: str, number: int) -> str:
        return f"{name[:-1]}{number}"

    def host(host: Host, number: int) -> Host:
        name = named(host.name, number)
        ports = tuple(replace(port, id=NicPortId(host=name, port=port.id.port)) for port in host.ports)
        return replace(host, name=name, ports=ports)

    def strand(strand: Strand, number: int) -> Strand:
        one, other = (
            FibreEnd(owner=named(end.owner, number), port=end.port, lane=end.lane, side=end.side) for end in strand.ends
        )
        return replace(strand, ends=(one, other))

    numbers = range(pairs)
    switches = [replace(one, name=named(one.name, n)) for n in numbers for one in pair.switches.values()]
    hosts = [host(one, n) for n in numbers for one in pair.hosts.values()]
    return replace(
        pair,
        switches={one.name: one for one in switches},
        hosts={one.name: one for one in hosts},
        strands=tuple(strand(one, n) for n in numbers for one in pair.strands),
    )
