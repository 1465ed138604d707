"""Stored demands over HTTP: bytes in, matrices out, and topologies that read them by name."""

import io
from typing import Any

import httpx
import numpy as np
import pytest

from hwd.client import Client
from hwd.model.demand import FILE_BYTES_MAX
from hwd.web.demand_calls import MEDIA_TYPES
from hwd_drivers.core.errors import ConfigError, RefusedError, UnknownError

TABLE = b"h0,h1,h2,h3\n0,1,9,0\n0,0,0,8\n0,0,0,0\n0,0,0,0\n"
"""The most from h0 to h2, and from h1 to h3."""
CROSSED = ["h0.eth0<->h2.eth0", "h1.eth0<->h3.eth0"]
STRAIGHT = ["h0.eth0<->h1.eth0", "h2.eth0<->h3.eth0"]


@pytest.fixture
def testbed_text() -> str:
    hosts = "".join(
        f"  h{n}:\n    twin: {{timing: opus-cx6dx, seed: {n}}}\n"
        f"    nics: {{eth0: {{rdma: mlx5_0, ip: 10.1.{n}.1/32, module: 100g-lr4}}}}\n"
        for n in range(4)
    )
    fibres = "".join(f"  - h{n}.eth0 <-> ocs1.{n + 1}\n" for n in range(4))
    return (
        "testbed: four\nswitches:\n"
        "  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 1}}\n"
        f"hosts:\n{hosts}fibres:\n{fibres}"
    )


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


async def send(desk: Any, data: bytes, media_type: str = "application/octet-stream", **query: Any) -> httpx.Response:
    headers = desk.by | {"Content-Type": media_type}
    async with httpx.AsyncClient(base_url=desk.url, headers=headers, trust_env=False, timeout=30) as http:
        return await http.post("/api/v1/demands", content=data, params=query)


async def test_topology_reads_the_layer_of_a_stored_demand(desk: Any, client: Client) -> None:
    crossed, straight = np.zeros((2, 4, 4))
    crossed[0, 2] = crossed[3, 1] = straight[1, 0] = straight[2, 3] = 5
    data = npz(layer0=straight, layer3=crossed, layer3_microbatch1=straight)
    await desk.call(client.add_demand, "moe", data, hosts=["h0", "h1", "h2", "h3"], by="ada")
    for topology in ("matching", "mfabric"):
        for words, links in (("layer=3", CROSSED), ("", STRAIGHT), ("microbatch=1 layer=3", STRAIGHT)):
            plan = await desk.call(client.plan, what=f"{topology} demand=moe {words}")
            assert sorted(one.link for one in plan.links) == links
            assert plan.what == f"{topology} demand=moe {words}".strip()
    applied = await desk.call(client.apply, what="mfabric demand=moe layer=3")
    assert applied.outcome == "confirmed"
    lease = await desk.call(client.take_lease, holder="ada", ports=["all"], for_s=60)
    made = await desk.call(client.prepare, {"day": "matching demand=moe"}, lease=lease.id)
    assert [target.id for target in made.targets] == ["before", "day"]


async def test_experts_are_summed_to_the_hosts_in_their_order(desk: Any, client: Client) -> None:
    gates = np.zeros((1, 1, 8, 8))
    gates[0, 0, 0, 7] = gates[0, 0, 1, 6] = 4
    added = await desk.call(
        client.add_demand, "moe", npz(demand=gates), hosts=["h2", "h0"], experts_per_gpu=2, gpus_per_server=2
    )
    assert (added.experts, added.hosts, added.total_bytes, added.matrices) == (8, ["h2", "h0"], 8.0, 1)
    assert (await desk.call(client.demand, "moe")).bytes == [[0, 8], [0, 0]]
    plan = await desk.call(client.plan, what="matching demand=moe hosts=h0,h2")
    assert [one.link for one in plan.links] == CROSSED[:1]


