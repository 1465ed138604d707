"""A reconfiguration between two machines with RDMA, from the command to a real send."""

import asyncio
import itertools
from functools import partial
from typing import Any

import pytest

from ..system.conftest import CROSSED, STRAIGHT, Mosquitto
from .rack import HOSTS, PORTS, SoftRoce

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(900)]

ENDS = {f"{host}.{port}" for host in HOSTS for port in PORTS}
OF_THE_TWIN = {"dark", "light", "firmware"}
OF_THE_MACHINE = {"carrier", "rdma", "ready"}
WITHIN_S = "40"
SAID_BY = {"firmware": "phy", "carrier": "carrier", "light": "light", "dark": "light"}
"""By what events tell, what the truth calls it."""


async def test_a_reconfiguration_between_machines_is_seen_from_the_twins_light_to_real_sends(
    soft_roce: SoftRoce, mosquitto: Mosquitto
) -> None:
    lab = soft_roce.lab
    await soft_roce.up(mosquitto.url)
    async with soft_roce.telling(), soft_roce.witnesses():
        for crossconnects in (STRAIGHT, CROSSED, STRAIGHT):
            pairs = f"ocs1:{','.join(sorted(crossconnects))}"
            said = await lab.hwd("apply", pairs, "--yes", "--ready-within", WITHIN_S)
            assert said.status == 0, said
        assert await lab.light() == STRAIGHT
        await lab.found("reliable connections that were there before have got through", partial(_recovered, soft_roce))
        await _send_over_a_reliable_connection(soft_roce)
        await lab.nothing_lost()
        events = await lab.documents("host.event")
        _lies_within_its_bounds(soft_roce, events)
        _is_where_the_kernels_saw_it(soft_roce, events)
        *_, timeline = await lab.documents("timeline")
        _has_a_whole_waterfall(timeline, events)


def _has_a_whole_waterfall(timeline: dict[str, Any], events: list[dict[str, Any]]) -> None:
    """All instants of all ends come from their real source, in order.

    Light is sampled: a machine without CPU time may miss it at one end of a link.
    """
    assert {end["end"] for end in timeline["ends"]} == ENDS
    looked_at: dict[str, set[str]] = {}
    for end in timeline["ends"]:
        instants = {instant["name"]: instant for instant in end["instants"]}
        seen = {name for name, instant in instants.items() if instant["knowledge"] == "seen"}
        looked_at.setdefault(end["link"], set()).update(seen)
        assert seen >= OF_THE_MACHINE | {"firmware"}, f"{end}\n{events}"
        for name in OF_THE_TWIN | OF_THE_MACHINE:
            instant = instants[name]
            if name not in seen:
                assert instant["why"], instant
                continue
            assert instant["earliest_ns"] <= instant["best_ns"] <= instant["latest_ns"]
            assert instant["origin"] in ({"twin", "fitted"} if name in OF_THE_TWIN else {"kernel"}), instant
        assert instants["rdma"]["source"] == "verbs"
        assert instants["ready"]["why"] == "via verbs-ud"
        in_order = [name for name in ("dark", "light", "firmware", "carrier", "ready") if name in seen]
        for one, other in itertools.pairwise(in_order):
            assert instants[one]["earliest_ns"] <= instants[other]["latest_ns"], end
    assert all(names >= {"dark", "light"} for names in looked_at.values()), events
    assert timeline["breaches"] == []


def _lies_within_its_bounds(soft_roce: SoftRoce, events: list[dict[str, Any]]) -> None:
    """Light and PHY changed in the twin within the bounds that the machine reported.

    Carrier did not change before the cable was plugged in or pulled.
    """
    for type, what in SAID_BY.items():
        truths = soft_roce.truths(what)
        for port in ENDS:
            told = [event for event in events if event["type"] == type and _port(event) == port]
            ups = {"light": True, "dark": False}.get(type)
            done = [one for one in truths if one["port"] == port and (ups is None or one["up"] is ups)]
            if type in ("light", "dark") and len(told) < len(done):
                continue  # missed, which the waterfall says
            assert len(told) == len(done), f"{port} {type}: {told}\n{done}"
            for event, truth in zip(told, done, strict=True):
                assert truth["before_ns"] <= event["latest_ns"], f"{event}\n{truth}"
                if type != "carrier":
                    assert event["earliest_ns"] <= truth["after_ns"], f"{event}\n{truth}"


def _is_where_the_kernels_saw_it(soft_roce: SoftRoce, events: list[dict[str, Any]]) -> None:
    """A witness on each host saw the carrier between the cable's move and the report, by our clock alone."""
    seen = [one for one in soft_roce.seen if one.port in ENDS]
    for port in ENDS:
        told = [event for event in events if event["type"] == "carrier" and _port(event) == port]
        ups = [event["data"]["carrier"] for event in told]
        witnessed = [one for one in seen if one.port == port][-len(told) :]
        assert [one.up for one in witnessed] == ups == [True, False, True, False, True], f"{port}: {told}\n{witnessed}"
        for event, one in zip(told, witnessed, strict=True):
            assert event["earliest_ns"] <= one.by_ns, f"{event}\n{one}"


async def _recovered(soft_roce: SoftRoce) -> bool | None:
    """Each end's send that was posted in the dark; soft-RoCE sends it again for ever."""
    events = await soft_roce.lab.documents("host.event")
    told = [event for event in events if event["type"] == "rc-recovery"]
    assert {event["data"]["outcome"] for event in told} <= {"completed"}, told
    return {_port(event) for event in told} == ENDS or None


async def _send_over_a_reliable_connection(soft_roce: SoftRoce) -> None:
    """From h0.eth1 to h1.eth1, by a program that knows nothing of agents."""
    await soft_roce.hosts["h0"].run("ip", "route", "replace", "10.1.1.2/32", "dev", "eth1", "src", "10.1.1.1")
    await soft_roce.hosts["h1"].run("ip", "route", "replace", "10.1.1.1/32", "dev", "eth1", "src", "10.1.1.2")
    exchange = ("ibv_rc_pingpong", "-g", "1", "-n", "20")
    server = asyncio.create_task(soft_roce.hosts["h1"].run(*exchange, "-d", "rxe1"))
    again = "until ibv_rc_pingpong -g 1 -n 20 -d rxe1 10.1.1.2; do sleep 0.2; done"
    client = await soft_roce.hosts["h0"].run("sh", "-c", again)
    assert "20 iters" in client.out
    assert "20 iters" in (await server).out


def _port(event: dict[str, Any]) -> str:
    return f"{event['host']}.{event['port']}"
