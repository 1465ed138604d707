"""Planners of testbeds, over what a test says that the switches carry."""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from hwd.config.testbed.wanted_state import parse_what
from hwd.daemon.installed_drivers import load_text
from hwd.fabric.fabric import Fabric
from hwd.interlocks import NO_MOTION, Motion
from hwd.model.bodies import PlanBody
from hwd.model.plan import Plan
from hwd.model.request import Request
from hwd.model.testbed import Testbed
from hwd.reconfigure.plans.planner import Planner
from hwd_drivers.core.structs import from_plain
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState

T = TypeVar("T")

TWO_HOSTS = (Path(__file__).parents[3] / "examples" / "two-hosts.yaml").read_text()


def pairs(text: str) -> tuple[Crossconnect, ...]:
    return tuple(map(Crossconnect.parse, text.replace(",", " ").split()))


def readings(text: str, *, failed: str = "") -> tuple[CrossconnectReading, ...]:
    states = dict.fromkeys(pairs(failed), CrossconnectState.FAILED)
    return tuple(
        CrossconnectReading(crossconnect=one, state=states.get(one, CrossconnectState.TUNED)) for one in pairs(text)
    )


class Desk:
    """A planner of one testbed."""

    def __init__(self, testbed: Testbed | str, expect: Callable[..., tuple[float, str]] | None = None) -> None:
        self.testbed = load_text(testbed, file="testbed.yaml").require() if isinstance(testbed, str) else testbed
        self.fabric = Fabric(self.testbed)
        self.planner = Planner(self.fabric, expect or (lambda switches, links: (0.0, "nobody")))

    def plan(
        self, what: str, there: Mapping[str, str], *, failed: str = "", motion: Motion = NO_MOTION, **body: Any
    ) -> Plan:
        """From what these switches carry; `body`: more of the request, such as its mode."""
        asked = from_plain({"what": what, **body}, PlanBody)
        routed = self.planner.router.route(Request(wanted=parse_what(what, self.testbed), body=asked))
        observed = {name: readings(text, failed=failed) for name, text in there.items()}
        return self.planner.plan_at_once(routed, observed, {}, motion)


def divisions(all: frozenset[T]) -> Iterator[list[frozenset[T]]]:
    """Every division into steps, in every order."""
    if not all:
        yield []
    for size in range(1, len(all) + 1):
        for step in map(frozenset, combinations([*all], size)):
            for rest in divisions(all - step):
                yield [step, *rest]
