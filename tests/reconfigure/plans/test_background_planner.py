"""What may search for seconds, ways through composites and orders of steps, is asked in a thread, and nothing else."""

from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

import msgspec
import pytest

from hwd.config.testbed.wanted_state import parse_what
from hwd.model.bodies import PlanBody
from hwd.model.plan import Plan
from hwd.model.request import Request
from hwd.reconfigure.plans.planner import BackgroundPlanner
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.offload import InlineOffload

from .conftest import TWO_HOSTS, Desk, readings
from .test_plans import BANYAN, REST

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Noted:
    """Notes what it is asked to run in a thread."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.asked.append(fn.__name__)
        return await InlineOffload()(fn, *args)


async def planned(desk: Desk, noted: Noted, what: str, there: dict[str, str], **body: Any) -> Plan:
    planning = BackgroundPlanner(desk.planner, noted)
    request = Request(wanted=parse_what(what, desk.testbed), body=msgspec.convert({"what": what, **body}, PlanBody))
    routed = await planning.route(request)
    return await planning.plan(routed, {name: readings(text) for name, text in there.items()}, {})


async def test_a_thread_is_asked_where_there_is_something_to_search_and_says_what_the_planner_does() -> None:
    two, banyan = Desk(TWO_HOSTS), Desk(BANYAN)
    noted = Noted()
    for desk, what, there, steps, asked in (
        (two, "ocs1:1A-3B", {"ocs1": ""}, False, []),
        (two, "ocs1:1A-3B", {"ocs1": ""}, True, ["plan"]),
        (banyan, "sel:1A-4B", REST, False, ["route", "plan"]),
    ):
        noted.asked.clear()
        assert await planned(desk, noted, what, there, steps=steps) == desk.plan(what, there, steps=steps), what
        assert noted.asked == asked, (what, steps)
    with pytest.raises(RefusedError, match="sel: cannot make 1A-1B, 2A-2B at once"):
        await planned(banyan, noted, "sel:1A-1B,2A-2B", REST)
