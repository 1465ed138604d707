import asyncio
import json
import math
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from hwd.client import AsyncClient
from hwd.client.async_client import RUNS_PAGE
from hwd.model.lease import LeaseQueued, LeaseWithdrawn
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted
from hwd.web.calls.demand_calls import MEDIA_TYPES
from hwd.web.calls.run_calls import PIECE, RUNS_MAX, array
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, FailedError, LinkError, RefusedError
from hwd_drivers.core.structs import to_plain
from hwd_drivers.devices.facts import SwitchDown, SwitchOverride

from .conftest import Desk

PAIR = "ocs1:1A-2B"
PLAYBOOK = f"playbook: one\nshows: nothing\nsteps:\n  - apply: {{pairs: '{PAIR}'}}\n"

SLOW = PLAYBOOK + "  - wait: {for_s: 0.3}\n" * 2 + "  - wait: {for_s: 300}\n"


async def test_an_apply_has_the_id_that_its_caller_chose_and_no_second_one_has_it(desk: Desk, client: Any) -> None:
    result = await client.apply(what=PAIR, confirm_within_s=60, id="mine0001")
    assert result.id == "mine0001"
    assert result.plan is not None
    assert to_plain(result.plan.moves) == [{"switch": "ocs1", "remove": [], "add": ["1A-2B"], "keep": []}]
    for _ in ("while it is under way", "after its end"):
        with pytest.raises(RefusedError, match="reconfiguration mine0001: there is one of that id"):
            await client.apply(what="ocs1:3A-4B", id="mine0001")
        if await client.reconfigurations():
            assert (await client.roll_back("mine0001")).outcome == "rolled-back"
    again = await client.plan(what=PAIR)
    assert (await client.apply_hash(again.hash, id="mine0002")).id == "mine0002"
    assert (await desk.ask("POST", "/api/v1/reconfigurations", {"what": PAIR, "id": "Not an id"})).status_code == 422


async def test_what_an_interlock_refuses_is_planned_and_is_a_conflict_to_apply_unless_it_is_overridden(
    desk: Desk, client: Any
) -> None:
    plan = (await desk.ask("POST", "/api/v1/plans", {"what": "ocs1:1A-8B"})).json()
    first = plan["interlocks"][0]
    assert (first["name"], first["state"], first["subject"]) == ("forbidden-pair", "refused", "ocs1:1A-8B")
    assert (first["figure"], first["limit"], first["unit"]) == (1, 0, "pairs")
    answer = await desk.ask("POST", "/api/v1/reconfigurations", {"hash": plan["hash"]})
    assert (answer.status_code, answer.json()["exit_status"]) == (409, 3)
    with pytest.raises(RefusedError, match="interlock forbidden-pair refused: ocs1:1A-8B: "):
        await client.apply(what="ocs1:1A-8B")
    result = await client.apply(what="ocs1:1A-8B", overrides={"forbidden-pair": "tested in the dark"})
    assert (result.outcome, result.plan is None) == ("confirmed", False)
    overridden = result.plan.interlocks[0]
    assert (overridden.state, overridden.reason) == ("overridden", "tested in the dark")


async def test_a_roll_back_of_what_has_ended_names_the_way_to_an_earlier_state(client: Any) -> None:
    with pytest.raises(RefusedError, match=r"under way\. `hwd rollback --to ID` goes back .* `hwd history` lists$"):
        await client.roll_back()
    ended = (await client.apply(what=PAIR)).id
    with pytest.raises(RefusedError, match=rf"has ended, .*\. `hwd rollback --to {ended}` goes back"):
        await client.roll_back(ended)
    with pytest.raises(RefusedError, match=r"The last one, [^`]*$"):
        await client.confirm()


async def test_a_switch_that_is_away_is_named(desk: Desk, client: Any) -> None:
    last = desk.daemon.hub.last
    await desk.twin.close()
    await desk.told(SwitchDown, last)
    with pytest.raises(LinkError, match="ocs1"):
        await client.plan(what=PAIR)
    answer = await desk.call(httpx2.get, f"{desk.url}/readyz")
    assert answer.status_code == 503
    assert "switch ocs1 is down" in answer.json()["why"][0]


