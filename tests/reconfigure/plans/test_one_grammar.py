"""The same requests, in all modes, have the same results on switches that move ports in use and that refuse to.

In virtual time, over the switches' own bytes. Only changes of others between our read and our write differ.
"""

import asyncio

import pytest

from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationEnded, ReconfigurationStatus
from hwd.model.switch import SwitchOverrun
from hwd_drivers.core.errors import DeviceError, FailedError, HwdError, RefusedError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchRead
from hwd_drivers.twins.server import Denial

from ..conftest import Lab, of_testbed

MOVES = "{driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 1}}"
DENIES = (
    "{driver: polatis-tl1, model: polatis-6000, size: 8x8, options: {moves_in_use: false}, "
    "twin: {timing: ideal, seed: 1, options: {in_use: deny}}}"
)
REFUSES = "{driver: calient-tl1, model: calient-s160, size: 8, twin: {timing: ideal, seed: 1}}"
REST = "{driver: calient-rest, model: calient-s160, size: 8, twin: {timing: ideal, seed: 1}}"
SCPI = "{driver: polatis-scpi, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 1}}"
RESTCONF = (
    "{driver: polatis-restconf, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 1, options: {in_use: "
    "deny}}}"
)
KINDS = {
    "moves": MOVES,
    "moves, scpi": SCPI,
    "told to deny": DENIES,
    "found to deny": RESTCONF,
    "refuses": REFUSES,
    "refuses, rest": REST,
}
MOVING = ["moves", "moves, scpi"]
BEFORE = "1A-2B 3A-4B 5A-6B"


def pairs(text: str) -> list[Crossconnect]:
    return [*map(Crossconnect.parse, text.split())]


def one_switch(kind: str) -> str:
    return f"testbed: one\nswitches:\n  ocs1: {KINDS[kind]}\nhosts: {{}}\nfibres: []\n"


def of_kinds(*kinds: str) -> pytest.MarkDecorator:
    """The tests of a switch `ocs1` of each kind; `kind` is which."""
    return pytest.mark.parametrize(("kind", "testbed_text"), [(kind, one_switch(kind)) for kind in kinds], ids=kinds)


def panel(lab: Lab, *, remove: str = "", add: str = "") -> None:
    lab.faults.panel(pairs(remove), pairs(add))


def light(lab: Lab) -> str:
    return " ".join(map(str, lab.world.rack.switches["ocs1"].mirror.crossconnects()))


REQUESTS = [
    # what, mode, light after it; None: refused, and all is as it was
    ("ocs1:7A-8B", "safe", "1A-2B 3A-4B 5A-6B 7A-8B"),
    ("ocs1:1A-2B,7A-8B", "safe", "1A-2B 3A-4B 5A-6B 7A-8B"),
    ("ocs1:1A-8B", "safe", None),
    ("ocs1:7A-2B", "safe", None),
    ("ocs1:1A-4B", "safe", None),
    ("ocs1:none", "safe", None),
    ("ocs1:1A-none", "safe", None),
    ("ocs1:8A-none", "safe", BEFORE),
    ("ocs1:1A-8B", "update", "1A-8B 3A-4B 5A-6B"),
    ("ocs1:1A-4B", "update", "1A-4B 5A-6B"),
    ("ocs1:1A-4B,3A-2B", "update", "1A-4B 3A-2B 5A-6B"),
    ("ocs1:1A-4B,3A-6B,5A-2B", "update", "1A-4B 3A-6B 5A-2B"),
    ("ocs1:1A..3A-6B..8B", "update", "1A-6B 2A-7B 3A-8B"),
    ("ocs1:1A-none,3A-none", "update", "5A-6B"),
    ("ocs1:1A-none,3A-2B", "update", "3A-2B 5A-6B"),
    ("ocs1:none", "update", ""),
    ("ocs1:1A-2B,7A-8B", "overwrite", "1A-2B 7A-8B"),
    ("ocs1:1A-4B,3A-2B", "overwrite", "1A-4B 3A-2B"),
    ("ocs1:8A-1B", "overwrite", "8A-1B"),
    ("ocs1:none", "overwrite", ""),
]


@of_kinds(*KINDS)
async def test_the_same_requests_come_out_alike_in_every_mode(lab: Lab, kind: str) -> None:
    panel(lab, add=BEFORE)
    for what, mode, wanted in REQUESTS:
        panel(lab, remove=light(lab))
        panel(lab, add=BEFORE)
        if wanted is None:
            with pytest.raises(RefusedError, match="ocs1"):
                await lab.apply(what, mode=mode)
        else:
            done = await lab.apply(what, mode=mode)
            assert (done.outcome, done.why) == ("confirmed", "")
        assert light(lab) == (BEFORE if wanted is None else wanted), f"{what} --mode {mode}"
    assert lab.emitted(SwitchOverrun) == []


