"""A reconfiguration has one end, whoever asks for it, and however often."""

import asyncio
import errno
from typing import Any

import pytest

from hwd.model.bodies import ActBody, LeaseBody
from hwd.model.daemon import DaemonRecovered, JournalDamaged, JournalGivenUp, JournalRefused
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted, ReconfigurationState
from hwd.model.status import StorageStatus
from hwd.model.timeline import Timeline
from hwd.reconfigure.apply.reconfiguration import Reconfiguration, State
from hwd.reconfigure.journal.recovery_loop import AGAIN_S
from hwd.records.journal_id import MemoryJournalId
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.errors import FailedError, HwdError, NotReadyError, RefusedError
from hwd_drivers.core.frames import encode_frame
from hwd_drivers.core.structs import to_plain
from hwd_drivers.devices.facts import SwitchCommand, SwitchDown, SwitchUp
from hwd_drivers.twins.server import Denial

from ..conftest import CROSSED, STRAIGHT, Lab, wanted


def excludes_zero(what: str) -> list[str]:
    """In the order of their ports."""
    return sorted(wanted(what), key=lambda one: int(one.partition("A")[0]))


async def held(lab: Lab) -> Reconfiguration:
    """Straight is confirmed, crossed is driven and waits for a confirm."""
    await lab.apply(STRAIGHT)
    await lab.apply(CROSSED, confirm_within_s=1200)
    (one,) = lab.reconfigurer.under_way
    return one


def ends(lab: Lab) -> list[Any]:
    return [end.outcome for end in lab.emitted(ReconfigurationEnded)]


async def test_confirm_and_roll_back_at_once_have_one_winner(lab: Lab) -> None:
    one = await held(lab)
    asked = lab.reconfigurer.confirm(one), lab.reconfigurer.roll_back(one, "asked for")
    refused, _ = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(refused, RefusedError), "the confirm reads the switches first"
    assert "too late" in str(refused)
    assert ends(lab) == ["confirmed", "rolled-back"]
    assert lab.light() == wanted(STRAIGHT)
    assert len(lab.emitted(Timeline)) == 2


async def test_roll_back_that_comes_after_a_confirm_is_refused_and_says_how_to_go_back(lab: Lab) -> None:
    apply = asyncio.create_task(lab.apply("pairs", ready_within_s=15))
    await lab.until(ReconfigurationState, state="confirming")
    (one,) = lab.reconfigurer.under_way
    assert one.state is State.CONFIRMING, "the agents are still asked"
    before = lab.light()
    with pytest.raises(RefusedError, match=f"not rolled back, it was confirmed.*`hwd rollback --to {one.id}`"):
        await lab.service.light.roll_back(one.id)
    assert (await apply).outcome == "confirmed"
    assert lab.light() == before


async def test_cancelled_roll_back_goes_on_to_its_end(lab: Lab) -> None:
    one = await held(lab)
    back = asyncio.create_task(lab.reconfigurer.roll_back(one, "asked for"))
    await asyncio.sleep(0.05)
    back.cancel()
    await asyncio.gather(back, return_exceptions=True)
    await lab.reconfigurer.close()
    assert one.state is State.ENDED
    assert ends(lab) == ["confirmed", "rolled-back"]
    assert lab.light() == wanted(STRAIGHT)
    await lab.apply(CROSSED)


async def test_wait_that_somebody_rolls_back_ends_at_once_and_says_so(lab: Lab) -> None:
    one = await held(lab)
    began_s = asyncio.get_running_loop().time()
    waiting = asyncio.create_task(lab.reconfigurer.wait_ready(one, within_s=86_400))
    await asyncio.sleep(0.5)
    await lab.reconfigurer.roll_back(one, "asked for by ada")
    for wait in (waiting, lab.reconfigurer.wait_ready(one, within_s=15)):
        with pytest.raises(FailedError, match="rolled-back meanwhile: asked for by ada"):
            await wait
    assert asyncio.get_running_loop().time() - began_s < 5
    with pytest.raises(RefusedError, match="somebody has ended it already"):
        await lab.reconfigurer.completion.await_confirm(one)
    assert (one.state, lab.light()) == (State.ENDED, wanted(STRAIGHT))


