"""Both clients have the same calls, and each is one that the daemon answers."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from hwd.client import AsyncClient, Client
from hwd.client.find import Whereabouts
from hwd.testing.running_lab import RunningLab
from hwd_drivers.core.errors import ConfigError

from .conftest import Scripted

CALLS = [name for name, one in vars(AsyncClient).items() if inspect.iscoroutinefunction(one) and name[0] != "_"]
CALLS.remove("aclose")
ARGUMENTS: Mapping[str, Any] = {
    "id": "k3v9",
    "run": "k3v9",
    "reconfiguration": "k3v9",
    "lease": "k3v9",
    "hash": "0" * 12,
    "by": "me",
    "holder": "me",
    "ports": ["ocs1.1"],
    "for_s": 1.0,
    "text": "",
    "file": "x.yaml",
    "playbook": "smoke",
    "fault": {"fault": "clear"},
    "switch": "ocs1",
    "ends": ["1A"],
    "targets": {"day": "ocs1:1A-2B"},
    "target": "day",
    "prepared_set": "k3v9",
    "signal": "INT",
    "name": "train",
    "data": b"h0,h1\n0,1\n1,0\n",
}
"""For what has no default."""


def arguments(name: str) -> dict[str, Any]:
    parameters = inspect.signature(getattr(Client, name)).parameters.values()
    varying = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = (one.name for one in parameters if one.default is one.empty and one.kind not in varying)
    return {name: ARGUMENTS[name] for name in needed if name != "self"}


@pytest.fixture(scope="module")
def known(hwd_running: RunningLab) -> list[str]:
    """Patterns of the requests in the daemon's OpenAPI document: `GET /api/v1/runs/[^/]+`."""
    daemon = Whereabouts.find(environment=hwd_running.environment, testbed=hwd_running.name)
    by = {"Authorization": f"Bearer {daemon.token}"}
    document = httpx2.get(f"{daemon.url}/api/v1/openapi.json", headers=by, trust_env=False).json()
    return [
        method.upper() + " " + re.sub(r"\{\w+\}", "[^/]+", path)
        for path, methods in document["paths"].items()
        for method in methods
    ]


def test_both_clients_have_the_same_names() -> None:
    public = {name for name in vars(Client) if not name.startswith("_")}
    others = {name for name in vars(AsyncClient) if not name.startswith("_")}
    assert public == others - {"aclose", "listen"} | {"close"}


def test_a_call_has_the_same_arguments_on_both() -> None:
    for name in (*CALLS, "events", "follow", "run_program"):
        waits, is_awaited = (inspect.signature(getattr(kind, name)) for kind in (Client, AsyncClient))
        assert waits.parameters == is_awaited.parameters, name


async def test_each_call_is_one_that_the_daemon_knows_and_the_same_from_both(
    server: Scripted, known: list[str]
) -> None:
    server.answers = ["problem"]
    with Client(server.url) as client:
        for name in CALLS:
            with pytest.raises(ConfigError, match="no such id"):
                getattr(client, name)(**arguments(name))
    asked = server.asked.copy()
    server.asked.clear()
    async with AsyncClient(server.url) as aclient:
        for name in CALLS:
            with pytest.raises(ConfigError, match="no such id"):
                await getattr(aclient, name)(**arguments(name))
    assert server.asked == asked
    assert len(asked) == len(CALLS)
    unknown = [one for one in asked if not any(re.fullmatch(path, one.partition("?")[0]) for path in known)]
    assert unknown == []


@pytest.mark.parametrize(("id", "path"), [("../leases", "..%2Fleases"), ("", "%20")])
def test_a_run_that_somebody_typed_is_one_part_of_a_path(id: str, path: str, server: Scripted) -> None:
    server.answers = ["problem"]
    with Client(server.url) as client, pytest.raises(ConfigError):
        client.run(id)
    assert server.asked == [f"GET /api/v1/runs/{path}"]
