"""What a job holds is the job's: who else asks for it, over HTTP or at the socket of a host, is refused."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec
import pytest

from hwd.model.bodies import ActBody
from hwd.model.job import JobEnded, JobMoved, JobOverridden
from hwd.model.lease import LeaseReleased
from hwd.model.reconfiguration import ReconfigurationStarted
from hwd.sim.rank import Rank
from hwd.sim.world import DAEMON
from hwd.web.access import ACCESS, CALLS
from hwd.web.app import make_app
from hwd_agents.switches.request import Request as Selection
from hwd_agents.transfers.lines import Line
from hwd_agents.wire import ClaimOperation, ClaimTransfer, EndOperation, EndTransfers, JoinJob, SwitchPreparedSet
from hwd_agents.wire.access import ASKS, LINES, Who

from .job_lab import Lab, Work, asked, ended, of_job, of_jobs, start, when
from .test_job_run import Regions

TOKEN = "the-token-of-ada-who-operates"


def http(lab: Lab) -> httpx2.AsyncClient:
    """The HTTP API of the daemon of a lab, for the operator ada."""
    app = make_app(
        lab.service,
        version="-",
        tokens=frozenset({TOKEN}),
        names={TOKEN: "ada"},
        session="s",
    )
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


async def call(lab: Lab, method: str, path: str, body: Mapping[str, Any]) -> httpx2.Response:
    async with http(lab) as client:
        asked = client.request(method, path, json=dict(body))
        return await lab.world.nodes.run_in_node(DAEMON, asked)


def attacks(lab: Lab, *, move: str = "none") -> dict[str, tuple[str, dict[str, Any]]]:
    """For each call of the table that is its holder's: how a stranger makes it on what the job holds."""
    (lease,) = lab.service.leases.leases()
    id, epoch = lease.id, lease.epoch
    held = lab.service.sets.sets()[0].id if lab.service.sets.sets() else "none"
    moves = {"what": "ocs1:1A-none,2A-none", "lease": id, "epoch": epoch}
    api = "/api/v1"
    return {
        "POST /api/v1/plans": (f"{api}/plans", moves),
        "POST /api/v1/reconfigurations": (f"{api}/reconfigurations", moves),
        "POST /api/v1/reconfigurations/{id}/confirm": (f"{api}/reconfigurations/{move}/confirm", {}),
        "POST /api/v1/reconfigurations/{id}/rollback": (f"{api}/reconfigurations/{move}/rollback", {}),
        "POST /api/v1/sets": (f"{api}/sets", {"targets": {"dark": {"what": "ocs1:1A-none"}}, "lease": id}),
        "POST /api/v1/sets/{id}/switch": (f"{api}/sets/{held}/switch", {"target": "before", "epoch": epoch}),
        "POST /api/v1/sets/{id}/release": (f"{api}/sets/{held}/release", {"epoch": epoch}),
        "POST /api/v1/leases/{id}/heartbeat": (f"{api}/leases/{id}/heartbeat", {"epoch": epoch}),
        "POST /api/v1/leases/{id}/renew": (f"{api}/leases/{id}/renew", {"for_s": 0.001, "epoch": epoch}),
        "POST /api/v1/leases/{id}/release": (f"{api}/leases/{id}/release", {"epoch": epoch}),
        "POST /api/v1/overrides": (
            f"{api}/overrides",
            {"switch": "ocs1", "ends": ["1A"], "to": "force-blocked", "lease": id, "epoch": epoch},
        ),
        "POST /api/v1/faults": (f"{api}/faults", {"port": "h0.eth0", "fault": "unplug", "lease": id, "epoch": epoch}),
    }


def test_table_has_each_route_line_and_ask_and_reads_alone_are_anyones() -> None:
    app = make_app(
        None,  # type: ignore[arg-type]  # no call is made
        version="-",
    )
    routes = {f"{method.upper()} {path}" for path, calls in app.openapi()["paths"].items() for method in calls}
    assert routes | {"GET /", "GET /api/v1/openapi.json"} == CALLS.keys()
    assert {call for call, access in CALLS.items() if access.who is Who.ANYONE} == {
        call for call in CALLS if call.startswith("GET ")
    }
    lines = {field.name for field in msgspec.structs.fields(Line)} - {"id"}
    assert LINES.keys() == lines | {"set", "show"}
    assert "set" in {field.name for field in msgspec.structs.fields(Selection)}
    asks = (ClaimTransfer, EndTransfers, SwitchPreparedSet, JoinJob, ClaimOperation, EndOperation)
    assert ASKS.keys() == {one.VERB for one in asks}
    assert len(ACCESS) == len(CALLS) + len(LINES) + len(ASKS)