@pytest.mark.parametrize("media_type", [*MEDIA_TYPES, "Text/CSV; charset=utf-8"])
async def test_demand_is_added_listed_shown_and_removed(desk: Any, client: Client, media_type: str) -> None:
    assert await desk.call(client.demands) == []
    answer = await send(desk, TABLE, media_type, name="moe", by="ada")
    assert answer.status_code == 201
    (found,) = await desk.call(client.demands)
    assert answer.json() == {
        "name": "moe",
        "by": "ada (unverified)",
        "added_wall_ns": found.added_wall_ns,
        "hosts": ["h0", "h1", "h2", "h3"],
        "experts": None,
        "layers": [0],
        "microbatches": [0],
        "matrices": 1,
        "total_bytes": 18.0,
        "stored_bytes": 128,
    }
    shown = await desk.call(client.demand, "moe")
    assert shown.bytes[0] == [0, 1, 9, 0]
    assert str(shown) == "demand moe, layer 0, micro-batch 0: 4 hosts, 18 bytes"
    assert await desk.call(client.remove_demand, "moe") == found
    assert await desk.call(client.demands) == []
    for method in (client.remove_demand, client.demand):
        with pytest.raises(UnknownError, match="demand 'moe': not stored"):
            await desk.call(method, "moe")


async def test_who_says_nothing_of_himself_is_a_caller_of_the_api(desk: Any, client: Client) -> None:
    assert (await desk.call(client.add_demand, "moe", TABLE)).by == "a caller of the HTTP API"


async def test_second_demand_of_a_name_is_refused_unless_it_replaces(desk: Any, client: Client) -> None:
    await desk.call(client.add_demand, "moe", TABLE)
    with pytest.raises(RefusedError, match="there is one of that name"):
        await desk.call(client.add_demand, "moe", TABLE)
    assert (await desk.call(client.add_demand, "moe", b"h0,h1\n0,1\n1,0\n", replace=True)).hosts == ["h0", "h1"]


@pytest.mark.parametrize(
    ("data", "query", "why"),
    [
        (TABLE, {}, "name: is missing"),
        (TABLE, {"name": "h0:h1:5"}, "demand 'h0:h1:5': is no name of a demand"),
        (TABLE, {"name": "../x"}, "is no name of a demand"),
        (b"", {"name": "moe"}, "the body: is missing"),
        (TABLE[:-4], {"name": "moe"}, "CSV, line 5: has 3 columns, and the header has 4"),
        (TABLE.replace(b"9", b"-9"), {"name": "moe"}, "CSV, line 2, column 3: '-9' is no number of bytes"),
        (TABLE.replace(b"h3", b"h7"), {"name": "moe"}, "no host 'h7'; the testbed has h0, h1, h2, h3"),
        (TABLE, {"name": "moe", "hosts": "h0,,h1"}, "no host ''"),
        (TABLE, {"name": "moe", "experts_per_gpu": "x"}, "experts_per_gpu: must be a valid integer"),
        (TABLE, {"name": "moe", "experts_per_gpu": 1}, "demand of experts needs both"),
        (npz(layer0=np.eye(3)), {"name": "moe"}, "NPZ names no hosts"),
        (npz(layer0=np.eye(3)), {"name": "moe", "hosts": "h0,h1"}, "is 3 x 3, and 2 hosts are named"),
        (npz(layer0=np.eye(2))[:-9], {"name": "moe", "hosts": "h0,h1"}, "NPZ: cannot be read"),
    ],
)
async def test_bad_file_is_refused_with_its_place_and_nothing_is_stored(
    desk: Any, client: Client, data: bytes, query: dict[str, Any], why: str
) -> None:
    answer = await send(desk, data, **query)
    assert (answer.status_code, answer.json()["title"]) == (422, "bad input")
    assert why in answer.json()["detail"]
    assert await desk.call(client.demands) == []


