"""Smallest worlds that once broke a rule: what was found, and is mended."""

import pytest

from hwd.sim.execution import play
from hwd.sim.plan import (
    AbortRun,
    Apply,
    BadDisk,
    Claim,
    Confirm,
    CutClient,
    DelayMessages,
    Departure,
    EndTransfer,
    KickLease,
    Kill,
    PrepareSet,
    ReleaseLease,
    RollBack,
    RunJob,
    RunPlaybook,
    Step,
    StopBroker,
    SwitchSet,
    TakeLease,
    TwinFault,
    WorldPlan,
)

BOTH = "1A-2B,2A-1B"
TRUNKED = "ocs1:1A-5B,5A-1B,2A-6B,6A-2B ocs2:1A-5B,5A-1B,2A-6B,6A-2B"
CROSSED = "ocs1:1A-5B,5A-1B,2A-6B,6A-2B ocs2:2A-5B,5A-2B,1A-6B,6A-1B"
PANEL_IN_THE_WAY = (
    "a cross-connect that a panel made after the read of a plan, at an end that the plan takes, counted as a change "
    "without a journal entry (seed 5215)"
)
COUNTED_AGAIN = (
    "changes that an agent with a failed disk had sent, and counted again after its death, counted as recorded twice "
    "(seed 6776)"
)
LEASE_OVER_MEANWHILE = "a lease that was released while another was being deleted ended the daemon (seed 251)"
SET_TRIED_WITHOUT_A_PAUSE = (
    "a set with somebody else's cross-connect beside it was brought to its target without end or pause (seed 55)"
)
JOURNAL_OF_EIO = "a journal that refused a begin with EIO was not written again: the daemon stayed not ready (seed 205)"

END_LOST_BY_THE_RECORDS = (
    "the daemon died after the journal had an end and before the records had it: they never got it (seed {})"
)

ABORT_WAITED_FOR_THE_RECORDS = "an abort waited for records that did not answer, with the light back long before"
EVENTS_BY_A_STEPPED_CLOCK = "the look took events of a host whose clock was stepped in a wrong order (seed 259)"
RECOVERY_DID_NOT_DRAIN = (
    "a recovery cut transfers in flight without its wait where another of its switches was away (seed 280)"
)

SET_STUCK_BY_A_PANEL = (
    "a set whose crossconnects a panel had taken could not be switched any more, to no target (seed 2937)"
)
TAKEN_UNDER_A_TRANSFER = (
    "a switch of a disturbed set took the light of a transfer, joined with an end of the set by a panel (seed 4033)"
)
BOOTS_IN_THE_ORDER_OF_RECORDS = (
    "events of an earlier boot of an agent, recorded after those of its next one, counted in that order (seed 8321)"
)
GRANTED_AND_NEVER_TOLD = (
    "a lease that was granted in its turn, and expired while the daemon was away that had died before it told that, "
    "counted as a request that the records lack (seed {})"
)