@pytest.mark.parametrize("mode", ["safe", "update", "overwrite"])
@of_kinds(*KINDS)
async def test_what_another_client_makes_in_the_window_is_refused_or_alarmed_never_lost_in_silence(
    lab: Lab, kind: str, mode: str
) -> None:
    """A switch that refuses keeps the other client's crossconnect. One that moves takes it, which is reported.

    Under `safe` that is a failure.
    """

    lab.meanwhile = lambda: panel(lab, add="7A-4B")
    error: HwdError | None = None
    done: ReconfigurationStatus | None = None
    try:
        done = await lab.apply("ocs1:7A-8B", mode=mode)
    except (DeviceError, FailedError) as raised:
        error = raised
    overruns = lab.emitted(SwitchOverrun)
    ended = lab.emitted(ReconfigurationEnded)[-1]
    if kind not in MOVING:
        assert isinstance(error, DeviceError)
        assert light(lab) == "7A-4B"
        assert (overruns, ended.outcome) == ([], "rolled-back")
        return
    (overrun,) = overruns
    assert (overrun.switch, overrun.lost) == ("ocs1", ["7A-4B"])
    assert overrun.reconfiguration == ended.reconfiguration
    (commanded,) = lab.emitted(ReconfigurationCommanded)
    assert overrun.window_s == commanded.window_s
    assert overrun.window_s >= 0
    assert any("7A-4B of another client" in remark for remark in ended.remarks or ())
    if mode == "safe":
        assert isinstance(error, FailedError)
        assert "7A-4B came between our read and our write" in str(error)
        assert (light(lab), ended.outcome) == ("", "rolled-back")
    else:
        assert error is None
        assert done is not None
        assert (light(lab), done.outcome) == ("7A-8B", "confirmed")


@of_kinds(*MOVING)
async def test_one_that_another_client_moved_before_we_removed_it_is_an_overrun(lab: Lab, kind: str) -> None:
    """`DLT-PATCH::1` takes away whatever is on port 1."""

    panel(lab, add=BEFORE)
    lab.meanwhile = lambda: panel(lab, remove="1A-2B", add="1A-7B")
    try:
        await lab.apply("ocs1:1A-none", mode="update")
    except HwdError:
        assert "1A-7B" in light(lab)  # it would not remove what it was not told
        assert lab.emitted(SwitchOverrun) == []
        return
    if "1A-7B" in light(lab):
        assert lab.emitted(SwitchOverrun) == []
    else:
        assert [one.lost for one in lab.emitted(SwitchOverrun)] == [["1A-7B"]]


@of_kinds(*MOVING)
@pytest.mark.parametrize("how", ["in part", "no answer", "refused"])
async def test_of_a_change_that_moved_something_and_failed_it_is_said_that_nobody_knows_what_it_took(
    lab: Lab, kind: str, how: str
) -> None:
    faults = lab.faults

    def meanwhile() -> None:
        panel(lab, add="5A-4B")
        if how == "no answer":
            faults.slow_s = 12.0
            asyncio.get_running_loop().call_later(11.0, faults.clear)
        else:
            faults.deny_next = Denial(code="SROF", text="no")
            faults.partial_next = 1 if how == "in part" else None

    lab.meanwhile = meanwhile
    with pytest.raises(HwdError):
        await lab.apply("ocs1:5A-8B,7A-7B", mode="update")
    (ended,) = lab.emitted(ReconfigurationEnded)
    said = [remark for remark in ended.remarks or () if "whether it took what another client made" in remark]
    assert len(said) == (how != "refused")
    await asyncio.sleep(30)
    assert light(lab) == ("5A-4B" if how == "refused" else ""), "and theirs is lost indeed"


@of_testbed(one_switch("moves"))
async def test_what_our_own_reconfigurations_do_on_other_ports_is_no_overrun(lab: Lab) -> None:
    """Four at once on one switch, and one more while two of them go back."""

    panel(lab, add=BEFORE)
    await lab.until(SwitchRead, ours=False)
    before = len(lab.emitted(SwitchRead))
    wanted = ["ocs1:1A-1B", "ocs1:3A-3B", "ocs1:5A-5B", "ocs1:7A-7B"]
    applies = [lab.apply(what, confirm_within_s=2.0) for what in wanted]
    done = await asyncio.gather(*applies)
    assert {one.state for one in done} == {"awaiting-confirm"}
    await asyncio.gather(
        *(lab.service.light.roll_back(str(one.reconfiguration)) for one in done[::2]), lab.apply("ocs1:8A-8B")
    )
    assert light(lab) == "1A-2B 3A-3B 5A-6B 7A-7B 8A-8B"
    await asyncio.sleep(5)
    assert light(lab) == "1A-2B 3A-4B 5A-6B 8A-8B"
    assert lab.emitted(SwitchOverrun) == []
    assert all(one.ours for one in lab.emitted(SwitchRead)[before:])
    assert all(one.remarks == [] for one in lab.emitted(ReconfigurationEnded))


BENCH = """testbed: bench
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {}}
  t1:
    driver: ttl
    model: latching-2x2
    options: {parts: [{pulse: [0, 1]}]}
    twin: {options: {parts: [{pulse: [0, 1]}]}}
hosts:
  h0: {twin: {timing: ideal}, nics: {eth0: {ip: 10.1.0.1/32, rdma: mlx5_0, module: 100g-lr4}}}
fibres:
  - h0.eth0.tx -> t1.1A
  - t1.1B -> h0.eth0.rx
"""
"""With a part that does not tell its position."""


@of_testbed(BENCH)
async def test_a_change_of_unknown_position_that_is_undone_leaves_it_says_so_and_holds_up_nothing(lab: Lab) -> None:
    lab.set_fault({"switch": "ocs1", "fault": "deny", "code": "ERR"})
    with pytest.raises(DeviceError, match=r"ocs1: .*Outcome: rolled-back"):
        await lab.apply("t1:1A-2B ocs1:1A-2B")
    (ended,) = lab.emitted(ReconfigurationEnded)
    said = "t1: 1A-2B, 2A-1B: what it joined before could not be told, so that it was not brought back"
    assert ended.remarks == [said]
    assert list(lab.world.rack.switches["t1"].mirror.states.values()) == [1]
    assert (await lab.apply("t1:1A-1B")).outcome == "confirmed"