async def test_wait_that_somebody_confirms_ends_with_the_light_as_it_is(lab: Lab) -> None:
    one = await held(lab)
    waiting = asyncio.create_task(lab.reconfigurer.wait_ready(one, within_s=86_400))
    await asyncio.sleep(0.5)
    await lab.reconfigurer.confirm(one)
    await waiting
    assert one.state is State.ENDED
    assert lab.light() == wanted(CROSSED)


async def test_roll_back_that_is_denied_is_tried_again_until_it_is_done(lab: Lab) -> None:
    one = await held(lab)
    lab.faults.deny_next = Denial(code="SROF", text="busy")
    await lab.reconfigurer.roll_back(one, "asked for")
    assert ends(lab)[-1] == "failed"
    with pytest.raises(RefusedError, match="was cut off and is not undone yet"):
        await lab.apply(CROSSED)
    with pytest.raises(RefusedError, match=r"ocs1\.1: reconfiguration .* was cut off and is not undone yet"):
        await lab.lease("ocs1.1", for_s=60)
    for ask in (lab.service.light.confirm, lab.service.light.roll_back):
        for id in (one.id, "-"):
            with pytest.raises(RefusedError) as refused:
                await ask(id)
            said = str(refused.value)
            assert f"{one.id} ({one.plan.what}) was cut off and is not undone yet: " in said
            assert f"`hwd give-up {one.id}` leaves it as it is" in said
            assert "ago" not in said, "it has not ended"
            assert "has ended" not in said
    if not lab.emitted(DaemonRecovered):
        await lab.until(DaemonRecovered)
    assert lab.light() == wanted(STRAIGHT)
    await lab.lease("ocs1.1", for_s=60)


async def test_what_is_left_open_can_be_given_up_and_stays_as_it_is(lab: Lab) -> None:
    one = await held(lab)
    with pytest.raises(RefusedError, match=rf"it is under way, .*`hwd rollback {one.id}` ends it. Left open: none"):
        await lab.service.light.give_up(one.id, ActBody(by="ada"))
    lab.cut_switch()
    await lab.reconfigurer.roll_back(one, "asked for")
    assert ends(lab)[-1] == "failed"
    with pytest.raises(
        RefusedError, match=r"reconfiguration other: cannot be given up, it is not left open. Left open: " + one.id
    ):
        await lab.service.light.give_up("other", ActBody(by="ada"))
    with pytest.raises(RefusedError, match=f"`hwd give-up {one.id}` leaves it as it is"):
        await lab.apply(CROSSED)
    told = await lab.service.light.give_up(one.id, ActBody(by="ada"))
    assert told.left == ["ocs1: " + ", ".join(f"{each} unstated" for each in excludes_zero(CROSSED))]
    assert [document.by for document in lab.emitted(JournalGivenUp)] == ["ada"]
    assert lab.reconfigurer.recovery.left_open() == ()
    await lab.lease("ocs1.1", for_s=60)
    lab.faults.refusing = False
    await lab.until(SwitchUp)
    await asyncio.sleep(60)
    assert lab.light() == wanted(CROSSED), "nobody brings it back"
    assert not lab.emitted(DaemonRecovered)
    with pytest.raises(RefusedError, match="it is not left open"):
        await lab.service.light.give_up(one.id, ActBody(by="ada"))


async def test_refusals_name_what_was_cut_off_and_why_it_is_not_undone_now(lab: Lab) -> None:
    one = await held(lab)
    lab.cut_switch()
    await lab.reconfigurer.roll_back(one, "asked for")
    await asyncio.sleep(5)
    (cause,) = {status.cause for status in (await lab.service.rack.switches()) if status.name == "ocs1"}
    assert cause != lab.emitted(SwitchDown)[-1].cause, "the last attempt failed otherwise than the connection"
    why = f"reconfiguration {one.id} ({one.plan.what}) was cut off and is not undone yet: ocs1: {cause}. "
    for port, ask in (
        ("ocs1.1", lab.service.leases.take(LeaseBody(holder="ada", ports=["ocs1.1"], for_s=60))),
        ("ocs1", lab.apply("ocs1:7A-8B")),
    ):
        with pytest.raises(RefusedError) as raised:
            await ask
        assert str(raised.value).startswith(f"{port}: {why}")
    await lab.lease("ocs1.7", for_s=60)


