"""Real verbs between two machines: events of a device, UD sends, and a reliable connection over the dark."""

import asyncio
from typing import Any

import pytest

from .conftest import Pair

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(600)]

ACK_S = 0.067108864
JIFFY_S = 1 / 250
"""Of Debian's kernel. rxe rounds its timer down to whole jiffies, and the current jiffy counts as one of them.

Source: drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_from_attr.
"""


def falls(events: list[dict[str, Any]]) -> int:
    """That were told one by one, and that were counted."""
    return sum(one["data"]["active"] is False for one in events) + unseen(events)


def unseen(events: list[dict[str, Any]]) -> int:
    return sum(one["data"].get("missed", 0) for one in events)


async def test_ready_is_a_ud_send_both_ways_and_a_connection_outlasts_the_dark(pair: Pair) -> None:
    await pair.watch()
    for one in pair.both:
        note = await one.note()
        assert note["verbs"]["gid"] == f"::ffff:a01:{1 if one is pair.h0 else 2:x}"
        assert note["sources"]["verbs"] == {
            "sees": ["rdma", "ready"],
            "origin": "measured",
            "why_not": "",
            "limits": "",
        }
    await pair.observe("r0")
    for one in pair.both:
        assert (await one.event("ready", "r0"))["data"]["via"] == "verbs-ud"
    await asyncio.sleep(2)  # queue pairs are made and joined after that, and tell nothing
    assert await pair.h0.events("rc-recovery") == []
    await pair.dark("r1", 1.0)
    for one in pair.both:
        recovery = await one.event("rc-recovery", "r1")
        assert recovery["data"] | {"after_s": 0} == {
            "reconfiguration": "r1",
            "peer": "h1.eth0" if one is pair.h0 else "h0.eth0",
            "outcome": "completed",
            "after_s": 0,
            "ack_timeout_s": ACK_S,
            "retries": 7,
        }
        assert 0.9 < recovery["data"]["after_s"] < 15
        rdma = await one.back("rdma", "active")
        assert [(told["data"]["active"], told["source"]) for told in rdma] == [(False, "verbs"), (True, "verbs")]
        on = (await one.back("carrier", "carrier"))[-1]

        def ready_again(said: list[dict[str, Any]], since_ns: int = on["earliest_ns"]) -> Any:
            """It was ready before the dark, too: the link is the same."""
            return next((told for told in said if told.get("kind") == "ready" and told["at_ns"] > since_ns), None)

        assert (await one.found("ready after the dark", ready_again))["data"]["via"] == "verbs-ud"
        assert on["earliest_ns"] <= recovery["at_ns"]
        observed = await one.end()
        assert (observed["rdma"]["lost"], observed["rdma"]["latched"]) == (1, True)


async def test_every_flap_of_the_carrier_is_an_rdma_flap_that_was_seen_or_counted(pair: Pair) -> None:
    await pair.watch()
    await pair.observe("r0")
    await pair.h0.event("ready", "r0")
    for dark_s, lit_s in ((0.05, 0.05), (0.05, 0.02), (0.0, 0.0), (0.01, 0.3), (0.05, 0.0)):
        pair.h0.carrier(False)
        await asyncio.sleep(dark_s)
        pair.h0.carrier(True)
        await asyncio.sleep(lit_s)
    await asyncio.sleep(4)
    changes = int(await pair.h0.machine.read("/sys/class/net/data/carrier_changes"))
    told = [one["data"] for one in await pair.h0.events("carrier")]
    assert told[-1]["carrier"] is True
    first = told[0]["carrier_changes"] - 1 - told[0]["unseen"]
    rdma = await pair.h0.events("rdma")
    assert falls(rdma) == (changes - first) // 2 > 0, (rdma, told)


async def test_a_connection_whose_retries_are_over_is_made_anew(pair: Pair) -> None:
    await pair.watch(retries=1, ack_timeout=14)
    await pair.observe("r0")
    for one in pair.both:
        await one.event("ready", "r0")
    await asyncio.sleep(2)
    await pair.dark("r1", 4.0)
    for one in pair.both:

        def remade(said: list[dict[str, Any]]) -> Any:
            return next((told for told in said if told.get("data", {}).get("outcome") == "re-made"), None)

        await one.found("its queue pair was made anew", remade)
        failed = (await one.events("rc-recovery"))[0]["data"]
        assert (failed["outcome"], failed["why"]) == ("failed", "retry count exceeded (IBV_WC_RETRY_EXC_ERR)")
        assert 2 * (ACK_S - 2 * JIFFY_S) <= failed["after_s"] < 4


async def test_a_device_is_let_go_when_it_is_removed_and_watched_again_when_it_is_back(pair: Pair) -> None:
    await pair.watch()
    await pair.h0.machine.run("rdma", "link", "delete", "rxe0", within_s=10)  # it waits until nobody has it open

    def away(said: list[dict[str, Any]]) -> Any:
        notes = [one["note"] for one in said if "note" in one]
        return notes[-1] if notes[-1]["verbs"] is None else None

    note = await pair.h0.found("it is told", away)
    assert "rxe0" in note["sources"]["verbs"]["why_not"]
    await pair.h0.observe("r1", pair.h1)
    await pair.h1.observe("r1", pair.h0)
    ready = await pair.h1.event("ready", "r1")
    assert ready["data"]["via"].startswith("udp")
    assert ready["data"]["why_udp"] == "h0.eth0 is not probed by verbs"
    await pair.h0.add_device()

    def back(said: list[dict[str, Any]]) -> Any:
        return [one["note"] for one in said if "note" in one][-1]["verbs"]

    await pair.h0.found("it is back", back)


async def test_a_host_without_pyverbs_is_watched_by_files_and_says_what_to_install(pair: Pair) -> None:
    await pair.watch("-S")  # without the folder of Debian's packages
    for one in pair.both:
        note = (await one.note())["sources"]
        assert "python3-pyverbs" in note["verbs"]["why_not"]
        assert note["sysfs"]["sees"] == ["rdma"]
    await pair.dark("r1", 1.0)
    ready = await pair.h0.event("ready", "r1")
    assert ready["data"]["via"] == "udp"
    assert "python3-pyverbs" in ready["data"]["why_udp"]
    states = [(told["data"]["active"], told["source"]) for told in await pair.h0.back("rdma", "active")]
    assert states == [(False, "sysfs"), (True, "sysfs")]