@of_jobs(set=Work(steps=8), regions=Work(entry="plane: own", plane=Regions(), steps=8))
async def test_what_a_job_holds_is_changed_by_no_other_caller_of_http(lab: Lab) -> None:
    job = await start(lab, asked(1))
    lit, tried = lab.light(), attacks(lab)
    assert tried.keys() == {call for call, access in CALLS.items() if access.who is Who.HOLDER}
    for name, (path, body) in tried.items():
        answer = await call(lab, "POST", path, body)
        assert answer.status_code in (404, 409), f"{name}: {answer.text}"
        of_others = "none" in path
        assert of_others or f"job {job}" in answer.json()["detail"], f"{name}: {answer.text}"
        assert lab.light() == lit, name
    status = await ended(lab, job)
    assert (status.state, status.why) == ("succeeded", "")
    assert lab.emitted(JobMoved) == []
    (found,) = await lab.service.jobs.verification(job)
    assert (found.breaches, found.operations) == ([], 2 * 8)


@of_job(entry="plane: static topology=ring, ready_within_s: 60")
async def test_move_of_a_job_is_rolled_back_by_the_job_alone(lab: Lab) -> None:
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    job = await start(lab, lambda status: status.moving)
    await asyncio.sleep(1)
    (move,) = lab.service.light.under_way()
    for tried in (attacks(lab, move="-"), attacks(lab, move=move.id)):
        for name in ("rollback", "confirm"):
            path, body = tried[f"POST /api/v1/reconfigurations/{{id}}/{name}"]
            answer = await call(lab, "POST", path, body)
            assert (answer.status_code, f"hwd job stop {job}" in answer.json()["detail"]) == (409, True), answer.text
    lab.set_fault({"port": "h1.eth0", "fault": "clear"})
    assert (await ended(lab, job)).state == "succeeded"


async def test_holder_of_a_lease_cannot_state_to_be_a_job_or_a_run(lab: Lab) -> None:
    for holder in ("job k3v9a1xx (go)", "run k3v9a1xx", "baseline of lease k3v9a1xx"):
        body = {"holder": holder, "ports": ["ocs1.7"], "for_s": 60}
        answer = await call(lab, "POST", "/api/v1/leases", body)
        assert (answer.status_code, "only hwd itself" in answer.text) == (422, True), answer.text
    assert lab.service.leases.leases() == []


