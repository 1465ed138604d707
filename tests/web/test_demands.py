"""Stored demands over HTTP: bytes in, matrices out, and topologies that read them by name."""

import numpy as np
import pytest

from hwd.client import AsyncClient
from hwd.web.calls.demand_calls import MEDIA_TYPES
from hwd_drivers.core.errors import ConfigError, UnknownError

from .conftest import FOUR_HOSTS, Desk
from .demand_files import TABLE, npz

CROSSED = ["h0.eth0<->h2.eth0", "h1.eth0<->h3.eth0"]
STRAIGHT = ["h0.eth0<->h1.eth0", "h2.eth0<->h3.eth0"]


@pytest.fixture
def testbed_text() -> str:
    return FOUR_HOSTS


async def test_topology_reads_the_layer_of_a_stored_demand(client: AsyncClient) -> None:
    crossed, straight = np.zeros((2, 4, 4))
    crossed[0, 2] = crossed[3, 1] = straight[1, 0] = straight[2, 3] = 5
    data = npz(layer0=straight, layer3=crossed, layer3_microbatch1=straight)
    await client.add_demand("moe", data, hosts=["h0", "h1", "h2", "h3"], by="ada")
    for topology in ("matching", "mfabric"):
        for words, links in (("layer=3", CROSSED), ("", STRAIGHT), ("microbatch=1 layer=3", STRAIGHT)):
            plan = await client.plan(what=f"{topology} demand=moe {words}")
            assert sorted(one.link for one in plan.links) == links
            assert plan.what == f"{topology} demand=moe {words}".strip()
    applied = await client.apply(what="mfabric demand=moe layer=3")
    assert applied.outcome == "confirmed"
    lease = await client.take_lease(holder="ada", ports=["all"], for_s=60)
    made = await client.prepare({"day": "matching demand=moe"}, lease=lease.id)
    assert [target.id for target in made.targets] == ["before", "day"]


async def test_experts_are_summed_to_the_hosts_in_their_order(client: AsyncClient) -> None:
    gates = np.zeros((1, 1, 8, 8))
    gates[0, 0, 0, 7] = gates[0, 0, 1, 6] = 4
    added = await client.add_demand("moe", npz(demand=gates), hosts=["h2", "h0"], experts_per_gpu=2, gpus_per_server=2)
    assert (added.experts, added.hosts, added.total_bytes, added.matrices) == (8, ["h2", "h0"], 8.0, 1)
    assert (await client.demand("moe")).bytes == [[0, 8], [0, 0]]
    plan = await client.plan(what="matching demand=moe hosts=h0,h2")
    assert [one.link for one in plan.links] == CROSSED[:1]


@pytest.mark.parametrize("media_type", [*MEDIA_TYPES, "Text/CSV; charset=utf-8"])
async def test_demand_is_added_listed_shown_and_removed(desk: Desk, client: AsyncClient, media_type: str) -> None:
    assert await client.demands() == []
    answer = await desk.ask("POST", "/api/v1/demands?name=moe&by=ada", TABLE, **{"Content-Type": media_type})
    assert answer.status_code == 201
    (found,) = await client.demands()
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
    shown = await client.demand("moe")
    assert shown.bytes[0] == [0, 1, 9, 0]
    assert str(shown) == "demand moe, layer 0, micro-batch 0: 4 hosts, 18 bytes"
    assert await client.remove_demand("moe") == found
    assert await client.demands() == []
    for method in (client.remove_demand, client.demand):
        with pytest.raises(UnknownError, match="demand 'moe': not stored"):
            await method("moe")


async def test_playbook_reads_stored_demands(desk: Desk, client: AsyncClient) -> None:
    crossed, straight = np.zeros((2, 4, 4))
    crossed[0, 2] = crossed[1, 3] = straight[0, 1] = straight[2, 3] = 5
    data = npz(layer0=straight, layer1=crossed)
    playbook = (
        "playbook: layers\nshows: x\nsteps:\n  - sweep: {layer: [0, 1]}\n    steps:\n"
        "      - apply: {topology: matching, demand: moe, layer: '{{ layer }}'}\n"
    )
    with pytest.raises(ConfigError, match=r"p\.yaml:6: .*demand 'moe': not stored"):
        await client.start_run(text=playbook, file="p.yaml")
    added = await client.add_demand("moe", data, hosts=["h0", "h1", "h2", "h3"])
    assert added.by == "a caller of the HTTP API", "who says nothing of himself"
    run = await client.start_run(text=playbook, file="p.yaml")
    await desk.daemon.service.runs.wait(run.id)
    assert (await client.run_state(run.id)).state == "succeeded"
    (switch,) = await client.switches()
    assert {*switch.crossconnects} >= {"1A-3B", "3A-1B", "2A-4B", "4A-2B"}
