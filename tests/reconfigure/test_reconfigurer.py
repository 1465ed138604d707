import asyncio

import msgspec
import pytest

from hwd.model.bodies import ReconfigurationBody
from hwd.model.documents.daemon import DaemonRecovered
from hwd.model.documents.hosts import HostEvent
from hwd.model.documents.leases import LeaseReleased
from hwd.model.documents.reconfigurations import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.model.instant import Knowledge
from hwd.model.timeline import Timeline
from hwd.ports.claim import Claim
from hwd.ports.ledger import ClaimedError
from hwd.ports.rules import Reason
from hwd.reconfigure.apply.switches import same_fault
from hwd.reconfigure.transfers import InFlightError
from hwd_drivers.core.errors import (
    ConfigError,
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
from hwd_drivers.core.values import PortSide
from hwd_drivers.devices.facts import SwitchCommand, SwitchRead
from hwd_drivers.twins.server import Denial

from .conftest import CROSSED, STRAIGHT, Lab, RunLab

EMPTY = "ocs1:"
UNMOVED = "Nothing was moved; `hwd status` shows which switches answer"


def same(one: str, other: str) -> bool:
    return sorted(one.removeprefix("ocs1:").split(",")) == sorted(other.removeprefix("ocs1:").split(","))


def test_apply_is_read_back_ready_and_confirmed(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        done = await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        assert done.outcome == "confirmed"
        assert same(lab.light(), STRAIGHT)
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

    run_lab(test)


def test_second_apply_moves_all_pairs_in_one_command(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        await lab.service.apply(lab.request(CROSSED, ready_within_s=15))
        assert same(lab.light(), CROSSED)
        assert [one.commands for one in lab.emitted(ReconfigurationCommanded)] == [1, 1]
        assert all(reading.ours for reading in lab.emitted(SwitchRead))

    run_lab(test)


def test_same_again_moves_nothing_and_every_link_never_left(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        again = await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        assert again.outcome == "confirmed"
        assert len(lab.emitted(ReconfigurationCommanded)) == 1
        links = lab.emitted(Timeline)[1].links
        assert all(link.kept for link in links)

    run_lab(test)


def test_denial_in_the_middle_rolls_back_with_the_switchs_own_words(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        lab.world.rack.switches["ocs1"].faults.deny_next = Denial(code="SROF", text="Mirror controller fault")
        with pytest.raises(DeviceError, match=r"SROF.*Mirror controller fault.*rolled-back") as raised:
            await lab.service.apply(lab.request(CROSSED, ready_within_s=15))
        assert raised.value.exit_status == 1
        assert same(lab.light(), STRAIGHT)
        assert lab.emitted(ReconfigurationEnded)[-1].outcome == "rolled-back"
        assert lab.service.leases() == []

    run_lab(test)


def test_mirror_that_is_stuck_is_no_success(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        ends = [PortSide.parse(text) for text in ("1A", "4B")]
        lab.world.rack.switches["ocs1"].faults.stick(ends)
        with pytest.raises((FailedError, NotReadyError)):
            await lab.service.apply(lab.request(CROSSED, ready_within_s=15))
        assert lab.emitted(ReconfigurationEnded)[-1].outcome in ("rolled-back", "failed")

    run_lab(test)


def test_switch_lost_in_the_middle_is_brought_back_when_it_answers(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        faults = lab.world.rack.switches["ocs1"].faults
        applying = asyncio.create_task(lab.service.apply(lab.request(CROSSED, ready_within_s=15)))
        await asyncio.sleep(0.1)  # virtual: the switch answers after 200 ms
        faults.refusing = True
        faults.reset()
        with pytest.raises(LinkError, match="ocs1"):
            await applying
        assert lab.emitted(ReconfigurationEnded)[-1].outcome == "failed"
        with pytest.raises((RefusedError, LinkError)):
            await lab.service.apply(lab.request(CROSSED))
        faults.refusing = False
        await lab.until(DaemonRecovered)
        assert same(lab.light(), STRAIGHT)
        await lab.service.apply(lab.request(CROSSED, ready_within_s=15))
        assert same(lab.light(), CROSSED)

    run_lab(test)


def test_link_not_ready_in_time_goes_back(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        with pytest.raises(NotReadyError, match=r"not ready within 1 s: h0.eth0<->h1.eth1") as raised:
            await lab.service.apply(lab.request(CROSSED, ready_within_s=1))
        assert raised.value.exit_status == 5
        assert same(lab.light(), STRAIGHT)

    run_lab(test)


def test_half_a_link_is_never_ready(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        done = await lab.service.apply(lab.request("ocs1:1A-3B", ready_within_s=5))
        assert done.links == []  # one way only: no link, nothing to wait for
        assert not [event for event in lab.emitted(HostEvent) if event.type in ("firmware", "carrier")]

    run_lab(test)


def test_hash_of_an_older_state_is_refused(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        plan = await lab.service.plan(lab.request(CROSSED))
        await lab.service.apply(lab.request(STRAIGHT))
        with pytest.raises(RefusedError, match="the switches differ"):
            await lab.service.apply(ReconfigurationBody(hash=str(plan.hash)))
        plan = await lab.service.plan(lab.request(CROSSED))
        assert (await lab.service.apply(ReconfigurationBody(hash=str(plan.hash)))).outcome == "confirmed"
        assert same(lab.light(), CROSSED)

    run_lab(test)


def test_plan_touches_nothing(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        plan = await lab.service.plan(lab.request(STRAIGHT))
        assert msgspec.to_builtins(plan.moves) == [
            {"switch": "ocs1", "remove": [], "add": ["1A-3B", "2A-4B", "3A-1B", "4A-2B"], "keep": []}
        ]
        assert lab.light() == EMPTY
        assert lab.emitted(SwitchCommand) == []

    run_lab(test)


def test_safe_mode_refuses_what_is_in_use(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request("ocs1:1A-3B"))
        with pytest.raises(RefusedError, match="cannot connect 1A-4B: 1A already carries 1A-3B"):
            await lab.service.apply(lab.request("ocs1:1A-4B", mode="safe"))
        assert lab.light() == "ocs1:1A-3B"

    run_lab(test)


def test_overwrite_leaves_only_what_is_wanted(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request("ocs1:1A-3B,5A-6B"))
        await lab.service.apply(lab.request("ocs1:1A-4B", mode="overwrite"))
        assert lab.light() == "ocs1:1A-4B"

    run_lab(test)


def test_lease_of_another_refuses_by_name(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        lease = await lab.service.take_lease(holder="ada", ports=["ocs1.3"], for_s=60)
        with pytest.raises(RefusedError, match=r"ocs1\.3: leased to ada"):
            await lab.service.apply(lab.request(STRAIGHT))
        assert lab.light() == EMPTY
        await lab.service.apply(lab.request(STRAIGHT, lease=str(lease.lease)))
        assert same(lab.light(), STRAIGHT)
        (switch,) = lab.service.status().switches
        assert switch.last_change is not None
        assert switch.last_change.by == f"lease {lease.lease} of ada"
        assert switch.last_change.outcome == "confirmed"

    run_lab(test)


def test_nothing_of_another_lease_goes_dark(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        await lab.service.take_lease(holder="ada", ports=["h1.eth1"], for_s=60)
        with pytest.raises(RefusedError, match=r"h1\.eth1: leased to ada"):
            await lab.service.apply(lab.request("ocs1:2A-5B"))  # would darken h0.eth1<->h1.eth1
        assert same(lab.light(), STRAIGHT)

    run_lab(test)


def test_lease_expires_by_itself(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.take_lease(holder="ada", ports=["ocs1.3"], for_s=60)
        await asyncio.sleep(61)
        assert lab.emitted(LeaseReleased)[-1].why == "expired"
        assert (await lab.service.apply(lab.request(STRAIGHT))).outcome == "confirmed"

    run_lab(test)


def test_unconfirmed_goes_back_by_itself(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT))
        held = await lab.service.apply(lab.request(CROSSED, confirm_within_s=30))
        assert held.state == "awaiting-confirm"
        assert same(lab.light(), CROSSED)
        await asyncio.sleep(31)
        assert same(lab.light(), STRAIGHT)
        assert lab.emitted(ReconfigurationEnded)[-1].outcome == "rolled-back"

    run_lab(test)


def test_confirmed_in_time_stays(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        held = await lab.service.apply(lab.request(CROSSED, confirm_within_s=30))
        await lab.service.confirm(str(held.reconfiguration))
        await asyncio.sleep(60)
        assert same(lab.light(), CROSSED)

    run_lab(test)


def test_unknown_port_touches_nothing(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        with pytest.raises(ConfigError, match="9A"):
            await lab.service.apply(lab.request("ocs1:9A-1B"))
        assert lab.emitted(SwitchCommand) == []

    run_lab(test)


def test_switch_that_is_down_is_named(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        faults = lab.world.rack.switches["ocs1"].faults
        faults.refusing = True
        faults.reset()
        await asyncio.sleep(1)
        with pytest.raises(LinkError, match="ocs1") as raised:
            await lab.service.apply(lab.request(STRAIGHT))
        assert raised.value.exit_status == 4
        assert UNMOVED in str(raised.value)

    run_lab(test)


def test_switch_that_is_silent_before_the_first_command_has_not_moved(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        faults = lab.world.rack.switches["ocs1"].faults
        for ask in (lab.service.plan, lab.service.apply):
            faults.silent = True
            with pytest.raises(DeadlineError, match=r"ocs1: \S+: no answer within 2 s") as raised:
                await ask(lab.request(STRAIGHT))
            assert UNMOVED in str(raised.value)
            faults.silent = False
            await asyncio.sleep(10)
        assert lab.emitted(SwitchCommand) == []

    run_lab(test)


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.1, 0.25, 2.0])
def test_daemon_killed_at_any_stage_goes_back_at_its_next_start(run_lab: RunLab, after_s: float) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        task = asyncio.create_task(lab.service.apply(lab.request(CROSSED, ready_within_s=15)))
        await lab.until(ReconfigurationState, state="journaled")
        await asyncio.sleep(after_s)
        lab.world.kill("daemon")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(1)
        lab.world.start_daemon()
        await lab.world.settled()
        await asyncio.sleep(1)
        assert same(lab.light(), STRAIGHT)
        assert lab.emitted(DaemonRecovered)[-1].outcome == "rolled-back"
        await lab.service.apply(lab.request(CROSSED, ready_within_s=15))
        assert same(lab.light(), CROSSED)

    run_lab(test)


def test_an_apply_that_is_rolled_back_while_it_reads_the_switch_sends_nothing(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 1.0})
        before = lab.light()
        applying = asyncio.create_task(lab.service.apply(lab.request(CROSSED, id="mine0001")))
        await asyncio.sleep(0.1)
        with pytest.raises(RefusedError, match="mine0001: stopped before it began; nothing was moved"):
            await lab.service.roll_back("mine0001")
        with pytest.raises(FailedError, match="stopped"):
            await applying
        await asyncio.sleep(5)
        assert lab.light() == before
        assert lab.emitted(ReconfigurationStarted) == []

    run_lab(test)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClaimedError("taken", Claim(id="r1", reason=Reason.LEASE, owner="ada", ports=frozenset())), ClaimedError),
        (InFlightError("sending", frozenset({"h0.eth0"})), RefusedError),
        (StalePlanError("other"), StalePlanError),
        (RefusedError("no"), RefusedError),
        (LinkError("away"), LinkError),
        (HwdError("odd"), FailedError),
    ],
)
def test_an_error_stays_of_its_kind_with_other_words(error: HwdError, kind: type[HwdError]) -> None:
    """Whatever else it carries."""
    same = same_fault(error, "target a: no")
    assert (type(same), str(same)) == (kind, "target a: no")


def test_an_error_of_a_login_stays_one_with_more_words() -> None:
    refused = LoginError("ocs1: login refused", device="ocs1", command="ACT-USER", code="PICC", text="no such user")
    same = same_fault(refused, "ocs1: login refused. Nothing was moved")
    assert isinstance(same, LoginError)
    assert (str(same), same.device, same.code) == ("ocs1: login refused. Nothing was moved", "ocs1", "PICC")