async def test_an_apply_goes_on_when_its_caller_goes_away(desk: Desk, client: Any) -> None:
    desk.twin.faults.slow_s = 0.3
    last = desk.daemon.hub.last
    with pytest.raises(httpx2.ReadTimeout):
        url = f"{desk.url}/api/v1/reconfigurations"
        await desk.call(httpx2.post, url, json={"what": PAIR}, headers=desk.by, timeout=0.25)
    ended = await desk.told(ReconfigurationEnded, last)
    assert ended.outcome == "confirmed"


async def test_a_roll_back_stops_an_apply_that_goes_on(desk: Desk, client: Any) -> None:
    desk.twin.faults.slow_s = 0.3
    last = desk.daemon.hub.last
    apply = asyncio.create_task(client.apply(what=PAIR))
    started = await desk.told(ReconfigurationStarted, last)
    rolled = await client.roll_back(started.reconfiguration)
    assert rolled.outcome == "rolled-back"
    with pytest.raises(FailedError, match="stopped and rolled back"):
        await apply


async def test_a_lease_is_revoked_without_a_body_too_and_else_its_holder_reads_who_did_it_and_why(
    desk: Desk, client: Any
) -> None:
    for text in (b"", b"null"):
        lease = await client.take_lease(holder="me", ports=["ocs1.1"], for_s=60)
        assert (await desk.ask("POST", f"/api/v1/leases/{lease.id}/kick", text)).is_success
    assert await client.leases() == []
    lease = await client.take_lease(holder="ada", ports=["ocs1.1"], for_s=60, heartbeat_s=30)
    assert 29 < (await client.beat_lease(lease.id)).heard_within_s <= 30
    await client.kick_lease(lease.id, by="ben", why="the night run begins")
    said = rf'lease {lease.id}: not in force; it was kicked by ben at .* UTC: "the night run begins"'
    for call in (client.plan, client.apply):
        with pytest.raises(RefusedError, match=said):
            await call(what=PAIR, lease=lease.id)


async def test_lease_that_is_queued_is_granted_in_its_turn_and_has_a_higher_epoch(desk: Desk, client: Any) -> None:
    first = await client.take_lease(holder="ada", ports=["ocs1.1"], for_s=60)
    waits = await client.take_lease(holder="ben", ports=["ocs1.1", "ocs1.2"], for_s=60, queue=True, priority=3)
    assert (waits.kind, waits.place, waits.priority, waits.left_s) == ("waiting", 1, 3, math.inf)
    assert "leased to ada" in waits.waits_for[0]
    (listed,) = await client.lease_requests()
    (shown,) = (await client.status()).lease_requests
    assert (shown.id, shown.place, shown.ports) == (listed.id, listed.place, listed.ports)
    assert (listed.id, listed.is_in_force, str(listed)) == (
        waits.id,
        False,
        f"lease {waits.id} of ben on 2 ports, waits, place 1",
    )
    with pytest.raises(RefusedError, match=f"lease {waits.id}: is not granted yet, it waits in the queue"):
        await client.apply(what=PAIR, lease=waits.id)
    said: list[int] = []
    waiting = asyncio.create_task(client.wait_lease(waits.id, say=lambda one: said.append(one.place)))
    await desk.told(LeaseQueued)
    await client.release_lease(first.id)
    granted = await waiting
    assert (granted.id, granted.kind, granted.epoch) == (waits.id, "claim", first.epoch + 1)
    assert set(said) <= {1}
    with pytest.raises(RefusedError, match=rf"lease {waits.id}: epoch {first.epoch} is not in force, epoch"):
        await client.apply(what=PAIR, lease=waits.id, epoch=first.epoch)
    await client.apply(what=PAIR, lease=waits.id, epoch=granted.epoch)
    assert (await desk.told(ReconfigurationStarted)).lease_epoch == granted.epoch


