import asyncio

import pytest

from hwd.model.bodies import LeaseBody
from hwd.model.daemon import DaemonRecovered, JournalOpen
from hwd.model.host import HostEvent
from hwd.model.instant import Knowledge
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.model.timeline import Timeline
from hwd.ports.claim import Claim
from hwd.ports.ledger import ClaimedError
from hwd.ports.rules import Reason
from hwd.reconfigure.apply.switches import same_fault
from hwd.reconfigure.transfers import InFlightError
from hwd_drivers.core.errors import (
    DeadlineError,
    DeviceError,
    FailedError,
    HwdError,
    LinkError,
    LoginError,
    NotReadyError,
    RefusedError,
    StalePlanError,
)
from hwd_drivers.core.structs import to_plain
from hwd_drivers.devices.facts import SwitchCommand, SwitchRead
from hwd_drivers.twins.server import Denial

from .conftest import CROSSED, STRAIGHT, Lab, wanted

UNMOVED = "Nothing was moved; `hwd status` shows which switches answer"


async def test_apply_is_read_back_ready_and_confirmed(lab: Lab) -> None:
    done = await lab.apply(STRAIGHT, ready_within_s=15)
    assert done.outcome == "confirmed"
    assert lab.light() == wanted(STRAIGHT)
    (timeline,) = lab.emitted(Timeline)
    assert timeline.breaches == []
    assert [link.link for link in timeline.links] == ["h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"]
    for link in timeline.links:
        assert {str(stage.name) for stage in link.stages if stage.knowledge is Knowledge.SEEN} == {
            "control",
            "optical",
            "firmware",
            "carrier",
            "rdma",
            "ready",
            "turnaround",
            "activation",
        }


async def test_second_apply_moves_all_pairs_in_one_command_and_the_same_again_moves_nothing(lab: Lab) -> None:
    for what in (STRAIGHT, CROSSED, CROSSED):
        assert (await lab.apply(what, ready_within_s=15)).outcome == "confirmed"
    assert lab.light() == wanted(CROSSED)
    assert [one.commands for one in lab.emitted(ReconfigurationCommanded)] == [1, 1]
    assert all(reading.ours for reading in lab.emitted(SwitchRead))
    assert all(link.kept for link in lab.emitted(Timeline)[-1].links)


async def test_denial_in_the_middle_rolls_back_with_the_switchs_own_words(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    lab.faults.deny_next = Denial(code="SROF", text="Mirror controller fault")
    with pytest.raises(DeviceError, match=r"SROF.*Mirror controller fault.*rolled-back") as raised:
        await lab.apply(CROSSED, ready_within_s=15)
    assert raised.value.exit_status == 1
    assert lab.light() == wanted(STRAIGHT)
    assert lab.emitted(ReconfigurationEnded)[-1].outcome == "rolled-back"
    assert lab.service.leases.leases() == []


async def test_switch_lost_in_the_middle_is_told_until_it_is_brought_back_when_it_answers(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    applying = asyncio.create_task(lab.apply(CROSSED, ready_within_s=15))
    await asyncio.sleep(0.1)  # virtual: the switch answers after 200 ms
    lab.cut_switch()
    with pytest.raises(LinkError, match="ocs1"):
        await applying
    ended = lab.emitted(ReconfigurationEnded)[-1]
    assert ended.outcome == "failed"
    with pytest.raises((RefusedError, LinkError)):
        await lab.apply(CROSSED)
    if not lab.emitted(JournalOpen):
        await lab.until(JournalOpen)
    assert lab.metrics("hwd_journal_open") == {(): 1}
    (told,) = lab.emitted(JournalOpen)
    assert (told.reconfiguration, "ocs1" in told.why) == (ended.reconfiguration, True)
    lab.faults.refusing = False
    await lab.until(DaemonRecovered)
    assert lab.metrics("hwd_journal_open") == {(): 0}
    assert lab.metrics("hwd_recoveries_total")[("rolled-back",)] == 1
    assert lab.light() == wanted(STRAIGHT)
    await lab.apply(CROSSED, ready_within_s=15)
    assert lab.light() == wanted(CROSSED)


async def test_half_a_link_is_never_ready(lab: Lab) -> None:
    done = await lab.apply("ocs1:1A-3B", ready_within_s=5)
    assert done.links == []  # one way only: no link, nothing to wait for
    assert not [event for event in lab.emitted(HostEvent) if event.type in ("firmware", "carrier")]


async def test_plan_touches_nothing_and_its_hash_is_refused_for_another_state(lab: Lab) -> None:
    plan = await lab.plan(STRAIGHT)
    assert to_plain(plan.moves) == [
        {"switch": "ocs1", "remove": [], "add": ["1A-3B", "2A-4B", "3A-1B", "4A-2B"], "keep": []}
    ]
    assert (lab.light(), lab.emitted(SwitchCommand)) == (set(), [])
    await lab.apply(CROSSED)
    with pytest.raises(RefusedError, match="the switches differ"):
        await lab.apply("", hash=plan.hash)
    plan = await lab.plan(STRAIGHT)
    assert (await lab.apply("", hash=plan.hash)).outcome == "confirmed"
    assert lab.light() == wanted(STRAIGHT)


async def test_lease_of_another_refuses_by_name(lab: Lab) -> None:
    lease = await lab.service.leases.take(LeaseBody(holder="ada", ports=["ocs1.3"], for_s=60))
    with pytest.raises(RefusedError, match=r"ocs1\.3: leased to ada"):
        await lab.apply(STRAIGHT)
    assert lab.light() == set()
    await lab.apply(STRAIGHT, lease=str(lease.lease))
    assert lab.light() == wanted(STRAIGHT)
    (switch,) = (await lab.service.rack.status()).switches
    assert switch.last_change is not None
    assert switch.last_change.by == f"lease {lease.lease} of ada"
    assert switch.last_change.outcome == "confirmed"


async def test_switch_that_is_down_is_named(lab: Lab) -> None:
    lab.cut_switch()
    await asyncio.sleep(1)
    with pytest.raises(LinkError, match="ocs1") as raised:
        await lab.apply(STRAIGHT)
    assert raised.value.exit_status == 4
    assert UNMOVED in str(raised.value)


async def test_switch_that_is_silent_before_the_first_command_has_not_moved(lab: Lab) -> None:
    for ask in (lab.service.light.plan, lab.service.light.apply):
        lab.faults.silent = True
        with pytest.raises(DeadlineError, match=r"ocs1: \S+: no answer within 2 s") as raised:
            await ask(lab.request(STRAIGHT))
        assert UNMOVED in str(raised.value)
        lab.faults.silent = False
        await asyncio.sleep(10)
    assert lab.emitted(SwitchCommand) == []


async def test_an_apply_that_is_rolled_back_while_it_reads_the_switch_sends_nothing(lab: Lab) -> None:
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 1.0})
    before = lab.light()
    applying = asyncio.create_task(lab.apply(CROSSED, id="mine0001"))
    await asyncio.sleep(0.1)
    with pytest.raises(RefusedError, match="mine0001: stopped before it began; nothing was moved"):
        await lab.service.light.roll_back("mine0001")
    with pytest.raises(FailedError, match="stopped"):
        await applying
    await asyncio.sleep(5)
    assert lab.light() == before
    assert lab.emitted(ReconfigurationStarted) == []


