"""Numbers at their extremes, as query parameter, part of a path and field of a body, of every call there is."""

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2

EXTREMES = (
    *("-1", "0", "2147483648", "9007199254740992", "9223372036854775807", "9223372036854775808"),
    *("18446744073709551616", "1" + 30 * "0", "-9223372036854775809", "1" + 5000 * "0"),
    *("NaN", "-Infinity", "1e308", "1e999"),
)
BODIES: dict[str, dict[str, Any]] = {
    "EpochBody": {},
    "LeaseBody": {"holder": "ada", "ports": ["ocs1.7"], "for_s": 60},
    "OverrideBody": {"switch": "ocs1", "ends": ["8A"], "to": "normal", "by": "ada"},
    "FaultBody": {"switch": "ocs1", "fault": "slow", "seconds": 0.01},
    "PlanBody": {"what": "ocs1:1A-2B", "mode": "update"},
    "PrepareBody": {"targets": {"a": {"what": "ocs1:1A-2B"}}, "lease": "nothing"},
    "ReconfigurationBody": {"what": "ocs1:1A-2B", "mode": "update"},
    "ReloadBody": {"dry_run": True},
    "ReleaseSetBody": {},
    "RenewBody": {"for_s": 60},
    "RunBody": {"text": "playbook: one\nsteps:\n  - note: one\n", "file": "/one.yaml"},
    "SwitchBody": {"target": "a"},
}
"""What the calls take, beside their numbers; others have none."""
PROBLEM = "application/problem+json"
FAULTS = (
    ("seconds", {"switch": "ocs1", "fault": "slow"}),
    ("pairs", {"switch": "ocs1", "fault": "partial"}),
    ("loss_db", {"switch": "ocs1", "fault": "drift", "ends": ["1A"]}),
    ("over_s", {"switch": "ocs1", "fault": "drift", "ends": ["1A"], "loss_db": 1}),
    ("times", {"port": "h0.eth0", "fault": "flap"}),
    ("down_s", {"port": "h0.eth0", "fault": "flap"}),
    ("seconds", {"host": "h0", "fault": "clock-step"}),
)
FURTHER: list[dict[str, Any]] = [
    *(
        {"method": "post", "url": "/api/v1/faults", "content": json.dumps(fault | {field: "@"}).replace('"@"', number)}
        for field, fault in FAULTS
        for number in EXTREMES
    ),
    *(
        {"method": "get", "url": "/api/v1/documents", "params": {"after": f"{boot}.{number}"}}
        for boot in ("boot1", "another")
        for number in EXTREMES
    ),
]
"""Numbers that the OpenAPI document has no field for: those of faults, and of event ids."""


def numbers_of(schema: dict[str, Any], schemas: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The paths of all numbers of a body."""
    if "$ref" in schema:
        yield from numbers_of(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from numbers_of(one, schemas)
    if schema.get("type") in ("number", "integer"):
        yield ()
    for name, one in schema.get("properties", {}).items():
        for path in numbers_of(one, schemas):
            yield (name, *path)


def with_number(body: dict[str, Any], path: tuple[str, ...], number: str) -> str:
    """The JSON of a body with this number, as it is written, at a place in it."""
    made = copy.deepcopy(body)
    place = made
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = "@"
    return json.dumps(made).replace('"@"', number)


def requests_of(document: dict[str, Any], places: dict[str, str]) -> Iterator[dict[str, Any]]:
    """All calls with one number at an extreme. `places`: the ids for calls of these paths."""
    schemas = document["components"]["schemas"]
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            id = next((id for place, id in places.items() if place in path), "x")
            parts = dict.fromkeys(re.findall(r"{(\w+)}", path), id)
            url = {"method": method, "url": path.format(**parts)}
            for one in call.get("parameters", ()):
                if not [*numbers_of(one["schema"], schemas)]:
                    continue
                for number in EXTREMES:
                    if one["in"] == "path":
                        yield url | {"url": path.format(**{**parts, one["name"]: number})}
                    else:
                        yield url | {"params": {one["name"]: number, "name": "d"}}
            content = call.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                continue
            name = content["schema"].get("$ref", "").rpartition("/")[2]
            for field in numbers_of(content["schema"], schemas):
                for number in EXTREMES:
                    yield url | {"content": with_number(BODIES[name], field, number)}


async def test_number_of_any_size_is_taken_or_refused_with_its_limit_and_is_no_bug(desk: Any) -> None:
    headers = desk.by | {"Content-Type": "application/json"}
    failed, statuses = [], Counter[int]()
    async with httpx2.AsyncClient(base_url=desk.url, headers=headers, trust_env=False, timeout=30) as http:

        async def make(path: str, **body: Any) -> str:
            answer = await http.post(f"/api/v1/{path}", json=body)
            assert answer.is_success, answer.text
            return str(next(iter(answer.json().values())))

        leases = [
            await make("leases", **BODIES["LeaseBody"] | {"ports": ports, "for_s": 600})
            for ports in (["ocs1.3", "ocs1.4"], ["ocs1.6"])
        ]
        prepared = await make(
            "sets", targets={"a": {"what": "ocs1:3A-4B"}, "b": {"what": "ocs1:4A-3B"}}, lease=leases[0]
        )
        places = {"/leases/": leases[1], "/sets/": prepared}
        document = (await http.get("/api/v1/openapi.json")).json()
        for request in (*requests_of(document, places), *FURTHER):
            answer = await http.request(**request)
            statuses[answer.status_code] += 1
            is_said = answer.is_success or (answer.headers["Content-Type"] == PROBLEM and answer.json()["detail"])
            if answer.status_code == 500 or not is_said:
                failed.append((request, answer.status_code, answer.text[:200]))
    assert not failed
    assert statuses[200] > 10
    assert statuses[422] > 200
