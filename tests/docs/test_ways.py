"""The calls along the ways: how often a crossconnect is planned and its switch read; how often an event is handled."""

from functools import cache

import httpx2

from docs.generate.ways import CROSSCONNECT, READ, Calls, nothing, of_apply, of_flap, of_hwd, of_operation, played
from hwd.sim.world import World

SWITCH = "hwd.reconfigure.apply.drive:Drive.switch"
PLAN, ROUTE = "hwd.reconfigure.plans.planner:Planner.plan", "hwd.reconfigure.plans.route:Router.route"


APPLY_MOST, FLAP_MOST, OPERATION_MOST = 436, 77, 556
"""Named functions of hwd on each way, with some room: what is kept from one play to the next makes one or two."""


at_rest = cache(lambda: played(nothing, link=False))


def counted(calls: Calls) -> dict[str, int]:
    return {"plans": calls[PLAN], "routes": calls[ROUTE], "reads": calls[READ]}


def test_an_apply_from_the_shell_is_planned_once_and_reads_the_switch_to_plan_before_and_after() -> None:
    command_line, daemon = of_apply()
    assert counted(daemon) == {"plans": 1, "routes": 1, "reads": 3}
    assert command_line.total() > 0
    assert len(of_hwd(daemon)) <= APPLY_MOST


def test_a_plan_that_is_applied_by_its_hash_is_not_made_again_while_the_switch_is_as_it_was() -> None:
    async def ask(_: World, http: httpx2.AsyncClient) -> None:
        plan = (await http.post("/api/v1/plans", json={"what": CROSSCONNECT})).json()
        done = (await http.post("/api/v1/reconfigurations", json={"hash": plan["hash"]})).json()
        assert (done["outcome"], done["plan"]) == ("confirmed", plan)

    assert counted(played(ask, link=False) - at_rest()) == {"plans": 1, "routes": 1, "reads": 3}


def test_an_event_of_a_carrier_is_json_once_on_each_side_and_looked_for_once() -> None:
    calls = of_flap()
    events = 4  # the carrier falls and rises, and so does the RDMA port
    on_the_host = ("spool.spool:Spool.add", "spool.outbox:Outbox._next", "spool.spool:Spool.batch")
    assert {name: calls[f"hwd_agents.{name}"] for name in on_the_host} == dict.fromkeys(on_the_host, events)
    assert calls["hwd_agents.wire.bounds:clipped"] == 0
    assert calls["hwd.records.entry:entry"] == events
    assert len(of_hwd(calls)) <= FLAP_MOST


def test_an_operation_whose_light_moves_switches_its_set_once_and_plans_nothing() -> None:
    calls = of_operation()
    assert counted(calls)["plans"] == 0
    assert calls[SWITCH] == 1
    assert len(of_hwd(calls)) <= OPERATION_MOST


def test_two_plays_of_one_seed_make_the_same_calls() -> None:
    assert played(nothing, link=False) == at_rest()
