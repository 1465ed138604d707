"""A search of seconds leaves the event loop free, and its plan is the same as in the loop."""

import asyncio
from collections.abc import Iterator

import pytest

from hwd.model.link import SwitchCrossconnect
from hwd.model.request import Request, WantedState
from hwd.model.testbed import Composite, Strand, Switch, Testbed
from hwd.reconfigure.plans.planner import BackgroundPlanner
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.offload import InlineOffload, ThreadOffload
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, FibreEnd, PortSide, Side
from hwd_drivers.devices import registry

from .conftest import TWO_HOSTS, Desk

ENDS = 64
TICK_S = 0.001


@pytest.fixture
def threads() -> Iterator[ThreadOffload]:
    offload = ThreadOffload(1)
    yield offload
    offload.close()


def benes() -> Testbed:
    """A Benes network of 2x2 switches: any end leads to any end on the other side, and the ways must be searched."""
    capabilities = registry.find("thorlabs-osw").capabilities("osw22", None)
    names: list[str] = []
    strands: list[Strand] = []

    def within(count: int, name: str) -> tuple[list[FibreEnd], list[FibreEnd]]:
        if count == 2:
            names.append(name)
            return [end(name, "1A"), end(name, "2A")], [end(name, "1B"), end(name, "2B")]
        inner = (within(count // 2, f"{name}u"), within(count // 2, f"{name}l"))
        into, out = list[FibreEnd](), list[FibreEnd]()
        for number in range(count // 2):
            first, last = f"{name}i{number}", f"{name}o{number}"
            names.extend((first, last))
            for side, (inward, outward) in enumerate(inner, 1):
                strands.append(Strand(ends=(end(first, f"{side}B"), inward[number])))
                strands.append(Strand(ends=(outward[number], end(last, f"{side}A"))))
            into += [end(first, "1A"), end(first, "2A")]
            out += [end(last, "1B"), end(last, "2B")]
        return into, out

    into, out = within(ENDS, "b")
    ports = {PortSide(port=str(number), side=Side.A): fibre for number, fibre in enumerate(into, 1)}
    ports |= {PortSide(port=str(number), side=Side.B): fibre for number, fibre in enumerate(out, 1)}
    switches = {
        name: Switch(name=name, driver="thorlabs-osw", model="osw22", capabilities=capabilities, address="127.0.0.1:1")
        for name in names
    }
    composites = {"sel": Composite(name="sel", ports=ports)}
    return Testbed(name="benes", switches=switches, hosts={}, strands=tuple(strands), composites=composites)


def end(switch: str, port: str) -> FibreEnd:
    side = PortSide.parse(port)
    return FibreEnd(owner=switch, port=side.port, side=side.side)


def turned_round() -> Request:
    """Each end to the one that is farthest."""
    pairs = [Crossconnect.parse(f"{number}A-{ENDS + 1 - number}B") for number in range(1, ENDS + 1)]
    crossconnects = tuple(SwitchCrossconnect(switch="sel", crossconnect=one) for one in pairs)
    return Request(wanted=WantedState(name="all", crossconnects=crossconnects))


def straight(testbed: Testbed) -> dict[str, tuple[CrossconnectReading, ...]]:
    pairs = [Crossconnect.parse("1A-1B"), Crossconnect.parse("2A-2B")]
    readings = tuple(CrossconnectReading(crossconnect=one, state=CrossconnectState.TUNED) for one in pairs)
    return dict.fromkeys(testbed.switches, readings)


async def ticks_while(work: "asyncio.Task[object]") -> int:
    """How often the loop came round before the work was done."""
    count = 0
    while not work.done():
        await asyncio.sleep(TICK_S)
        count += 1
    return count


async def test_the_loop_goes_on_while_a_large_composite_is_planned(threads: ThreadOffload) -> None:
    testbed = benes()
    planner = Desk(testbed).planner

    async def plan(planning: BackgroundPlanner) -> object:
        routed = await planning.route(turned_round())
        return await planning.plan(routed, straight(testbed), {})

    inline = asyncio.create_task(plan(BackgroundPlanner(planner, InlineOffload())))
    held = await ticks_while(inline)
    beside = asyncio.create_task(plan(BackgroundPlanner(planner, threads)))
    assert await ticks_while(beside) > held + 5
    assert beside.result() == inline.result()


async def test_what_cannot_be_is_refused_from_there_too(threads: ThreadOffload) -> None:
    planning = BackgroundPlanner(Desk(benes()).planner, threads)
    pairs = [Crossconnect.parse("1A-1B"), Crossconnect.parse("2A-1B")]
    asked = tuple(SwitchCrossconnect(switch="sel", crossconnect=one) for one in pairs)
    with pytest.raises(RefusedError, match="1A-1B"):
        await planning.route(Request(wanted=WantedState(name="both", crossconnects=asked)))


async def test_without_composites_no_thread_is_asked() -> None:
    """One that is closed would refuse."""
    offload = ThreadOffload(1)
    offload.close()
    planning = BackgroundPlanner(Desk(TWO_HOSTS).planner, offload)
    asked = (SwitchCrossconnect(switch="ocs1", crossconnect=Crossconnect.parse("1A-3B")),)
    routed = await planning.route(Request(wanted=WantedState(name="one", crossconnects=asked)))
    plan = await planning.plan(routed, {"ocs1": ()}, {})
    assert [str(one) for move in plan.moves for one in move.add] == ["1A-3B"]