LET_GO_TWICE = (
    "ranks whose grant was lost with the power, and who were let go once more, had begun too early (seed 2082)"
)
FOUND = {
    ABORT_WAITED_FOR_THE_RECORDS: WorldPlan(
        seed=1,
        rack="one-switch",
        steps=(
            Step(number=0, at_s=1.0, act=RunPlaybook(wanted=("ocs1:1A-4B,4A-1B", "ocs1:2A-3B,3A-2B"))),
            Step(number=1, at_s=1.01, act=BadDisk(disk="records", error="hangs", writes=0, for_s=30.0)),
            Step(number=2, at_s=1.2, act=AbortRun(of=0)),
            Step(number=3, at_s=15.0, act=RollBack(of=0)),
        ),
        one_in=0,
    ),
    LEASE_OVER_MEANWHILE: WorldPlan(
        seed=251,
        rack="one-switch",
        steps=(
            Step(number=0, at_s=0.5, act=TakeLease(ports=("ocs1.1",), for_s=1.0)),
            Step(number=1, at_s=0.5, act=TakeLease(ports=("ocs1.2",), for_s=30.0)),
            Step(number=2, at_s=1.4, act=BadDisk(disk="records", error="hangs", writes=0, for_s=0.3)),
            Step(number=3, at_s=1.6, act=ReleaseLease(of=1)),
        ),
        one_in=0,
    ),
    SET_TRIED_WITHOUT_A_PAUSE: WorldPlan(
        seed=55,
        rack="trunks",
        steps=(
            Step(number=0, at_s=0.5, act=TakeLease(ports=("all",), for_s=30.0)),
            Step(number=1, at_s=0.8, act=PrepareSet(wanted=(TRUNKED, CROSSED), lease=0, rule="t0", ready_within_s=2.0)),
            Step(number=2, at_s=1.0, act=Kill(node="daemon", callbacks=1, away_s=1.0)),
            Step(
                number=3,
                at_s=1.5,
                act=TwinFault(fault={"switch": "ocs1", "fault": "panel", "add": ["4A-4B", "3A-1B"]}, for_s=0.2),
            ),
        ),
        one_in=0,
    ),
    JOURNAL_OF_EIO: WorldPlan(
        seed=205,
        rack="one-switch",
        steps=(
            Step(number=0, at_s=1.0, act=BadDisk(disk="journal", error="EIO", writes=0, for_s=1.0)),
            Step(number=1, at_s=1.5, act=Apply(what="ocs1:1A-4B,4A-1B")),
            Step(number=2, at_s=3.0, act=RollBack(of=1)),
        ),
        one_in=0,
    ),
    EVENTS_BY_A_STEPPED_CLOCK: WorldPlan(
        seed=259,
        rack="trunks",
        steps=(
            Step(
                number=0,
                at_s=1.201,
                act=RunPlaybook(
                    wanted=(
                        "ocs1:1A-6B,6A-1B,2A-5B,5A-2B ocs2:1A-6B,6A-1B,2A-5B,5A-2B",
                        "ocs1:1A-6B,6A-1B,2A-7B,7A-2B ocs2:1A-6B,6A-1B,2A-7B,7A-2B",
                    ),
                    steps=True,
                ),
            ),
            Step(
                number=11,
                at_s=1.201,
                act=TwinFault(fault={"host": "h0", "fault": "clock-step", "seconds": 3600.0}, for_s=0.2),
            ),
            Step(number=8, at_s=1.277, act=BadDisk(disk="journal", error="EIO", writes=0, for_s=0.2)),
            Step(number=1, at_s=6.482, act=TakeLease(ports=("h0.eth1", "ocs2.5", "h0.eth0"), for_s=4.0)),
            Step(number=2, at_s=6.7, act=AbortRun(of=0)),
            Step(number=3, at_s=7.532, act=TakeLease(ports=("all",), for_s=30.0)),
            Step(number=9, at_s=7.741, act=StopBroker(for_s=4.0)),
            Step(number=4, at_s=8.444, act=AbortRun(of=0)),
            Step(number=5, at_s=10.814, act=AbortRun(of=0)),
            Step(
                number=6,
                at_s=11.062,
                act=Apply(
                    what="ocs1:1A-6B,6A-1B,2A-7B,7A-2B ocs2:1A-6B,6A-1B,2A-7B,7A-2B",
                    lease=3,
                    confirm_within_s=2.0,
                    steps=True,
                ),
            ),
            Step(number=7, at_s=11.567, act=Confirm(of=6)),
            Step(number=10, at_s=11.975, act=Kill(node="daemon", callbacks=1, away_s=0.0)),
        ),
        one_in=10,
    ),
    RECOVERY_DID_NOT_DRAIN: WorldPlan(
        seed=280,
        rack="trunks",
        steps=(
            Step(
                number=0,
                at_s=2.215,
                act=Apply(what="ocs1:1A-6B,6A-1B,2A-5B,5A-2B ocs2:1A-6B,6A-1B,2A-5B,5A-2B", confirm_within_s=2.0),
            ),
            Step(number=1, at_s=2.661, act=Confirm(of=0)),
            Step(number=11, at_s=3.159, act=Claim(host="h0", port="eth0", within_s=10.0)),
            Step(number=8, at_s=6.475, act=TwinFault(fault={"switch": "ocs1", "fault": "wrong"}, for_s=1.0)),
            Step(number=12, at_s=6.609, act=EndTransfer(of=11, dies=True)),
            Step(number=18, at_s=7.021, act=Claim(host="h0", port="eth0", within_s=0.5, wait_s=1.0)),
            Step(
                number=2,
                at_s=7.088,
                act=Apply(
                    what="ocs1:1A-6B,6A-1B,2A-7B,7A-2B ocs2:1A-6B,6A-1B,2A-7B,7A-2B",
                    ready_within_s=2.0,
                    confirm_within_s=2.0,
                ),
            ),
            Step(
                number=7,
                at_s=7.169,
                act=TwinFault(fault={"switch": "ocs1", "fault": "panel", "add": ["4A-6B"]}, for_s=1.0),
            ),
            Step(number=9, at_s=7.516, act=Claim(host="h0", port="eth1", within_s=10.0, wait_s=4.0)),
            Step(
                number=19,
                at_s=7.74,
                act=Apply(
                    what="ocs1:1A-6B,6A-1B,2A-5B,5A-2B ocs2:1A-6B,6A-1B,2A-5B,5A-2B",
                    confirm_within_s=1.0,
                    drain_within_s=5.0,
                ),
            ),
            Step(
                number=3,
                at_s=8.344,
                act=Apply(what="ocs1:1A-5B,5A-1B,2A-6B,6A-2B ocs2:2A-5B,5A-2B,1A-6B,6A-1B", steps=True),
            ),
            Step(number=16, at_s=8.562, act=Claim(host="h0", port="eth0", within_s=3.0, wait_s=4.0)),
            Step(number=6, at_s=8.62, act=Kill(node="daemon", callbacks=73, away_s=0.0)),
            Step(
                number=4,
                at_s=10.106,
                act=Apply(
                    what="ocs1:1A-7B,7A-1B,2A-5B,5A-2B ocs2:1A-7B,7A-1B,2A-5B,5A-2B", confirm_within_s=0.5, steps=True
                ),
            ),
            Step(number=13, at_s=10.456, act=Claim(host="h1", port="eth1", within_s=0.5)),
            Step(number=17, at_s=10.74, act=EndTransfer(of=16)),
            Step(number=14, at_s=10.846, act=EndTransfer(of=13, dies=True)),
            Step(
                number=15,
                at_s=11.008,
                act=Apply(what="ocs1:2A-6B,6A-2B ocs2:2A-6B,6A-2B", confirm_within_s=1.0, drain_within_s=0.5),
            ),
            Step(number=10, at_s=11.568, act=EndTransfer(of=9, dies=True)),
            Step(number=5, at_s=11.956, act=TakeLease(ports=("all",), for_s=4.0)),
        ),
        one_in=10,
    ),
    END_LOST_BY_THE_RECORDS.format(203): WorldPlan(
        seed=203,
        rack="two-switches",
        steps=(
            Step(number=10, at_s=1.631, act=TwinFault(fault={"switch": "ocs1", "fault": "garble"}, for_s=1.0)),
            Step(number=0, at_s=4.202, act=Apply(what=f"ocs1:{BOTH} ocs2:{BOTH}", confirm_within_s=2.0)),
            Step(number=1, at_s=4.74, act=Apply(what=f"ocs1:{BOTH} ocs2:{BOTH}", confirm_within_s=2.0)),
            Step(number=2, at_s=6.668, act=Apply(what=f"ocs2:{BOTH}", confirm_within_s=2.0)),
            Step(
                number=3,
                at_s=6.703,
                act=RunPlaybook(wanted=(f"ocs1:{BOTH} ocs2:{BOTH}", f"ocs1:{BOTH} ocs2:3A-4B,4A-3B")),
            ),
            Step(number=4, at_s=8.461, act=Apply(what="ocs1:1A-3B,2A-4B ocs2:1A-3B,2A-4B", confirm_within_s=2.0)),
            Step(number=5, at_s=9.015, act=RollBack(of=2)),
            Step(number=8, at_s=9.08, act=Kill(node="daemon", callbacks=1, away_s=3.0)),
            Step(number=6, at_s=9.978, act=RollBack(of=2)),
            Step(number=7, at_s=11.813, act=Confirm(of=2)),
            Step(number=9, at_s=11.813, act=TwinFault(fault={"port": "h0.eth0", "fault": "unplug"}, for_s=4.0)),
        ),
        one_in=40,
    ),
    END_LOST_BY_THE_RECORDS.format(580): WorldPlan(
        seed=580,
        rack="one-switch",
        steps=(
            Step(number=0, at_s=2.521, act=TakeLease(ports=("h1.eth1", "h0.eth1"), for_s=1.0)),
            Step(number=1, at_s=2.702, act=ReleaseLease(of=0)),
            Step(number=9, at_s=2.702, act=Kill(node="daemon", callbacks=1, away_s=3.0)),
            Step(number=2, at_s=5.87, act=Apply(what="ocs1:2A-3B,3A-2B", confirm_within_s=2.0)),
            Step(number=8, at_s=5.87, act=Kill(node="daemon", callbacks=564, away_s=3.0)),
            Step(
                number=3,
                at_s=6.984,
                act=Apply(what="ocs1:1A-3B,3A-1B,2A-4B,4A-2B", lease=0, ready_within_s=2.0, confirm_within_s=2.0),
            ),
            Step(number=4, at_s=7.592, act=Apply(what="ocs1:5A-6B,6A-5B", ready_within_s=2.0, confirm_within_s=0.5)),
            Step(number=7, at_s=8.752, act=BadDisk(disk="journal", error="EIO", writes=0, for_s=0.2)),
            Step(
                number=5,
                at_s=8.992,
                act=RunPlaybook(wanted=("ocs1:5A-6B,6A-5B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"), mtu=9000),
            ),
            Step(number=6, at_s=10.843, act=DelayMessages(by_s=8.0, for_s=4.0)),
        ),
        one_in=200,
    ),
    PANEL_IN_THE_WAY: WorldPlan(
        seed=5215,
        rack="one-switch",
        steps=(
            Step(number=0, at_s=0.142, act=Apply(what="ocs1:5A-7B,1A-none", confirm_within_s=0.5)),
            Step(number=1, at_s=0.9, act=Apply(what="ocs1:2A-4B,4A-2B", steps=True)),
            Step(number=2, at_s=1.82, act=Apply(what="ocs1:5A-6B,6A-5B", confirm_within_s=0.5)),
            Step(
                number=8,
                at_s=1.82,
                act=TwinFault(fault={"switch": "ocs1", "fault": "panel", "add": ["3A-6B"]}, for_s=4.0),
            ),
            Step(number=3, at_s=2.509, act=Confirm(of=1)),
            Step(number=4, at_s=5.85, act=Apply(what="ocs1:1A-4B,4A-1B", confirm_within_s=0.5, steps=True)),
            Step(number=5, at_s=8.565, act=Apply(what="ocs1:2A-4B,4A-2B", confirm_within_s=0.5, steps=True)),
            Step(number=6, at_s=8.57, act=Confirm(of=4)),
            Step(number=7, at_s=10.042, act=RunPlaybook(wanted=("ocs1:1A-3B,3A-1B",), mtu=9000, steps=True)),
        ),
        one_in=10,
    ),
    COUNTED_AGAIN: WorldPlan(
        seed=6776,
        rack="two-switches",
        steps=(
            Step(number=0, at_s=2.31, act=Apply(what="ocs1:1A-2B,2A-1B", confirm_within_s=0.5, steps=True)),
            Step(number=5, at_s=2.31, act=BadDisk(disk="h1", error="ENOSPC", writes=0, for_s=1.0)),
            Step(number=6, at_s=2.31, act=Kill(node="agent h1", callbacks=554, away_s=0.5)),
            Step(number=7, at_s=2.885, act=BadDisk(disk="records", error="hangs", writes=0, for_s=0.2)),
        ),
        one_in=40,
        departures=(),
    ),
    SET_STUCK_BY_A_PANEL: WorldPlan(
        seed=2937,
        rack="trunks",
        steps=(
            Step(number=0, at_s=0.068, act=TakeLease(ports=("all",), for_s=30.0)),
            Step(
                number=1,
                at_s=0.902,
                act=PrepareSet(
                    wanted=(
                        "ocs1:1A-6B,6A-1B,2A-7B,7A-2B ocs2:1A-6B,6A-1B,2A-7B,7A-2B",
                        "ocs1:1A-5B,5A-1B,2A-6B,6A-2B ocs2:2A-5B,5A-2B,1A-6B,6A-1B",
                    ),
                    lease=0,
                    rule="finish",
                ),
            ),
            Step(number=2, at_s=2.006, act=SwitchSet(of=1, target="t1")),
            Step(
                number=15,
                at_s=3.734,
                act=TwinFault(fault={"switch": "ocs2", "fault": "panel", "add": ["1A-1B", "2A-3B"]}, for_s=0.2),
            ),
            Step(number=8, at_s=10.921, act=SwitchSet(of=1, target="t1")),
            Step(number=9, at_s=11.254, act=SwitchSet(of=1, target="t0")),
        ),
        one_in=200,
        departures=(),
    ),
    BOOTS_IN_THE_ORDER_OF_RECORDS: WorldPlan(
        seed=8321,
        rack="one-switch",
        steps=(
            Step(number=1, at_s=0.355, act=Apply(what="ocs1:1A-4B,4A-1B", confirm_within_s=2.0)),
            Step(number=6, at_s=0.451, act=Kill(node="daemon", callbacks=1, away_s=0.5)),
            Step(number=7, at_s=1.474, act=Kill(node="agent h1", callbacks=1, away_s=0.0)),
            Step(number=13, at_s=2.303, act=TakeLease(ports=("all",), for_s=4.0, queue=True)),
        ),
        one_in=10,
        departures=(),
    ),
    TAKEN_UNDER_A_TRANSFER: WorldPlan(
        seed=4033,
        rack="two-switches",
        steps=(
            Step(number=0, at_s=1.068, act=TakeLease(ports=("all",), for_s=5.0)),
            Step(number=12, at_s=1.175, act=Claim(host="h0", port="eth0", within_s=10.0)),
            Step(
                number=1,
                at_s=1.66,
                act=PrepareSet(
                    wanted=(f"ocs2:{BOTH}", f"ocs1:3A-4B,4A-3B ocs2:{BOTH}"),
                    lease=0,
                    rule="finish",
                ),
            ),
            Step(
                number=11,
                at_s=4.722,
                act=TwinFault(fault={"switch": "ocs1", "fault": "panel", "add": ["3A-1B"]}, for_s=1.0),
            ),
            Step(number=3, at_s=5.059, act=SwitchSet(of=1, target="before")),
            Step(number=4, at_s=5.161, act=SwitchSet(of=1, target="t0")),
        ),
        one_in=40,
        departures=(),
    ),
    GRANTED_AND_NEVER_TOLD.format(2489): WorldPlan(
        seed=2489,
        rack="trunks",
        steps=(
            Step(number=0, at_s=4.72, act=TakeLease(ports=("ocs1.6", "ocs1.2", "ocs1.5", "ocs1.4"), for_s=4.0)),
            Step(number=10, at_s=5.268, act=TakeLease(ports=("all",), for_s=1.0, queue=True)),
            Step(
                number=1,
                at_s=5.817,
                act=Apply(what="ocs1:1A-6B,6A-1B,2A-5B,5A-2B ocs2:1A-6B,6A-1B,2A-5B,5A-2B", lease=0, steps=True),
            ),
            Step(number=2, at_s=6.036, act=ReleaseLease(of=0)),
            Step(number=7, at_s=6.309, act=Kill(node="daemon", callbacks=1, away_s=0.5)),
            Step(number=5, at_s=6.543, act=CutClient(node="agent h0")),
        ),
        one_in=0,
        departures=(),
    ),
    GRANTED_AND_NEVER_TOLD.format(4546): WorldPlan(
        seed=4546,
        rack="trunks",
        steps=(
            Step(number=12, at_s=0.286, act=TakeLease(ports=("h0.eth0", "ocs1.4"), for_s=2.0, in_s=2.665)),
            Step(number=0, at_s=2.011, act=Apply(what=CROSSED, confirm_within_s=2.0, steps=True)),
            Step(
                number=8,
                at_s=5.844,
                act=TakeLease(ports=("all",), for_s=4.0, queue=True, priority=5, heartbeat_s=1.0),
            ),
            Step(number=20, at_s=10.724, act=Claim(host="h1", port="eth1", within_s=10.0)),
            Step(
                number=22,
                at_s=10.724,
                act=Apply(
                    what="ocs1:1A-7B,7A-1B,2A-5B,5A-2B ocs2:1A-7B,7A-1B,2A-5B,5A-2B",
                    confirm_within_s=1.0,
                    drain_within_s=5.0,
                ),
            ),
            Step(number=5, at_s=11.704, act=Kill(node="daemon", callbacks=181, away_s=0.5)),
            Step(number=10, at_s=12.405, act=TakeLease(ports=("all",), for_s=1.0, in_s=0.347, heartbeat_s=1.0)),
            Step(number=11, at_s=13.579, act=KickLease(of=10)),
        ),
        one_in=10,
        departures=(),
    ),
    LET_GO_TWICE: WorldPlan(
        seed=2082,
        rack="trunks",
        steps=(
            Step(number=0, at_s=0.802, act=Apply(what="ocs1:2A-6B,6A-2B ocs2:2A-6B,6A-2B", confirm_within_s=0.5)),
            Step(number=8, at_s=1.544, act=RunJob(collectives=5, seconds=0.2)),
            Step(number=10, at_s=1.772, act=RunJob(collectives=4, seconds=0.02)),
            Step(number=12, at_s=2.896, act=Kill(node="daemon", callbacks=169, away_s=3.0)),
            Step(number=9, at_s=3.795, act=Kill(node="agent h0", callbacks=19, away_s=3.0)),
        ),
        one_in=10,
        departures=(
            Departure(step=4056, turns=3),
            Departure(step=4064, turns=3),
            Departure(step=4153, turns=5),
            Departure(step=4155, turns=3),
            Departure(step=4157, turns=4),
            Departure(step=4158, turns=4),
            Departure(step=4161, turns=4),
            Departure(step=4170, turns=2),
            Departure(step=4245, turns=5),
            Departure(step=4265, turns=4),
        ),
    ),
}


@pytest.mark.parametrize("found", FOUND)
def test_what_was_found_does_not_come_again(found: str) -> None:
    report = play(FOUND[found])
    assert [str(one) for one in report.violations] == [], "\n".join(report.story)