async def test_full_disk_refuses_the_next_apply_and_no_restart_is_needed_when_there_is_room_again(lab: Lab) -> None:
    disk = lab.world.journal_disk
    disk.truncate(disk.size())  # nothing is reserved any more
    disk.capacity_bytes = disk.size()
    with pytest.raises(
        FailedError, match=r"Nothing was sent\. Make room .* and ask again; the daemon goes on as it is"
    ):
        await lab.apply(STRAIGHT)
    assert lab.emitted(SwitchCommand) == []
    disk.capacity_bytes = None
    assert (await lab.apply(STRAIGHT)).outcome == "confirmed"


async def test_confirm_that_the_journal_refuses_stands_unconfirmed_until_it_is_taken_and_nothing_else_begins(
    lab: Lab,
) -> None:
    one, disk, loop = await held(lab), lab.world.journal_disk, asyncio.get_running_loop()
    disk.refusal = (errno.EIO, 0)
    with pytest.raises(FailedError, match=r"stands as it was asked for, and is not confirmed yet: .*Input/output"):
        await lab.reconfigurer.confirm(one)
    assert (ends(lab), lab.light()) == (["confirmed"], wanted(CROSSED))
    now: dict[str, Any] = to_plain(await lab.service.rack.status())
    ready: dict[str, Any] = to_plain(lab.service.rack.ready())
    assert [under["state"] for under in now["reconfigurations"]] == ["confirming"]
    assert not now["journal"]["writable"]
    assert any("cannot be written" in why for why in ready["why"])
    with pytest.raises((FailedError, RefusedError)):
        await lab.apply("ocs1:5A-6B")
    await asyncio.sleep(30.0)  # virtual
    assert (ends(lab).count("confirmed"), lab.light()) == (1, wanted(CROSSED))
    assert len(lab.emitted(JournalRefused)) == 1, "said once"

    disk.refusal = None
    since_s = loop.time()
    await lab.until(ReconfigurationEnded, outcome="confirmed")
    assert loop.time() - since_s <= 5.0
    assert (await lab.service.rack.status()).journal == StorageStatus(writable=True, why=None)
    assert lab.service.rack.ready().ready
    await lab.restart(after_s=0.0)
    assert (lab.emitted(DaemonRecovered), lab.light()) == ([], wanted(CROSSED))


@pytest.mark.parametrize("what", [CROSSED, "ocs1:5A-6B"])  # of hosts that are asked at the end, and of none
async def test_confirm_that_is_asked_for_again_when_the_journal_takes_it_ends_it_once(lab: Lab, what: str) -> None:
    disk = lab.world.journal_disk
    await lab.apply(what, confirm_within_s=10)
    (one,) = lab.reconfigurer.under_way
    disk.refusal = (errno.EIO, 0)
    for _ in range(2):
        with pytest.raises(FailedError, match="stands as it was asked for, and is not confirmed yet"):
            await lab.service.light.confirm(one.id)
    with pytest.raises(FailedError, match=f"not rolled back, .*Input/output error.* `hwd confirm {one.id}` tries"):
        await lab.service.light.roll_back(one.id)
    assert (lab.light(), one.state) == (wanted(what), State.CONFIRMING)
    disk.refusal = None
    assert (await lab.service.light.confirm(one.id)).outcome == "confirmed"
    assert lab.reconfigurer.under_way == ()
    await asyncio.sleep(20)  # virtual
    assert (ends(lab), lab.light()) == (["confirmed"], wanted(what))


OPEN = (
    b'{"entry":"journal","v":5,"id":"j1","kept":[],"next":1}',
    b'{"entry":"begin","v":5,"n":1,"reconfiguration":"r1","run":null,"what":"x","hash":"0","crash_rule":"roll-back",'
    b'"moves":[{"switch":"ocs1","remove":[],"add":["1A-3B"],"keep":[],"before":[]}]}',
)


