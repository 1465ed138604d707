"""The same requests, in all modes, have the same results on switches that move ports in use and that refuse to.

In virtual time, over the switches' own bytes. Only changes of others between our read and our write differ.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from hwd.daemon.installed_drivers import load
from hwd.model.answers import ReconfigurationStatus
from hwd.model.bodies import ReconfigurationBody
from hwd.model.documents.reconfigurations import ReconfigurationCommanded, ReconfigurationEnded, ReconfigurationState
from hwd.model.documents.switches import SwitchOverrun
from hwd.model.testbed import Testbed
from hwd.sim.world import World
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.errors import DeviceError, FailedError, HwdError, RefusedError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchRead
from hwd_drivers.switching.moves import ApplyMode
from hwd_drivers.twins.server import Denial
from hwd_drivers.twins.virtual_time import run_virtual

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
F = TypeVar("F", bound=Fact)
BEFORE = "1A-2B 3A-4B 5A-6B"


def pairs(text: str) -> list[Crossconnect]:
    return [*map(Crossconnect.parse, text.split())]


class Rack:
    """A world of one switch `ocs1`, and what was told in it."""

    world: World

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None
        """What another client does between our read and our write, once."""

    async def apply(self, what: str, mode: str) -> ReconfigurationStatus:
        assert self.world.daemon is not None
        service = self.world.daemon.service
        return await service.apply(ReconfigurationBody(what=what, mode=ApplyMode(mode)))

    def panel(self, *, remove: str = "", add: str = "") -> None:
        self.world.rack.switches["ocs1"].faults.panel(pairs(remove), pairs(add))

    def light(self) -> str:
        return " ".join(map(str, self.world.rack.switches["ocs1"].mirror.crossconnects()))

    def emitted(self, fact: type[F]) -> list[F]:
        return [document.fact for document in self.world.documents if isinstance(document.fact, fact)]

    def __call__(self, document: Document) -> None:
        match document.fact:
            case ReconfigurationState(state="driving") if self.meanwhile:
                self.meanwhile()
                self.meanwhile = None


def load_kind(kind: str, folder: Path) -> tuple[Testbed, str]:
    text = f"testbed: one\nswitches:\n  ocs1: {KINDS[kind]}\nhosts: {{}}\nfibres: []\n"
    path = folder / "one.yaml"
    path.write_text(text)
    testbed = load(path).require()
    return testbed, text


def in_rack(kind: str, folder: Path, test: Callable[[Rack], Awaitable[None]], *, before: str = BEFORE) -> None:
    testbed, text = load_kind(kind, folder)

    async def main() -> None:
        rack = Rack()
        async with World(
            testbed, text, seed=7, records_url=f"sqlite:///{folder / 'records.db'}", sinks=[rack]
        ) as world:
            rack.world = world
            rack.panel(add=before)
            await world.settled()
            await test(rack)

    run_virtual(main(), seed=7)


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


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_requests_come_out_alike_in_every_mode(kind: str, tmp_path: Path) -> None:
    async def test(rack: Rack) -> None:
        for what, mode, wanted in REQUESTS:
            rack.panel(remove=rack.light())
            rack.panel(add=BEFORE)
            if wanted is None:
                with pytest.raises(RefusedError, match="ocs1"):
                    await rack.apply(what, mode)
            else:
                done = await rack.apply(what, mode)
                assert (done.outcome, done.why) == ("confirmed", "")
            assert rack.light() == (BEFORE if wanted is None else wanted), f"{what} --mode {mode}"
        assert rack.emitted(SwitchOverrun) == []

    in_rack(kind, tmp_path, test)


@pytest.mark.parametrize("mode", ["safe", "update", "overwrite"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_another_client_makes_in_the_window_is_refused_or_alarmed_never_lost_in_silence(
    kind: str, mode: str, tmp_path: Path
) -> None:
    """A switch that refuses keeps the other client's crossconnect. One that moves takes it, which is reported.

    Under `safe` that is a failure.
    """

    async def test(rack: Rack) -> None:
        rack.meanwhile = lambda: rack.panel(add="7A-4B")
        error: HwdError | None = None
        done: ReconfigurationStatus | None = None
        try:
            done = await rack.apply("ocs1:7A-8B", mode)
        except (DeviceError, FailedError) as raised:
            error = raised
        overruns = rack.emitted(SwitchOverrun)
        ended = rack.emitted(ReconfigurationEnded)[-1]
        if kind not in MOVING:
            assert isinstance(error, DeviceError)
            assert rack.light() == "7A-4B"
            assert (overruns, ended.outcome) == ([], "rolled-back")
            return
        (overrun,) = overruns
        assert (overrun.switch, overrun.lost) == ("ocs1", ["7A-4B"])
        assert overrun.reconfiguration == ended.reconfiguration
        (commanded,) = rack.emitted(ReconfigurationCommanded)
        assert overrun.window_s == commanded.window_s
        assert overrun.window_s >= 0
        assert any("7A-4B of another client" in remark for remark in ended.remarks or ())
        if mode == "safe":
            assert isinstance(error, FailedError)
            assert "7A-4B came between our read and our write" in str(error)
            assert (rack.light(), ended.outcome) == ("", "rolled-back")
        else:
            assert error is None
            assert done is not None
            assert (rack.light(), done.outcome) == ("7A-8B", "confirmed")

    in_rack(kind, tmp_path, test, before="")


@pytest.mark.parametrize("kind", MOVING)
def test_one_that_another_client_moved_before_we_removed_it_is_an_overrun(kind: str, tmp_path: Path) -> None:
    """`DLT-PATCH::1` takes away whatever is on port 1."""

    async def test(rack: Rack) -> None:
        rack.meanwhile = lambda: rack.panel(remove="1A-2B", add="1A-7B")
        try:
            await rack.apply("ocs1:1A-none", "update")
        except HwdError:
            assert "1A-7B" in rack.light()  # it would not remove what it was not told
            assert rack.emitted(SwitchOverrun) == []
            return
        if "1A-7B" in rack.light():
            assert rack.emitted(SwitchOverrun) == []
        else:
            assert [one.lost for one in rack.emitted(SwitchOverrun)] == [["1A-7B"]]

    in_rack(kind, tmp_path, test)


@pytest.mark.parametrize("kind", MOVING)
@pytest.mark.parametrize("how", ["in part", "no answer", "refused"])
def test_of_a_change_that_moved_something_and_failed_it_is_said_that_nobody_knows_what_it_took(
    kind: str, how: str, tmp_path: Path
) -> None:
    async def test(rack: Rack) -> None:
        faults = rack.world.rack.switches["ocs1"].faults

        def meanwhile() -> None:
            rack.panel(add="5A-4B")
            if how == "no answer":
                faults.slow_s = 12.0
                asyncio.get_running_loop().call_later(11.0, faults.clear)
            else:
                faults.deny_next = Denial(code="SROF", text="no")
                faults.partial_next = 1 if how == "in part" else None

        rack.meanwhile = meanwhile
        with pytest.raises(HwdError):
            await rack.apply("ocs1:5A-8B,7A-7B", "update")
        (ended,) = rack.emitted(ReconfigurationEnded)
        said = [remark for remark in ended.remarks or () if "whether it took what another client made" in remark]
        assert len(said) == (how != "refused")
        await asyncio.sleep(30)
        assert rack.light() == ("5A-4B" if how == "refused" else ""), "and theirs is lost indeed"

    in_rack(kind, tmp_path, test, before="")


def test_what_our_own_reconfigurations_do_on_other_ports_is_no_overrun(tmp_path: Path) -> None:
    """Four at once on one switch, and one more while two of them go back."""

    async def test(rack: Rack) -> None:
        assert rack.world.daemon is not None
        service = rack.world.daemon.service
        wanted = ["ocs1:1A-1B", "ocs1:3A-3B", "ocs1:5A-5B", "ocs1:7A-7B"]
        applies = [service.apply(ReconfigurationBody(what=what, confirm_within_s=2.0)) for what in wanted]
        done = await asyncio.gather(*applies)
        assert {one.state for one in done} == {"awaiting-confirm"}
        await asyncio.gather(
            *(service.roll_back(str(one.reconfiguration)) for one in done[::2]),
            service.apply(ReconfigurationBody(what="ocs1:8A-8B")),
        )
        assert rack.light() == "1A-2B 3A-3B 5A-6B 7A-7B 8A-8B"
        await asyncio.sleep(5)
        assert rack.light() == "1A-2B 3A-4B 5A-6B 8A-8B"
        assert rack.emitted(SwitchOverrun) == []
        assert all(one.ours for one in rack.emitted(SwitchRead))
        assert all(one.remarks == [] for one in rack.emitted(ReconfigurationEnded))

    in_rack("moves", tmp_path, test)
