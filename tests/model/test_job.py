"""Events of jobs are the same after the records as before, and name each kind of event and of action."""

import json
from typing import Any, get_args

import msgspec

from hwd.model.job import JobEvent, JobRecord, JobState
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.plane import (
    Action,
    Applied,
    CommunicationGroup,
    Demand,
    Done,
    Event,
    Failure,
    Fallback,
    Grant,
    Intent,
    NotReady,
    Prepare,
    Rank,
    Recovery,
    Refuse,
    Route,
    StaticRoute,
    Switch,
    Target,
    Tick,
)
from hwd.model.program import ProgramEnd
from hwd_agents.wire import Operation, OperationKind
from hwd_drivers.core.structs import from_json, from_plain, to_json, to_plain

from ..jobs.job_record import RECORD as JOB_RECORD

H0, H1 = NicPortId(host="h0", port="eth0"), NicPortId(host="h1", port="eth0")
ROUTE = StaticRoute(host="h0", to=H1, port=H0, via=H1)
OPERATION = Operation(group="world", kind=OperationKind.SEND, index=3, size_bytes=4096, peer=1)
TARGET = Target(
    links=(Link.of(H0, H1),),
    crossconnects=(SwitchCrossconnect.parse("ocs1:1A-2B"),),
    routes=(ROUTE, StaticRoute(host="h1", to=H0, port=H1)),
)
EVENTS: tuple[Event, ...] = (
    Intent(rank=1, operation=OPERATION),
    Done(rank=1),
    Demand(bytes_between={("h0", "h1"): 4096.0, ("h1", "h0"): 0.5}),
    Failure(why="ocs1 is away", ports=(H0, H1), hosts=("h1",)),
    Recovery(ports=(H0,), hosts=("h1",)),
    Applied(target="ring"),
    NotReady(target="ring", why="h0.eth0 is dark"),
    Tick(at_s=12.25),
)
ACTIONS: tuple[Action, ...] = (
    Prepare(id="ring", target=TARGET),
    Switch(target="ring"),
    Grant(ranks=(0, 1)),
    Refuse(ranks=(0,), why="it has no light"),
    Route(routes=(ROUTE,)),
    Fallback(why="too much failed"),
)


def recorded(event: Event, *actions: Action) -> JobEvent:
    return JobEvent.of(event, actions, at_ns=1, wall_ns=2, ticked_s=0.5, reconfiguration="k3v9a1xx")


def stored(event: JobEvent) -> JobEvent:
    """As it comes back from the records."""
    return from_json(to_json(event), JobEvent)


def test_event_and_actions_are_the_same_before_and_after_the_records() -> None:
    for event in EVENTS:
        before = recorded(event)
        after = stored(before)
        assert after == before
        assert before.plane_event == after.plane_event == event
        assert repr(after.plane_event) == repr(event), "tuples are no lists"
    for action in ACTIONS:  # a daemon that goes on with a job tells its plane the events again, and compares these
        after = stored(recorded(Tick(at_s=1.0), action))
        assert after.plane_actions == (action,)
        assert list(json.loads(to_json(after))["actions"][0]) == [type(action).__name__.lower()]
    whole = json.loads(to_json(recorded(EVENTS[0], *ACTIONS)))
    names = [name for action in whole["actions"] for name in action]
    assert names == ["prepare", "switch", "grant", "refuse", "route", "fallback"]
    assert {type(one) for one in EVENTS} == {*get_args(Event)}
    assert {type(one) for one in ACTIONS} == {*get_args(Action)}


def test_record_and_operation_are_the_same_after_the_records_and_actions_that_differ_differ() -> None:
    assert from_json(to_json(JOB_RECORD), JobRecord) == JOB_RECORD
    ended: dict[str, Any] = {"joined": [0], "ends": {0: ProgramEnd(status=1)}, "state": JobState.FAILED}
    assert [state for state in JobState if state.ended] == ["succeeded", "failed", "stopped"]
    changed = msgspec.structs.replace(JOB_RECORD, ending=JobState.FAILED, ended_wall_ns=9, **ended)
    assert from_json(to_json(changed), JobRecord) == changed
    assert json.loads(to_json(recorded(EVENTS[0])))["event"]["intent"]["operation"] == {
        "group": "world",
        "kind": "send",
        "index": 3,
        "size_bytes": 4096,
        "parts": [],
        "peer": 1,
        "iteration": None,
        "layer": None,
    }
    pairs: list[tuple[Action, Action]] = [
        (Grant(ranks=(0, 1)), Grant(ranks=(1, 0))),
        (Prepare(id="a", target=TARGET), Prepare(id="a", target=Target(links=TARGET.links))),
        (Route(routes=(ROUTE,)), Route(routes=())),
        (Switch(target="a"), Switch(target="b")),
        (Fallback(why="a"), Switch(target="a")),
    ]
    tick = Tick(at_s=1.0)
    assert [(one, other) for one, other in pairs if recorded(tick, one).actions == recorded(tick, other).actions] == []


def test_job_of_a_record_is_the_one_that_its_plane_knows() -> None:
    record = from_plain(
        to_plain(JOB_RECORD)
        | {
            "ranks": [{"host": "h0", "gpu": 0}, {"host": "h0", "gpu": 1}, {"host": "h1"}],
            "groups": {"world": [0, 1, 2], "dp0": [2, 0]},
            "dimensions": {"dp0": "dp"},
            "plane_arguments": {"topology": "ring"},
        },
        JobRecord,
    )
    job = record.job
    assert job.ranks == (Rank(number=0, host="h0", gpu=0), Rank(number=1, host="h0", gpu=1), Rank(number=2, host="h1"))
    assert job.groups == {
        "world": CommunicationGroup(name="world", ranks=(0, 1, 2)),
        "dp0": CommunicationGroup(name="dp0", ranks=(2, 0), dimension="dp"),
    }
    assert job.hosts == ("h0", "h1")
    assert (record.plane_text, str(record)) == ("static topology=ring", "job j7x2a1b9 (train)")
