"""What is refused, in the words of the answers: one desk, and a table over the routes."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest

from hwd.client import AsyncClient
from hwd.model.demand import FILE_BYTES_MAX
from hwd_drivers.core.errors import ConfigError

from ..answers import check_golden
from .conftest import FOUR_HOSTS, Desk
from .demand_files import TABLE, npz

REFUSALS = Path(__file__).with_name("refusals.txt")
RUN = {"text": "playbook: one\nsteps:\n  - note: one\n", "file": "/one.yaml"}


def calls() -> Iterator[tuple[str, str, object]]:
    """Method, path below /api/v1/ and body."""
    for plan in (
        {"mod": "säfe"},
        {"mod": "safe", "ready_within_s": -1},
        {"mode": "rash", "what": 7},
        {"file": {"name": "", "texts": ""}, "confirm_within_s": 90_000},
        {"what": "/etc/hostname.yaml"},
        {"file": {"name": "ring.yaml", "text": "topology: ring\nlinks: [h0.eth0 <-> h9.eth0]\n"}},
    ):
        yield "POST", "plans", plan
    for overrides in ({"loss": "x"}, {"overload": ""}, {"overload": " "}, {"overload": 7}, ["rate"], {"overload": "x"}):
        yield "POST", "plans", {"what": "ocs1:1A-8B", "overrides": overrides}
    for body in (
        {"hash": "0" * 12},
        {"hash": "0" * 12, "mode": "safe"},
        {"what": "ocs1:1A-2B", "id": "Not an id"},
        {"what": "ocs1:1A-8B"},
    ):
        yield "POST", "reconfigurations", body
    yield "POST", "reconfigurations/-/confirm", {}
    yield "POST", "reconfigurations/-/rollback", {}
    yield "POST", "reconfigurations/k3v9/give-up", {}
    yield "POST", "leases", {"holder": "me", "ports": ["ocs1.1", 3]}
    sets = {"targets": {"day": {"what": 3, "files": 1}}, "overrides": {"rates": "x", "rate": ""}, "lease": "k3v9"}
    yield "POST", "sets", sets
    for fault in (
        {"fault": "reboot", "switch": "ocs1"},
        {"fault": "clear", "lease": 3},
        {"fault": "half", "switch": "ocs7"},
        {"fault": "explode", "switch": "ocs1"},
        {"fault": "half", "switch": "ocs1"},
    ):
        yield "POST", "faults", fault
    yield "POST", "overrides", {"switch": "ocs1", "ends": ["9A"], "to": "normal"}
    yield "POST", "overrides", {"switch": "ocs1", "ends": ["1A"], "to": "sideways"}
    yield "POST", "runs", {"text": "playbook: one\nshows: x\nsteps: [{jump: 1}]\n", "file": "/one.yaml"}
    for due in (-1, 1 << 63, "soon", 1.5):
        yield "POST", "runs", RUN | {"due_wall_ns": due}
    yield "POST", "runs/x/abort", None
    yield "POST", "runs/x/abort", []
    for path in ("runs/nowhere", "runs/nowhere/documents", "runs/nowhere/state", "runs?before=nobody"):
        yield "GET", path, None
    for limit in (0, 1_000_000):
        yield "GET", f"runs?limit={limit}", None
    yield "POST", "nothing", {}


def demands() -> Iterator[tuple[str, bytes]]:
    """Query and file. A file may be longer than another body, and is not read as JSON."""
    yield "", TABLE
    for name in ("h0:h1:5", "../x"):
        yield f"name={name}", TABLE
    for file in (
        b"",
        TABLE[:-4],
        TABLE.replace(b"9", b"-9"),
        TABLE.replace(b"h3", b"h7"),
        b"h0,h1\n" + b"[" * (6 << 20),
    ):
        yield "name=moe", file
    for more in ("hosts=h0,,h1", "experts_per_gpu=x", "experts_per_gpu=1"):
        yield f"name=moe&{more}", TABLE
    yield "name=moe", npz(layer0=np.eye(3))
    yield "name=moe&hosts=h0,h1", npz(layer0=np.eye(3))
    yield "name=moe&hosts=h0,h1", npz(layer0=np.eye(2))[:-9]
    yield "name=moe", bytes(FILE_BYTES_MAX + 1)


PLANS = (
    *("mfabric demand=moe", "mfabric demand=there layer=7", "mfabric demand=there layer=x"),
    *("mfabric demand=there layer=9999999999999999999999", "mfabric demand=there microbatch=5000"),
    *("mfabric demand=h0:h1:5 layer=3", "mfabric layer=3", "mfabric demand=a/b", "ring demand=there"),
    *("nonsense demand=moe", "mfabric"),
)
"""Texts that name no stored demand."""


def line(asked: str, answer: httpx2.Response) -> str:
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == answer.status_code
    said = "\n  ".join(problem.get("problems") or [problem["detail"]])
    return f"{asked}\n{answer.status_code} {problem['title']}, exit status {problem['exit_status']}\n  {said}\n\n"


@pytest.fixture
def testbed_text() -> str:
    return FOUR_HOSTS


async def test_refusals_are_what_they_were(desk: Desk, client: AsyncClient) -> None:
    """To take over what is said now: delete the file and run this twice."""
    text = ""
    for method, path, body in calls():
        said = b"" if body is None else body
        text += line(
            f"{method} {path} {json.dumps(body, ensure_ascii=False)}", await desk.ask(method, f"/api/v1/{path}", said)
        )
    for kind, content in (
        ("text/plain", b"{}"),
        ("text/plain; application/json", b"{}"),
        ("application/json", b"{"),
        ("application/json", b"\xff"),
    ):
        answer = await desk.ask("POST", "/api/v1/plans", content, **{"Content-Type": kind})
        text += line(f"POST plans {kind} {content!r}", answer)
    text += line("GET status of evil.example", await desk.ask("GET", "/api/v1/status", Host="evil.example"))
    assert await client.runs() == []
    octets = {"Content-Type": "application/octet-stream"}
    for query, file in demands():
        answer = await desk.ask("POST", f"/api/v1/demands?{query}", file, **octets)
        kind = "NPZ" if file.startswith(b"PK") else f"{file[:44]!r}"
        text += line(f"POST demands {query} {kind}", answer)
    text += line("POST demands as JSON", await desk.ask("POST", "/api/v1/demands?name=moe", {"h0": {"h1": 5}}))
    assert await client.demands() == []
    await client.add_demand("there", TABLE)
    for what in PLANS:
        text += line(f"POST plans {what}", await desk.ask("POST", "/api/v1/plans", {"what": what}))
    check_golden(REFUSALS, text)
    with pytest.raises(ConfigError, match=f"over the {FILE_BYTES_MAX} of one demand"):
        await client.add_demand("moe", bytes(FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="limit"):
        await client.runs(limit=0)