def test_an_error_stays_of_its_kind_with_other_words() -> None:
    """Whatever else it carries."""
    refused = LoginError("ocs1: login refused", device="ocs1", command="ACT-USER", code="PICC", text="no such user")
    kinds: list[tuple[HwdError, type[HwdError]]] = [
        (ClaimedError("taken", Claim(id="r1", reason=Reason.LEASE, owner="ada", ports=frozenset())), ClaimedError),
        (InFlightError("sending", frozenset({"h0.eth0"})), RefusedError),
        (StalePlanError("other"), StalePlanError),
        (RefusedError("no"), RefusedError),
        (LinkError("away"), LinkError),
        (refused, LoginError),
        (HwdError("odd"), FailedError),
    ]
    for error, kind in kinds:
        same = same_fault(error, "target a: no")
        assert (type(same), str(same)) == (kind, "target a: no"), error
    login = same_fault(refused, "ocs1: login refused. Nothing was moved")
    assert isinstance(login, LoginError)
    assert (login.device, login.code) == ("ocs1", "PICC")


# --- what the metrics say of a reconfiguration on its way, in a whole world


STRAIGHT_LINKS = {"h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"}
CROSSED_LINKS = {"h0.eth0<->h1.eth1", "h0.eth1<->h1.eth0"}


def ready(lab: Lab) -> dict[str, float]:
    return {link: value for (link,), value in lab.metrics("hwd_link_ready").items()}


async def test_links_are_not_ready_on_the_way_and_ready_at_its_end(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    assert ready(lab) == dict.fromkeys(STRAIGHT_LINKS, 1)
    applying = asyncio.create_task(lab.apply(CROSSED, ready_within_s=15))
    await lab.until(ReconfigurationState, state="waiting")
    await asyncio.sleep(1)  # virtual: the firmware takes 3 s
    assert lab.metrics("hwd_reconfigurations_under_way")[("waiting",)] == 1
    assert ready(lab) == dict.fromkeys(CROSSED_LINKS, 0)
    await applying
    assert ready(lab) == dict.fromkeys(CROSSED_LINKS, 1)
    assert sum(lab.metrics("hwd_reconfigurations_under_way").values()) == 0


async def test_links_that_nobody_waited_for_are_dark_and_then_unknown(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    assert ready(lab) == dict.fromkeys(STRAIGHT_LINKS, 0)
    await asyncio.sleep(15)
    assert ready(lab) == {}


async def test_after_a_way_back_the_old_links_are_there_and_the_new_ones_are_not(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    with pytest.raises(NotReadyError):
        await lab.apply(CROSSED, ready_within_s=1)
    assert ready(lab) == dict.fromkeys(STRAIGHT_LINKS, 0)
    assert lab.metrics("hwd_reconfigurations_total")[("rolled-back",)] == 1
    await asyncio.sleep(15)
    assert ready(lab) == {}  # their carrier is back, and nobody measured a transfer


async def test_while_the_broker_is_away_no_carrier_is_known_and_then_the_present_ones_are(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    before = lab.metrics("hwd_nic_carrier")
    assert set(before.values()) == {1}
    assert set(lab.metrics("hwd_agent_up").values()) == {1}
    lab.world.broker.stop()
    await asyncio.sleep(1)
    assert set(lab.metrics("hwd_agent_up").values()) == {0}
    assert lab.metrics("hwd_nic_carrier") == {}
    assert {*(await lab.service.rack.status()).links.values()} == {None}
    lab.world.broker.start()
    await asyncio.sleep(30)
    assert lab.metrics("hwd_nic_carrier") == before
    assert {*(await lab.service.rack.status()).links.values()} == {True}