async def test_unknown_set_is_refused_without_the_ids_of_others(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    (held,) = lab.service.sets.sets()
    rank = await Rank.connect(lab.world, "h0")
    answer = await rank.switch_set("nosuch00", "before")
    assert (answer["outcome"], "none of that id" in answer["why"]) == ("refused", True)
    assert held.id not in answer["why"]
    await ended(lab, job)


@of_job(steps=6)
@pytest.mark.parametrize("key", [None, "a guess"])
async def test_who_is_not_the_job_changes_nothing_of_it_at_the_socket_of_its_host(lab: Lab, key: str | None) -> None:
    job = await start(lab, asked(1))
    (held,), (lease,), lit = lab.service.sets.sets(), lab.service.leases.leases(), lab.light()
    stranger = await Rank.connect(lab.world, "h0")
    proof = {} if key is None else {"key": key}
    whom = {"job": job, "rank": 0, "key": key or "-"}
    operation = {"group": "world", "kind": "all-reduce", "index": 2, "size_bytes": 1000}
    answers = {
        "switch": await stranger.switch_set(held.id, "before", epoch=lease.epoch, **proof),
        "claim": await stranger._ask(claim={"links": ["eth0"], "within_s": 600.0, **proof}),
        "join": await stranger.join(whom),
        "ask": await stranger.ask(whom, operation, within_s=60.0, wait_s=1.0),
        "done": await stranger.done(whom, operation),
    }
    for number in range(1, 8):
        answers["end"] = await stranger.end(f"{await _boot(lab)}-{number}")
        assert answers["end"]["outcome"] == "refused"
    assert answers.keys() == LINES.keys() - {"set", "show"}
    assert {name: one["outcome"] for name, one in answers.items()} == dict.fromkeys(answers, "refused"), answers
    assert job in answers["switch"]["why"]
    assert (lab.light(), lab.service.leases.leases()[0].id) == (lit, lease.id)
    status = await ended(lab, job)
    assert (status.state, status.why, lab.emitted(JobMoved)) == ("succeeded", "", [])
    (found,) = await lab.service.jobs.verification(job)
    assert (found.breaches, found.measured) == ([], 2 * 6)


async def _boot(lab: Lab) -> str:
    return next(host.boot for host in await lab.service.rack.hosts() if host.name == "h0" and host.boot)[:8]


@of_job(steps=100)
async def test_stop_and_kick_are_recorded_with_who_and_why(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    body = {"by": "somebody else", "why": "the night run begins"}
    answer = await call(lab, "POST", f"/api/v1/jobs/{job}/stop", body)
    assert answer.status_code == 200
    assert (await ended(lab, job)).why == "stopped by ada: the night run begins"
    (end,) = lab.emitted(JobEnded)
    assert end.why == "stopped by ada: the night run begins"
    job = await start(lab, lambda status: status.at)
    (lease,) = lab.service.leases.leases()
    await call(lab, "POST", f"/api/v1/leases/{lease.id}/kick", body)
    kicked = [one for one in lab.emitted(LeaseReleased) if one.why == "kicked"]
    assert [(one.by, one.reason) for one in kicked] == [("ada", "the night run begins")]
    status = await ended(lab, job)
    assert (status.state, "kicked by ada at " in status.why) == ("failed", True), status.why
    assert '"the night run begins"' in status.why


@of_job(steps=12)
async def test_override_is_recorded_and_told_to_the_job_which_brings_its_light_back(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    (held,), lit = lab.service.sets.sets(), lab.light()
    path = f"/api/v1/sets/{held.id}/switch"
    for without in ({"job": ""}, {"job": "  "}, {"run": "why"}):
        answer = await call(lab, "POST", path, {"target": "before", "override": without})
        assert answer.status_code == 422, answer.text
    body = {"target": "before", "override": {"job": "measures the loss"}}
    while (answer := await call(lab, "POST", path, body)).status_code == 409:  # a rank sends
        assert "in flight" in answer.json()["detail"]
        await asyncio.sleep(0.05)
    assert answer.status_code == 200, answer.text
    id = answer.json()["reconfiguration"]
    (overridden,) = [one for one in lab.emitted(JobOverridden) if one.reconfiguration == id]
    assert (overridden.job, overridden.by, overridden.verified, overridden.why, overridden.target) == (
        *(job, "ada", True, "measures the loss"),
        "before",
    )
    (started,) = [one for one in lab.emitted(ReconfigurationStarted) if one.reconfiguration == id]
    assert started.override_of == f"job {job} (go): measures the loss"
    status = await when(lab, job, lambda status: status.moves_of_others)
    assert "from static by ada: measures the loss" in status.moves_of_others[0]
    assert (status.at, lab.light()) == ("static", lit)
    gone, back = lab.emitted(JobMoved)
    assert (gone.target, gone.is_over, back.is_over, back.by) == ("static", False, True, back.by)
    assert "ada: measures the loss" in gone.by
    status = await ended(lab, job)
    assert (status.state, status.why) == ("succeeded", "")
    history = await lab.service.light.history(limit=20)
    (entry,) = [one for one in history if one.reconfiguration == id]
    assert (entry.by, entry.override_of) == ("ada", f"job {job} (go): measures the loss")
    (found,) = await lab.service.jobs.verification(job)
    assert (found.breaches, found.operations) == ([], 2 * 12)


@of_job(steps=4)
async def test_set_that_an_override_releases_leaves_its_job_with_its_light(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    (held,), lit = lab.service.sets.sets(), lab.light()
    body = {"override": {"job": "the journal is full"}}
    answer = await call(lab, "POST", f"/api/v1/sets/{held.id}/release", body)
    assert (answer.status_code, lab.service.sets.sets()) == (200, [])
    assert [one.act for one in lab.emitted(JobOverridden)] == ["release"]
    status = await ended(lab, job)
    assert (status.state, status.why, lab.light()) == ("succeeded", "", lit)
    (found,) = await lab.service.jobs.verification(job)
    assert found.breaches == []


@of_job(steps=100)
async def test_operator_stops_a_job_without_a_name_too(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    await lab.world.nodes.run_in_node(DAEMON, _stop(lab, job))
    assert (await ended(lab, job)).why == "stopped by ben (unverified): enough"


async def _stop(lab: Lab, job: str) -> None:
    lab.service.jobs.stop(job, ActBody(by="ben", why="enough"), None)
