"""What the metrics say of a reconfiguration on its way, in a whole world: of its links, and of what stays open."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hwd.model.documents.daemon import DaemonRecovered, JournalOpen
from hwd.model.documents.reconfigurations import ReconfigurationEnded, ReconfigurationState
from hwd_drivers.core.errors import LinkError, NotReadyError

STRAIGHT, CROSSED = "ocs1:1A-3B,3A-1B,2A-4B,4A-2B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
STRAIGHT_LINKS = {"h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"}
CROSSED_LINKS = {"h0.eth0<->h1.eth1", "h0.eth1<->h1.eth0"}

RunLab = Callable[..., None]


def samples(lab: Any, name: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by those of its labels."""
    text = bytes(lab.world.daemon.metrics.render()).decode()
    families = text_string_to_metric_families(text)
    return {
        tuple(sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def ready(lab: Any) -> dict[str, float]:
    return {link: value for (link,), value in samples(lab, "hwd_link_ready").items()}


def test_links_are_not_ready_on_the_way_and_ready_at_its_end(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        assert ready(lab) == dict.fromkeys(STRAIGHT_LINKS, 1)
        applying = asyncio.create_task(lab.service.apply(lab.request(CROSSED, ready_within_s=15)))
        await lab.until(ReconfigurationState, state="waiting")
        await asyncio.sleep(1)  # virtual: the firmware takes 3 s
        assert samples(lab, "hwd_reconfigurations_under_way")[("waiting",)] == 1
        assert ready(lab) == dict.fromkeys(CROSSED_LINKS, 0)
        await applying
        assert ready(lab) == dict.fromkeys(CROSSED_LINKS, 1)
        assert sum(samples(lab, "hwd_reconfigurations_under_way").values()) == 0

    run_lab(test)


def test_links_that_nobody_waited_for_are_dark_and_then_unknown(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        await lab.service.apply(lab.request(STRAIGHT))
        assert ready(lab) == dict.fromkeys(STRAIGHT_LINKS, 0)
        await asyncio.sleep(15)
        assert ready(lab) == {}

    run_lab(test)


def test_after_a_way_back_the_old_links_are_there_and_the_new_ones_are_not(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        with pytest.raises(NotReadyError):
            await lab.service.apply(lab.request(CROSSED, ready_within_s=1))
        assert ready(lab) == dict.fromkeys(STRAIGHT_LINKS, 0)
        assert samples(lab, "hwd_reconfigurations_total")[("rolled-back",)] == 1
        await asyncio.sleep(15)
        assert ready(lab) == {}  # their carrier is back, and nobody measured a transfer

    run_lab(test)


def test_what_stays_open_is_told_until_it_is_undone(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        faults = lab.world.rack.switches["ocs1"].faults
        applying = asyncio.create_task(lab.service.apply(lab.request(CROSSED, ready_within_s=15)))
        await asyncio.sleep(0.1)  # virtual: the switch answers after 200 ms
        faults.refusing = True
        faults.reset()
        with pytest.raises(LinkError, match="ocs1"):
            await applying
        if not lab.emitted(JournalOpen):
            await lab.until(JournalOpen)
        assert samples(lab, "hwd_journal_open") == {(): 1}
        (told,) = lab.emitted(JournalOpen)
        assert told.reconfiguration == lab.emitted(ReconfigurationEnded)[-1].reconfiguration
        assert "ocs1" in told.why
        faults.refusing = False
        await lab.until(DaemonRecovered)
        assert samples(lab, "hwd_journal_open") == {(): 0}
        assert samples(lab, "hwd_recoveries_total")[("rolled-back",)] == 1

    run_lab(test)


def test_while_the_broker_is_away_no_carrier_is_known_and_then_the_present_ones_are(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        before = samples(lab, "hwd_nic_carrier")
        assert set(before.values()) == {1}
        assert set(samples(lab, "hwd_agent_up").values()) == {1}
        lab.world.broker.stop()
        await asyncio.sleep(1)
        assert set(samples(lab, "hwd_agent_up").values()) == {0}
        assert samples(lab, "hwd_nic_carrier") == {}
        assert {*lab.service.status().links.values()} == {None}
        lab.world.broker.start()
        await asyncio.sleep(30)
        assert samples(lab, "hwd_nic_carrier") == before
        assert {*lab.service.status().links.values()} == {True}

    run_lab(test)
