"""Planning of composites: the time to find the paths with the fewest moves for some demands."""

import time
from pathlib import Path
from random import Random

from bench.measure import Bar, Summary
from bench.progress import Progress
from hwd.daemon.installed_drivers import load
from hwd.fabric.composite import CompiledDemands, CompositeSwitch
from hwd.fabric.graph import Graph
from hwd.fabric.state import State
from hwd.model.testbed import Composite, Strand, Switch, Testbed
from hwd_drivers.core.values import Capabilities, Crossconnect, FibreEnd, PortSide, Side
from hwd_drivers.devices import registry

MIXED = Path(__file__).parents[2] / "examples" / "mixed-rack.yaml"
FORTY_LIMIT_MS = 300.0
CONTROLLERS, OF_EACH = 64, 16
BENES = 128
SEED = 5


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 4 if quick else 40
    draw = Random(SEED)
    bars = []
    for name, composite, orders, limit_ms in (
        ("forty elements, all 16 ends anew", _of(load(MIXED).require()), _in_blocks, FORTY_LIMIT_MS),
        ("1024 selectors, all of them anew", _of(_selectors()), _of_selectors, None),
        ("Benes fabric of 832 2x2, all 128 ends anew", _of(_benes()), _any_order, None),
    ):
        elements = len(composite.inside.parts)
        progress.say(f"composites: {elements} elements, {rounds} plans")
        state = _at_rest(composite)
        took: list[float] = []
        proven = moved = 0
        for _ in range(rounds):
            demands = orders(composite, draw)
            start = time.perf_counter()
            compiled = composite.compile(demands, state)
            took.append((time.perf_counter() - start) * 1e3)
            proven += compiled.proven
            moved += compiled.moves
            state = _after(composite, state, compiled)
        summary = Summary.of(took)
        bars.append(
            Bar(
                name=name,
                value=summary.median,
                limit=limit_ms,
                unit="ms",
                spread=(
                    f"quartiles {summary.p25:.0f}-{summary.p75:.0f}, max {summary.max:.0f}; "
                    f"{moved / rounds:.0f} moves a plan, the fewest of all proven in {proven} of {rounds}"
                ),
                n=rounds,
                detail={"plan_ms": summary.to_data()},
            )
        )
    return bars


def _in_blocks(composite: CompositeSwitch, draw: Random) -> list[Crossconnect]:
    """Demands that join four ends to four others, in each block of the mixed rack."""
    demands = []
    for first in (1, 5, 9, 13):
        outs = draw.sample(range(first, first + 4), 4)
        demands += [Crossconnect.parse(f"{first + number}A-{out}B") for number, out in enumerate(outs)]
    return demands


def _of_selectors(composite: CompositeSwitch, draw: Random) -> list[Crossconnect]:
    count = CONTROLLERS * OF_EACH
    return [Crossconnect.parse(f"{number}A-{4 * number - draw.randrange(4)}B") for number in range(1, count + 1)]


def _any_order(composite: CompositeSwitch, draw: Random) -> list[Crossconnect]:
    outs = draw.sample(range(1, BENES + 1), BENES)
    return [Crossconnect.parse(f"{number}A-{out}B") for number, out in enumerate(outs, 1)]


def _of(testbed: Testbed) -> CompositeSwitch:
    return CompositeSwitch(Graph(testbed), testbed.composites["sel"])


def _at_rest(composite: CompositeSwitch) -> State:
    state: dict[str, frozenset[Crossconnect]] = {}
    for part in composite.inside.parts:
        if part.element is not None:
            state[part.switch] = state.get(part.switch, frozenset()) | frozenset(part.element.states[0])
    return state


def _after(composite: CompositeSwitch, state: State, compiled: CompiledDemands) -> State:
    """The states of the elements after the plan; an element moves only where it must."""
    before = {
        switch: frozenset(one for one in found if isinstance(one, Crossconnect)) for switch, found in state.items()
    }
    asked: dict[str, set[Crossconnect]] = {}
    for each in compiled.crossconnects:
        asked.setdefault(each.switch, set()).add(each.crossconnect)
    after: dict[str, frozenset[Crossconnect]] = {}
    for part in composite.inside.parts:
        assert part.element is not None
        mine = before[part.switch] & part.element.crossconnects
        wanted = asked.get(part.switch, set()) & part.element.crossconnects
        fit = mine if wanted <= mine else next(frozenset(one) for one in part.element.states if wanted <= set(one))
        after[part.switch] = after.get(part.switch, frozenset()) | fit
    return after


def _switch(name: str, driver: str, capabilities: Capabilities) -> Switch:
    return Switch(name=name, driver=driver, model=driver, capabilities=capabilities, address="127.0.0.1:1")


def _end(switch: str, port: str) -> FibreEnd:
    side = PortSide.parse(port)
    return FibreEnd(owner=switch, port=side.port, side=side.side)


def _selectors() -> Testbed:
    """1x4 selectors behind controllers, side by side."""
    capabilities = registry.find("osw").capabilities("osw", f"{OF_EACH}x4")
    names = [f"osw{number}" for number in range(CONTROLLERS)]
    ports: dict[PortSide, FibreEnd] = {}
    for number, name in enumerate(names):
        for end in capabilities.ends:
            each = OF_EACH if end.side is Side.A else 4 * OF_EACH
            port = PortSide(port=str(number * each + int(end.port)), side=end.side)
            ports[port] = FibreEnd(owner=name, port=end.port, side=end.side)
    switches = {name: _switch(name, "osw", capabilities) for name in names}
    return Testbed(
        name="selectors",
        switches=switches,
        hosts={},
        strands=(),
        composites={"sel": Composite(name="sel", ports=ports)},
    )


def _benes() -> Testbed:
    """A Benes network: 2x2 switches in as many stages as any permutation needs."""
    capabilities = registry.find("thorlabs-osw").capabilities("osw22", None)
    names: list[str] = []
    strands: list[Strand] = []

    def within(count: int, name: str) -> tuple[list[FibreEnd], list[FibreEnd]]:
        if count == 2:
            names.append(name)
            return [_end(name, "1A"), _end(name, "2A")], [_end(name, "1B"), _end(name, "2B")]
        inner = (within(count // 2, f"{name}u"), within(count // 2, f"{name}l"))
        into, out = list[FibreEnd](), list[FibreEnd]()
        for number in range(count // 2):
            first, last = f"{name}i{number}", f"{name}o{number}"
            names.extend((first, last))
            for side, (inward, outward) in enumerate(inner, 1):
                strands.append(Strand(ends=(_end(first, f"{side}B"), inward[number])))
                strands.append(Strand(ends=(outward[number], _end(last, f"{side}A"))))
            into += [_end(first, "1A"), _end(first, "2A")]
            out += [_end(last, "1B"), _end(last, "2B")]
        return into, out

    into, out = within(BENES, "b")
    ports = {PortSide(port=str(number), side=Side.A): end for number, end in enumerate(into, 1)}
    ports |= {PortSide(port=str(number), side=Side.B): end for number, end in enumerate(out, 1)}
    return Testbed(
        name="benes",
        switches={name: _switch(name, "thorlabs-osw", capabilities) for name in names},
        hosts={},
        strands=tuple(strands),
        composites={"sel": Composite(name="sel", ports=ports)},
    )