@pytest.mark.parametrize("kept", [(), OPEN], ids=["empty", "with an open entry"])
async def test_journal_that_cannot_be_written_at_the_start_is_told_and_tried_again_by_itself(
    lab: Lab, kept: tuple[bytes, ...]
) -> None:
    lab.world.kill("daemon")
    lab.world.journal_id = MemoryJournalId()
    disk = lab.world.journal_disk = MemoryDisk()
    disk.append(b"".join(map(encode_frame, kept)) + bytes(4096))
    disk.sync()
    disk.refusal = (errno.ENOSPC, 0)
    lab.world.start_daemon()
    await asyncio.sleep(1.0)  # virtual
    lab.world.kill("daemon")
    lab.world.start_daemon()
    await asyncio.sleep(30.0)  # virtual
    ready: dict[str, Any] = to_plain(lab.service.rack.ready())
    words = "that r1 is rolled-back cannot be written" if kept else "cannot be written yet"
    assert any(f"journal: {words}: No space left on device" in why for why in ready["why"])
    now: dict[str, Any] = to_plain(await lab.service.rack.status())
    assert not now["journal"]["writable"]
    assert await lab.world.journal_id.read() is None

    disk.refusal = None
    await asyncio.sleep(2 * AGAIN_S)  # virtual
    assert (await lab.service.rack.status()).journal == StorageStatus(writable=True, why=None)
    assert await lab.world.journal_id.read() is not None
    assert (lab.emitted(JournalDamaged), (await lab.service.rack.status()).open) == ([], [])
    lab.world.kill("daemon")
    lab.world.journal_disk = MemoryDisk()
    lab.world.start_daemon()
    await asyncio.sleep(AGAIN_S)  # virtual; such a daemon does not become ready
    assert lab.emitted(JournalDamaged), "one that is gone is missed"


async def test_confirm_that_the_journal_refused_is_taken_at_the_end_of_the_daemon(lab: Lab) -> None:
    one, disk = await held(lab), lab.world.journal_disk
    disk.refusal = (errno.EIO, 0)
    with pytest.raises(FailedError):
        await lab.reconfigurer.confirm(one)
    disk.refusal = None
    await lab.world.stop("daemon")
    assert ends(lab) == ["confirmed", "confirmed"]
    await lab.start()
    assert (lab.emitted(DaemonRecovered), lab.light()) == ([], wanted(CROSSED))