async def test_client_that_is_interrupted_while_it_waits_leaves_the_queue(desk: Desk, client: Any) -> None:
    await client.take_lease(holder="ada", ports=["ocs1.1"], for_s=60)
    async with AsyncClient(desk.url, token=desk.by["Authorization"].removeprefix("Bearer ")) as waiter:
        lease = await waiter.take_lease(holder="ben", ports=["ocs1.1"], for_s=60, queue=True)
        said = asyncio.Event()
        waiting = asyncio.create_task(waiter.wait_lease(lease.id, say=lambda _: said.set()))
        await said.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert await client.lease_requests() == []
    assert (await desk.told(LeaseWithdrawn)).why == "released"


async def test_runs_and_reservations_share_one_calendar(client: Any) -> None:
    hour_ns = 3600 * 10**9
    now_ns = SystemClock().wall_ns()
    text = PLAYBOOK.replace("steps:", "steps:\n  - lease: {ports: [ocs1.1, ocs1.2], for_s: 1800}")

    async def reserve(at_ns: int, **more: Any) -> Any:
        return await client.take_lease(holder="eva", ports=["ocs1.1"], for_s=600, at_wall_ns=at_ns, **more)

    due = await client.start_run(text=text, file="/one.yaml", due_wall_ns=now_ns + hour_ns)
    with pytest.raises(RefusedError, match=rf"ocs1\.1: run {due.run} \(one\) is due there from"):
        await reserve(now_ns + hour_ns + hour_ns // 4)
    at_ns = now_ns + hour_ns + hour_ns // 2 + 10**9
    reserved = await reserve(at_ns)
    assert (reserved.kind, reserved.at_wall_ns, reserved.until_wall_ns) == ("reserved", at_ns, at_ns + 600 * 10**9)
    assert (await client.beat_lease(reserved.id)).kind == "reserved"
    with pytest.raises(ConfigError, match="name one of them"):
        await reserve(at_ns, queue=True)
    with pytest.raises(RefusedError, match=rf"ocs1\.1: reserved by eva \({reserved.id}\) from .*come after it"):
        await client.start_run(text=text, file="/one.yaml", due_wall_ns=now_ns + 2 * hour_ns - hour_ns // 3)
    await client.abort(due.run, by="ada")
    await reserve(now_ns + hour_ns + hour_ns // 4)
    await client.release_lease(reserved.id)
    assert len(await client.lease_requests()) == 1


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
async def test_pieces_of_an_array_are_one_array(count: int) -> None:
    async def items() -> AsyncIterator[Json]:
        for number in range(count):
            yield {"n": number, "text": "a \u2028 \udc80"}

    pieces = [piece async for piece in array(items())]
    assert json.loads("".join(pieces)) == [{"n": number, "text": "a \u2028 \udc80"} for number in range(count)]
    assert len(pieces) == count // PIECE + 1


async def test_runs_wait_pause_and_go_on_over_http(desk: Desk, client: Any) -> None:
    running = await client.start_run(text=SLOW, file="/slow.yaml")
    waiting = await client.start_run(text=PLAYBOOK, file="/one.yaml")
    assert (running.state, waiting.state) == ("running", "queued")
    (queued,) = await client.queue()
    assert (queued.run, queued.waits_for) == (waiting.run, (f"run {running.run}",))
    await client.pause(running.run[:5], by="ada")
    async with client.events(after=running.after, kinds=["run.state"]) as events:
        while (await anext(events)).document.fact.state != "paused":
            continue
    status = await client.run_state(running.run)
    assert (status.state, status.by) == ("paused", "ada")
    assert (await client.status()).runs[0].state == "paused"
    await client.resume(running.run, by="ada")
    await client.abort(running.run, by="ada")
    await desk.daemon.service.runs.wait(waiting.run)
    states = {run.id: run.state for run in await client.runs()}
    assert states == {running.run: "aborted", waiting.run: "succeeded"}


async def test_the_api_describes_itself_with_a_type_for_every_body_and_answer(desk: Desk) -> None:
    text = (await desk.ask("GET", "/api/v1/openapi.json")).text
    document = json.loads(text)
    schemas = document["components"]["schemas"]
    assert document["openapi"].startswith("3.")
    body = schemas["RunBody"]["properties"]
    assert {"text", "file", "parameters", "due_wall_ns", "trial"} == body.keys()
    untyped = []
    for path, methods in document["paths"].items():
        for call in methods.values():
            answer = next(one for status, one in call["responses"].items() if status.startswith("2"))
            schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
            if not schema.get("items", schema).get("$ref"):
                untyped.append(path)
            if path.startswith("/api/"):
                (problem,) = call["responses"]["default"]["content"].values()
                assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}
            content = call.get("requestBody", {}).get("content")
            if content is not None and "application/json" not in content:
                assert (call["tags"], {*content}) == (["demands"], {*MEDIA_TYPES}), "files, with nothing else said"
            elif content is not None:
                taken = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert schemas[taken]["description"]
    assert untyped == ["/api/v1/hosts/{host}/programs", "/api/v1/events", "/metrics"], "they are streams of text"
    assert {*re.findall(r'"#/components/schemas/(\w+)"', text)} <= schemas.keys()
    assert not [name for name, one in schemas.items() if "\n    " in one.get("description", "")], "the source's indent"


async def test_a_browser_comes_in_by_the_address_that_serve_says(desk: Desk) -> None:
    async with httpx2.AsyncClient(base_url=desk.url, trust_env=False, verify=False, follow_redirects=True) as browser:
        assert (await browser.get("/")).status_code == 401
        answer = await browser.get("/?token=the-token-of-the-desk")
        assert answer.json()["testbed"] == "desk"
        assert "token" not in str(answer.url)
        assert (await browser.get("/api/v1/status")).json()["testbed"] == "desk"


async def test_runs_are_listed_in_pages_and_without_their_texts(desk: Desk, client: Any) -> None:
    started = [(await client.start_run(text=PLAYBOOK, file="/one.yaml")).run for _ in range(3)]
    for run in started:
        await desk.daemon.service.runs.wait(run)
    newest = started[::-1]
    first = await client.runs(limit=2)
    assert [run.id for run in first] == newest[:2]
    assert [run.id for run in await client.runs(limit=2, before=newest[1])] == newest[2:]
    assert [run.id for run in await client.runs()] == newest
    whole = await client.run(started[0])
    assert whole.playbook_text == PLAYBOOK
    short = to_plain((await client.runs())[-1])
    assert to_plain(whole).keys() - short.keys() == {"playbook_text", "testbed_text", "inventory"}
    with pytest.raises(ConfigError, match="limit"):
        await client.runs(limit=RUNS_MAX + 1)
    assert RUNS_PAGE == RUNS_MAX


async def test_ends_are_blocked_and_let_go(desk: Desk, client: Any) -> None:
    done = await client.block("ocs1", ["3A", "5A..6A"], why="dirty", by="ada@desk")
    assert (done.ends, done.blocked) == (["3A", "5A", "6A"], ["3A", "5A", "6A"])
    done = await client.unblock("ocs1", ["5A"], by="ada@desk")
    assert str(done) == "ocs1: 5A normal, 2 ends held dark"
    (switch,) = await client.switches()
    assert switch.blocked == ["3A", "6A"]
    assert "3A, 6A held dark" in str(switch)
    told = await desk.told(SwitchOverride)
    assert (told.ends, told.by) == (["3A", "5A", "6A"], "ada@desk: dirty")
    lease = await client.take_lease(holder="ben", ports=["ocs1.3"], for_s=60)
    with pytest.raises(RefusedError, match=r"ocs1\.3: leased to ben"):
        await client.unblock("ocs1", ["3A"])
    await client.unblock("ocs1", ["3A"], lease=lease.id)
    with pytest.raises(ConfigError, match="it has no 9A"):
        await client.block("ocs1", ["9A"])
