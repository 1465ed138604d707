"""The bytes of answers about runs, documents, probes and problems: names, order and form of the fields."""

import json
from typing import Any

import httpx
import pytest

from hwd_drivers.twins.server import Denial

PLAYBOOK = """\
playbook: one
shows: one pair
parameters: {within_s: 3}
steps:
  - apply: {pairs: "ocs1:1A-2B"}
"""


def encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def call(desk: Any, method: str, path: str, body: object = None) -> bytes:
    headers = {"Content-Type": "application/json", **desk.by}
    content = None if body is None else encoded(body)
    answer: httpx.Response = await desk.call(
        httpx.request, method, f"{desk.url}{path}", content=content, headers=headers
    )
    assert answer.is_success, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.content


async def recorded(desk: Any) -> tuple[str, dict[str, Any]]:
    """The id of a run that has ended, and its record."""
    answer = json.loads(await call(desk, "POST", "/api/v1/runs", {"text": PLAYBOOK, "file": "/ö.yaml"}))
    await desk.daemon.service.wait_run(answer["run"])
    return answer["run"], json.loads(await call(desk, "GET", f"/api/v1/runs/{answer['run']}"))


async def test_a_start_of_a_run(desk: Any) -> None:
    after = desk.events.last_id
    answer = await call(desk, "POST", "/api/v1/runs", {"text": PLAYBOOK, "file": "/one.yaml", "due_wall_ns": 2**62})
    assert answer == encoded(
        {
            "run": json.loads(answer)["run"],
            "playbook": "one",
            "steps": 1,
            "state": "queued",
            "due_wall_ns": 2**62,
            "waits_for": ["its due time"],
            "after": after,
        }
    )


async def test_an_abort_of_a_run(desk: Any) -> None:
    started = json.loads(
        await call(desk, "POST", "/api/v1/runs", {"text": PLAYBOOK, "file": "/one.yaml", "due_wall_ns": 2**62})
    )
    answer = await call(desk, "POST", f"/api/v1/runs/{started['run']}/abort", {"by": "ädä"})
    why = json.loads(answer)["why"]
    assert "ädä" in why
    assert answer == encoded({"run": started["run"], "outcome": "aborted", "why": why, "safe_state": "untouched"})


async def test_runs_of_the_records(desk: Any) -> None:
    run, record = await recorded(desk)
    expected = {
        "id": run,
        "playbook": "one",
        "testbed": "desk",
        "version": "test",
        "started_wall_ns": record["started_wall_ns"],
        "playbook_text": PLAYBOOK,
        "testbed_text": record["testbed_text"],
        "parameters": {"within_s": 3},
        "inventory": record["inventory"],
        "commit": record["commit"],
        "virtual_time": False,
        "ended_wall_ns": record["ended_wall_ns"],
        "outcome": "succeeded",
        "why": "",
        "safe_state": "as-applied",
        "state": "succeeded",
    }
    assert await call(desk, "GET", f"/api/v1/runs/{run}") == encoded(expected)
    for long in ("playbook_text", "testbed_text", "inventory"):
        del expected[long]
    assert await call(desk, "GET", "/api/v1/runs") == encoded([expected])


async def test_documents_of_a_run_and_of_the_event_stream(desk: Any) -> None:
    run, _ = await recorded(desk)
    answer = await call(desk, "GET", f"/api/v1/runs/{run}/documents")
    documents = json.loads(answer)
    assert documents
    assert all([*one] == ["kind", "at_ns", "wall_ns", "data"] for one in documents)
    assert answer == json.dumps(documents, separators=(",", ":")).encode()
    answer = await call(desk, "GET", "/api/v1/documents?after=boot1.0&kind=run.")
    kept = [one for one in documents if one["kind"].startswith("run.")]
    assert kept
    assert answer == encoded({"last": desk.events.last_id, "missed": 0, "documents": kept})
    assert await call(desk, "GET", "/api/v1/documents") == encoded(
        {"last": desk.events.last_id, "missed": 0, "documents": []}
    )


async def test_an_override(desk: Any) -> None:
    body = {"switch": "ocs1", "ends": ["3A..4A"], "to": "force-blocked"}
    ends = ["3A", "4A"]
    answer = await call(desk, "POST", "/api/v1/overrides", body)
    assert answer == encoded({"switch": "ocs1", "ends": ends, "to": "force-blocked", "blocked": ["3A", "4A"]})
    answer = await call(desk, "POST", "/api/v1/overrides", {**body, "to": "normal"})
    assert answer == encoded({"switch": "ocs1", "ends": ends, "to": "normal", "blocked": []})


async def test_liveness(desk: Any) -> None:
    assert await call(desk, "GET", "/healthz") == b'{"alive":true}'


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        (
            "plans",
            {"mod": "säfe"},
            {
                "type": "tag:hwd,2026:bad-input",
                "title": "bad input",
                "status": 422,
                "detail": "mod: is an unknown field",
                "exit_status": 2,
                "problems": ["mod: is an unknown field"],
            },
        ),
        (
            "reconfigurations",
            {"hash": "0" * 12},
            {
                "type": "tag:hwd,2026:refused",
                "title": "refused",
                "status": 409,
                "detail": f"plan {'0' * 12}: not known to this daemon, which keeps the last 256 since its start. "
                "Make it again with `hwd plan`, and apply its hash",
                "exit_status": 3,
            },
        ),
        (
            "nothing",
            {},
            {
                "type": "about:blank",
                "title": "Not Found",
                "status": 404,
                "detail": "POST /api/v1/nothing: Not Found. /api/v1/openapi.json says what there is",
                "exit_status": 2,
            },
        ),
    ],
)
async def test_a_problem(desk: Any, path: str, body: object, problem: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json", **desk.by}
    answer = await desk.call(httpx.post, f"{desk.url}/api/v1/{path}", content=encoded(body), headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (problem["status"], "application/problem+json")
    assert answer.content == encoded(problem)


async def test_a_problem_of_a_device(desk: Any) -> None:
    desk.twin.faults.deny_next = Denial(code="SROF", text="Equipment failure")
    headers = {"Content-Type": "application/json", **desk.by}
    body = encoded({"what": "ocs1:1A-2B"})
    answer = await desk.call(httpx.post, f"{desk.url}/api/v1/reconfigurations", content=body, headers=headers)
    found = json.loads(answer.content)
    assert answer.content == encoded(
        {
            "type": "tag:hwd,2026:device-error",
            "title": "device error",
            "status": 502,
            "detail": found["detail"],
            "exit_status": 1,
            "device": "ocs1",
            "command": found["command"],
            "code": "SROF",
            "text": "Equipment failure",
        }
    )