@pytest.mark.parametrize(
    ("number", "confirm_within_s"),
    [
        (errno.ENOSPC, None),
        (errno.EIO, 20.0),
        pytest.param(errno.EIO, None, marks=pytest.mark.slow),
        pytest.param(errno.ENOSPC, 20.0, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "calls", [*range(0, 8, 2), *(pytest.param(calls, marks=pytest.mark.slow) for calls in range(1, 8, 2))]
)
async def test_what_is_answered_holds_after_a_crash_whichever_write_of_the_journal_fails(
    lab: Lab, calls: int, number: int, confirm_within_s: float | None
) -> None:
    """The daemon is killed as soon as it has answered, with the disk as it is then."""
    await lab.apply(STRAIGHT)
    lab.world.journal_disk.refusal = (number, calls)
    why, awaits = "", confirm_within_s is not None
    try:
        said = str((await lab.apply(CROSSED, confirm_within_s=confirm_within_s)).state)
    except FailedError as error:
        why = str(error)
        said = "unknown" if "stands as it was asked for" in why else "not done"
    if awaits:
        assert (2 <= calls < 4) == ("that it awaits its confirm cannot be written" in why)
        assert (calls < 4) == ("Outcome: rolled-back" in why)
    lab.world.journal_disk.refusal = None
    await lab.restart()
    await asyncio.sleep(10.0)  # virtual
    stands = {"not done": [STRAIGHT], "unknown": [STRAIGHT, CROSSED]}.get(said, [CROSSED])
    assert lab.light() in [*map(wanted, stands)]
    assert (await lab.service.rack.status()).open == []
    assert (calls < 4) == (said in ("not done", "unknown")), "a begin, its sync, an end or a wait, its sync"
    if awaits:
        assert [one.state for one in lab.service.light.under_way()] == ([] if calls < 4 else ["awaiting-confirm"])
        await asyncio.sleep(20.0)
        assert lab.light() == wanted(STRAIGHT)
    await lab.apply(CROSSED)
    assert lab.light() == wanted(CROSSED)


async def test_rolled_back_says_which_crossconnects_were_to_stay_and_are_gone(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    await lab.apply(f"{STRAIGHT},5A-6B", confirm_within_s=1200)
    lab.connect("ocs1:1A-8B")
    (one,) = lab.reconfigurer.under_way
    await lab.reconfigurer.roll_back(one, "asked for")
    assert ends(lab)[-1] == "rolled-back"
    assert one.why == "asked for. ocs1: 1A-3B: was to stay and is gone; it was not ours to bring back"
    assert "1A-8B" in lab.light()


async def test_change_by_hand_between_plan_and_command_is_refused(lab: Lab) -> None:
    applying = asyncio.create_task(lab.apply(STRAIGHT))
    await asyncio.sleep(0.0005)  # virtual: planned, and the agents are being told what to watch
    assert lab.emitted(ReconfigurationStarted) == []
    lab.connect("ocs1:5A-3B")
    with pytest.raises(RefusedError, match=r"changed meanwhile, and not by this daemon \(5A-3B\)"):
        await applying
    assert lab.light() == wanted("ocs1:5A-3B")


async def test_what_is_under_way_and_awaits_no_confirm_goes_back_when_the_daemon_ends(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    await lab.begin(CROSSED, confirm_within_s=1200)
    await lab.world.stop("daemon")
    assert lab.light() == wanted(STRAIGHT)
    assert ends(lab)[-1] == "rolled-back"


async def test_end_of_one_run_does_not_forget_the_other(lab: Lab) -> None:
    first = await lab.begin("ocs1:1A-3B", run="first")
    await lab.reconfigurer.confirm(first)
    second = await lab.begin("ocs1:2A-4B", run="second")
    assert lab.reconfigurer.last_of("first") == (first,)
    assert lab.reconfigurer.last_of("second") == (second,)
    lab.reconfigurer.forget("first")
    assert lab.reconfigurer.last_of("first") == ()
    await lab.reconfigurer.roll_back(second, "enough")


async def test_what_is_seen_on_the_way_back_is_no_breach(lab: Lab) -> None:
    with pytest.raises((NotReadyError, HwdError)):
        await lab.apply(STRAIGHT, ready_within_s=3.2)
    assert lab.emitted(Timeline)[-1].breaches == []


async def test_who_comes_too_late_is_told_what_became_of_it(lab: Lab) -> None:
    with pytest.raises(RefusedError, match=r"^no reconfiguration is under way$"):
        await lab.service.light.confirm("-")
    one = await lab.apply(STRAIGHT, confirm_within_s=10)
    id = str(one.reconfiguration)
    await asyncio.sleep(25)
    became = rf"{id} \(ocs1:1A.*\): rolled back 15 s ago \(\d\d:\d\d:\d\d UTC\): not confirmed within 10 s"
    for ask in (lab.service.light.confirm, lab.service.light.roll_back):
        with pytest.raises(RefusedError, match=f"^reconfiguration {became}. It has ended, and nothing was changed"):
            await ask(id)
        with pytest.raises(RefusedError, match=f"^no reconfiguration is under way. The last one, {became}"):
            await ask("-")
    other = str((await lab.apply(STRAIGHT)).reconfiguration)
    lab.without_agents()
    await asyncio.sleep(120)
    with pytest.raises(RefusedError, match=rf"^reconfiguration {other} .* confirmed 2 min ago"):
        await lab.service.light.roll_back(other)
    with pytest.raises(RefusedError, match=r"^reconfiguration k3v9: not known, or long over. Under way: none$"):
        await lab.service.light.confirm("k3v9")
