"""One definition of the calls for both clients, and for the daemon that answers them."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from hwd.client import AsyncClient, Client, calls
from hwd.client.call import Call, CallMethod
from hwd.client.call_methods import CallMethods
from hwd.client.find import Whereabouts
from hwd.testing.running_lab import RunningLab

OFFERED = {name: offer for name, offer in vars(CallMethods).items() if isinstance(offer, CallMethod)}
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
}
"""For what has no default."""


def make(name: str) -> Call[Any]:
    function = getattr(calls, name)
    needed = [one.name for one in inspect.signature(function).parameters.values() if one.default is one.empty]
    call: Call[Any] = function(**{name: ARGUMENTS[name] for name in needed})
    return call


def test_every_call_is_offered_by_its_name() -> None:
    public = {
        name
        for name, function in inspect.getmembers(calls, inspect.isfunction)
        if not name.startswith("_") and function.__module__ == calls.__name__
    }
    assert public - {"document_of", "field"} == OFFERED.keys()
    for name in OFFERED:
        assert getattr(Client, name) is getattr(AsyncClient, name) is getattr(calls, name)


def test_what_is_not_a_call_stands_on_both_clients() -> None:
    only = {name for name in vars(Client) if not name.startswith("_")} - OFFERED.keys()
    others = {name for name in vars(AsyncClient) if not name.startswith("_")} - OFFERED.keys()
    assert {name.replace("aclose", "close") for name in others} == only


@pytest.mark.parametrize("name", OFFERED)
def test_a_call_is_one_that_the_daemon_knows(name: str, hwd_running: RunningLab) -> None:
    daemon = Whereabouts.find(environment=hwd_running.environment, testbed=hwd_running.name)
    by = {"Authorization": f"Bearer {daemon.token}"}
    document = httpx.get(f"{daemon.url}/api/v1/openapi.json", headers=by, trust_env=False).json()
    call = make(name)
    paths = {
        (method.upper(), re.sub(r"\{\w+\}", "[^/]+", path))
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert any(method == call.method and re.fullmatch(path, call.path) for method, path in paths), str(call)


def test_a_run_that_somebody_typed_is_one_part_of_a_path() -> None:
    assert calls.run("../leases").path == "/api/v1/runs/..%2Fleases"
    assert calls.run("").path == "/api/v1/runs/%20"