async def test_demand_as_json_is_refused(desk: Any) -> None:
    answer = await send(desk, b'{"h0": {"h1": 5}}', "application/json", name="moe")
    assert answer.status_code == 422
    assert "must be a CSV or NPZ file as it is" in answer.json()["detail"]


async def test_file_may_be_longer_than_another_body_up_to_its_own_limit(desk: Any, client: Client) -> None:
    brackets = b"h0,h1\n" + b"[" * (6 << 20)
    assert "field larger than" in (await send(desk, brackets, name="moe")).json()["detail"], "and is no JSON"
    answer = await send(desk, bytes(FILE_BYTES_MAX + 1), name="moe")
    assert answer.status_code == 413
    assert f"over the {FILE_BYTES_MAX} that it may have" in answer.json()["detail"]
    with pytest.raises(ConfigError, match=f"over the {FILE_BYTES_MAX} of one demand"):
        await desk.call(client.add_demand, "moe", bytes(FILE_BYTES_MAX + 1))


async def test_demand_without_a_token_is_refused(desk: Any) -> None:
    async with httpx.AsyncClient(base_url=desk.url, trust_env=False) as http:
        for method, path in (
            ("POST", "demands?name=x"),
            ("GET", "demands"),
            ("GET", "demands/x"),
            ("DELETE", "demands/x"),
        ):
            assert (await http.request(method, f"/api/v1/{path}")).status_code == 401


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("mfabric demand=moe", "demand 'moe': not stored. `hwd demand list` says which are"),
        ("mfabric demand=there layer=7", "demand there, layer 7, micro-batch 0: not stored; it has layers 0"),
        ("mfabric demand=there layer=x", "mfabric: layer=x is no whole number from 0 on"),
        ("mfabric demand=there layer=9999999999999999999999", "is no whole number from 0 on"),
        ("mfabric demand=there microbatch=5000", "numbered from 0 to 1023"),
        ("mfabric demand=h0:h1:5 layer=3", "mfabric: layer=3: is that of a stored demand, demand=NAME"),
        ("mfabric layer=3", "mfabric: layer=3: is that of a stored demand, demand=NAME"),
        ("mfabric demand=a/b", "demand 'a/b': is no name of a demand"),
        ("ring demand=there", "topology ring: no argument 'demand'"),
        ("nonsense demand=moe", "'nonsense' is no topology"),
        ("mfabric", r"mfabric: needs demand=h0:h1:5,h0:h2:1, what hosts send each other in any unit, or the name"),
    ],
)
async def test_text_that_names_no_stored_demand_says_what_to_do(desk: Any, client: Client, what: str, why: str) -> None:
    await desk.call(client.add_demand, "there", TABLE)
    with pytest.raises(ConfigError) as raised:
        await desk.call(client.plan, what=what)
    assert why in str(raised.value)


async def test_playbook_reads_stored_demands(desk: Any, client: Client) -> None:
    crossed, straight = np.zeros((2, 4, 4))
    crossed[0, 2] = crossed[1, 3] = straight[0, 1] = straight[2, 3] = 5
    data = npz(layer0=straight, layer1=crossed)
    playbook = (
        "playbook: layers\nshows: x\nsteps:\n  - sweep: {layer: [0, 1]}\n    steps:\n"
        "      - apply: {topology: matching, demand: moe, layer: '{{ layer }}'}\n"
    )
    with pytest.raises(ConfigError, match=r"p\.yaml:6: .*demand 'moe': not stored"):
        await desk.call(client.start_run, text=playbook, file="p.yaml")
    await desk.call(client.add_demand, "moe", data, hosts=["h0", "h1", "h2", "h3"])
    run = await desk.call(client.start_run, text=playbook, file="p.yaml")
    await desk.daemon.service.wait_run(run.id)
    assert (await desk.call(client.run_state, run.id)).state == "succeeded"
    (switch,) = await desk.call(client.switches)
    assert {*switch.crossconnects} >= {"1A-3B", "3A-1B", "2A-4B", "4A-2B"}
