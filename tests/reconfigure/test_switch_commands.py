"""Driving one switch: what its read-back must say, and the way back from wherever it stands."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.reconfigure import switch_commands
from hwd.reconfigure.switch_commands import Overrun, OverrunWatch
from hwd.reconfigure.switches import Way
from hwd_drivers.core.errors import DeviceError, FailedError, LinkError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    CrossconnectState,
    Exchange,
    PortOverride,
    PortSide,
    Side,
)
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualLoop, run_virtual

ENDS = tuple(PortSide(port=str(port), side=side) for side in (Side.A, Side.B) for port in range(1, 9))
CAPABILITIES = Capabilities(
    ends=ENDS,
    two_sided=True,
    reciprocal=False,
    latching=True,
    atomic_batches=True,
    moves_in_use=True,
    settle_s=0.05,
    loss_db_typical=1.0,
    loss_db_max=2.0,
)


def pairs(text: str) -> tuple[Crossconnect, ...]:
    return tuple(map(Crossconnect.parse, text.split()))


def readings(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> tuple[CrossconnectReading, ...]:
    return tuple(CrossconnectReading(crossconnect=one, state=state) for one in pairs(text))


def moves(
    *, remove: str = "", add: str = "", keep: str = "", before: str = "", failed: str = "", lasting: str = ""
) -> SwitchMoves:
    return SwitchMoves(
        switch="ocs1",
        remove=pairs(remove),
        add=pairs(add),
        keep=pairs(keep),
        before=pairs(before),
        failed=pairs(failed),
        lasting=pairs(lasting),
    )


class Switch:
    """A switch on the mirror model of all twins.

    It reports crossconnects in `failed` as failed until they are made again, those in `failing` always, and holds those
    in `dark` dark.
    """

    def __init__(self, text: str = "", timing: str = "ideal") -> None:
        self.mirror = Mirror(name="ocs1", capabilities=CAPABILITIES, timing=find_timing(timing), draws=Draws(1))
        self.mirror.connect(pairs(text), self.now_ns(), move=False)
        self.failed: set[Crossconnect] = set()
        self.failing: set[Crossconnect] = set()
        self.dark: set[Crossconnect] = set()
        self.meanwhile: Callable[[], object] = lambda: None
        """What another client does just before the next change comes in."""
        self.changes = 0
        self.reads = 0
        self.cause: str | None = None
        self.blocked: frozenset[PortSide] = frozenset()

    @property
    def latest(self) -> tuple[CrossconnectReading, ...]:
        return tuple(
            CrossconnectReading(crossconnect=one.crossconnect, state=CrossconnectState.FAILED)
            if one.crossconnect in self.failed | self.failing
            else CrossconnectReading(crossconnect=one.crossconnect, state=CrossconnectState.BLOCKED)
            if one.crossconnect in self.dark
            else one
            for one in self.mirror.readings(self.now_ns())
        )

    async def read(self) -> tuple[CrossconnectReading, ...]:
        self.reads += 1
        return self.latest

    async def change(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None,
    ) -> Exchange:
        self.changes += 1
        self.meanwhile()
        before = tuple(self.mirror.crossconnects())
        self.mirror.disconnect(remove, self.now_ns())
        self.failed.difference_update(remove)
        self.mirror.connect(add, self.now_ns(), move=True)
        return Exchange(commanded_ns=self.now_ns(), acknowledged_ns=self.now_ns(), commands=1, before=before)

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, by: str, deadline_s: float) -> None:
        self.blocked = self.blocked.union(ends) if to is PortOverride.FORCE_BLOCKED else self.blocked.difference(ends)

    def now_ns(self) -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.time_ns()


async def bring(switch: Switch, move: SwitchMoves, way: Way) -> tuple[Overrun, ...]:
    """Returns what it took from others."""
    found: list[Overrun] = []
    await switch_commands.bring(switch, move, way, now_ns=switch.now_ns, watch=OverrunWatch("ocs1", found.append))
    return tuple(found)


def test_what_is_as_asked_for_is_read_back() -> None:
    async def main() -> None:
        switch = Switch("1A-2B 7A-8B")
        move = moves(remove="1A-2B", add="1A-3B", keep="7A-8B", before="1A-2B 7A-8B")
        await switch_commands.change(switch, move)
        assert await switch_commands.read_back(switch, move) == ()
        assert switch.reads == 1

    run_virtual(main())


def test_every_difference_is_named_at_once() -> None:
    async def main() -> None:
        switch = Switch("1A-2B 4A-4B")
        switch.failed = set(pairs("4A-4B"))
        with pytest.raises(FailedError) as raised:
            await switch_commands.read_back(switch, moves(remove="1A-2B", add="10A-9B 3A-3B", keep="4A-4B"))
        said = "3A-3B is not there; 10A-9B is not there; 1A-2B is still there; 4A-4B is reported as failed"
        assert str(raised.value) == f"ocs1: it answered, but does not report what was asked for: {said}"

    run_virtual(main())


def test_tuning_is_waited_for() -> None:
    async def main() -> None:
        switch = Switch(timing="polatis-opus")
        move = moves(add="1A-2B 2A-1B")
        await switch_commands.change(switch, move)
        await switch_commands.read_back(switch, move)
        assert all(one.state is CrossconnectState.TUNED for one in switch.latest)
        assert 0.005 < asyncio.get_running_loop().time() < 1

    run_virtual(main())


def test_others_on_the_switch_are_a_difference_under_overwrite_only() -> None:
    async def main() -> None:
        switch = Switch("1A-2B 7A-8B")
        move = moves(add="1A-2B")
        await switch_commands.read_back(switch, move)
        with pytest.raises(FailedError, match="7A-8B is still there"):
            await switch_commands.read_back(switch, move, ApplyMode.OVERWRITE)

    run_virtual(main())


@pytest.mark.parametrize("mode", list(ApplyMode))
def test_one_that_had_failed_is_made_anew_and_read_back(mode: ApplyMode) -> None:
    async def main() -> None:
        switch = Switch("1A-2B")
        switch.failed = set(pairs("1A-2B"))
        move = moves(remove="1A-2B", add="1A-2B", before="1A-2B")
        await switch_commands.change(switch, move)
        await switch_commands.read_back(switch, move, mode)

    run_virtual(main())


def test_the_way_back_touches_only_what_the_moves_touched() -> None:
    move = moves(remove="1A-2B", add="1A-3B 3A-1B", keep="7A-8B", before="1A-2B 7A-8B")
    back = switch_commands.way_back(move, readings("1A-3B 7A-8B 5A-6B"))
    assert (back.remove, back.add) == (pairs("1A-3B"), pairs("1A-2B"))


def test_bring_sends_nothing_where_nothing_is_to_do() -> None:
    async def main() -> None:
        switch = Switch("1A-2B 7A-8B")
        move = moves(remove="1A-2B", add="1A-3B", before="1A-2B 7A-8B")
        await bring(switch, move, switch_commands.way_back)
        assert switch.changes == 0

    run_virtual(main())


def test_bring_leaves_what_is_not_ours_alone_and_says_so() -> None:
    async def main() -> None:
        switch = Switch("1A-3B 5A-2B")  # somebody took 2B by hand
        move = moves(remove="1A-2B", add="1A-3B", before="1A-2B")
        with pytest.raises(FailedError, match=r"cannot restore 1A-2B: 2B meanwhile carries 5A-2B, which is not ours"):
            await bring(switch, move, switch_commands.way_back)
        assert switch.changes == 0

    run_virtual(main())


def _states() -> st.SearchStrategy[str]:
    """Crossconnects on eight ports, no end twice."""
    return st.permutations(range(1, 9)).flatmap(
        lambda order: st.sets(st.integers(0, 7)).map(lambda at: " ".join(f"{i + 1}A-{order[i]}B" for i in sorted(at)))
    )


@given(_states(), _states(), st.booleans())
def test_back_from_any_point_of_a_change_is_the_state_before(before: str, wanted: str, done: bool) -> None:
    async def main() -> None:
        switch = Switch(before)
        keep = set(pairs(before)) & set(pairs(wanted))
        add = [one for one in pairs(wanted) if one not in keep]
        used = {end for one in add for end in one.ends}
        remove = [one for one in pairs(before) if one not in keep and used & set(one.ends)]
        move = SwitchMoves(switch="ocs1", remove=tuple(remove), add=tuple(add), keep=tuple(keep), before=pairs(before))
        if done:
            await switch_commands.change(switch, move)
            await switch_commands.read_back(switch, move)
            assert {one.crossconnect for one in switch.latest} == move.after
        else:
            switch.mirror.disconnect(remove, 0)  # the first half only
        await bring(switch, move, switch_commands.way_back)
        assert {one.crossconnect for one in switch.latest} == set(pairs(before))

    run_virtual(main())


def test_what_others_had_and_is_gone_is_remarked() -> None:
    async def main() -> None:
        switch = Switch("7A-8B")
        move = moves(add="1A-2B", keep="7A-8B", before="5A-6B 7A-8B")
        await switch_commands.change(switch, move)
        said = ("ocs1: 5A-6B was there before and is gone; it was not to be touched",)
        assert await switch_commands.read_back(switch, move) == said

    run_virtual(main())


def test_one_that_is_held_dark_is_no_success() -> None:
    async def main() -> None:
        switch = Switch()
        switch.dark = set(pairs("1A-2B"))
        move = moves(add="1A-2B")
        await switch_commands.change(switch, move)
        with pytest.raises(FailedError, match="1A-2B is set, and held dark by a shutter or an override"):
            await switch_commands.read_back(switch, move)

    run_virtual(main())


def test_one_that_stays_and_is_held_dark_is_remarked() -> None:
    async def main() -> None:
        switch = Switch("1A-2B")
        switch.dark = set(pairs("1A-2B"))
        (said,) = await switch_commands.read_back(switch, moves(keep="1A-2B", before="1A-2B"))
        assert said == "ocs1: 1A-2B stayed, and is held dark by a shutter or an override"

    run_virtual(main())


def test_what_was_held_dark_before_is_brought_back_as_it_was() -> None:
    async def main() -> None:
        switch = Switch("1A-3B")
        switch.dark = set(pairs("1A-2B"))
        await bring(switch, moves(remove="1A-2B", add="1A-3B", before="1A-2B"), switch_commands.way_back)
        assert [one.crossconnect for one in switch.latest] == [*pairs("1A-2B")]

    run_virtual(main())


def test_what_was_to_stay_and_is_gone_does_not_hold_up_the_way_back() -> None:
    async def main() -> None:
        switch = Switch("1A-3B")  # somebody removed 7A-8B by hand
        move = moves(remove="1A-2B", add="1A-3B", keep="7A-8B", before="1A-2B 7A-8B")
        await bring(switch, move, switch_commands.way_back)
        assert [one.crossconnect for one in switch.latest] == [*pairs("1A-2B")]

    run_virtual(main())


def test_what_has_failed_meanwhile_is_made_anew_on_the_way_back() -> None:
    async def main() -> None:
        switch = Switch("1A-2B")
        switch.failed = set(pairs("1A-2B"))  # a change that was broken off left it so
        await bring(switch, moves(remove="1A-2B", add="1A-3B", before="1A-2B"), switch_commands.way_back)
        assert switch.latest == readings("1A-2B")

    run_virtual(main())


@pytest.mark.parametrize("there", ["1A-3B", "1A-2B"])
def test_what_had_failed_before_is_brought_back_as_it_was(there: str) -> None:
    async def main() -> None:
        switch = Switch(there)
        switch.failing = set(pairs("1A-2B"))
        await bring(
            switch, moves(remove="1A-2B", add="1A-3B", before="1A-2B", failed="1A-2B"), switch_commands.way_back
        )
        assert switch.latest == readings("1A-2B", CrossconnectState.FAILED)

    run_virtual(main())


def test_what_was_to_stay_and_has_failed_does_not_hold_up_the_way_back() -> None:
    async def main() -> None:
        switch = Switch("1A-3B 7A-8B")
        switch.failing = set(pairs("7A-8B"))
        await bring(
            switch, moves(remove="1A-2B", add="1A-3B", keep="7A-8B", before="1A-2B 7A-8B"), switch_commands.way_back
        )
        assert {one.crossconnect for one in switch.latest} == set(pairs("1A-2B 7A-8B"))

    run_virtual(main())


def test_no_way_leads_back_from_where_nobody_knows_what_was_before() -> None:
    move = moves(add="1A-2B 2A-1B 4A-4B", lasting="1A-2B 2A-1B")
    back = switch_commands.way_back(move, readings("1A-2B 2A-1B 4A-4B"))
    assert (back.remove, back.add) == (pairs("4A-4B"), ())
    (said,) = switch_commands.lasting_remarks([move, moves(add="1A-2B")])
    assert said.startswith("ocs1: 1A-2B, 2A-1B: what it joined before could not be told")


@pytest.mark.parametrize("theirs", ["1A-7B", "7A-2B"])
def test_what_others_made_since_our_read_and_the_way_back_took_is_an_overrun(theirs: str) -> None:
    async def main() -> None:
        switch = Switch()
        switch.meanwhile = lambda: switch.mirror.connect(pairs(theirs), switch.now_ns(), move=True)
        move = moves(remove="1A-2B", before="1A-2B")
        (overrun,) = await bring(switch, move, switch_commands.way_back)
        assert (overrun.switch, overrun.lost, overrun.window_s) == ("ocs1", pairs(theirs), 0.0)
        assert [one.crossconnect for one in switch.latest] == [*pairs("1A-2B")]

    run_virtual(main())


def test_what_others_made_elsewhere_meanwhile_is_no_overrun() -> None:
    async def main() -> None:
        switch = Switch()
        switch.meanwhile = lambda: switch.mirror.connect(pairs("5A-6B"), switch.now_ns(), move=True)
        assert await bring(switch, moves(remove="1A-2B", before="1A-2B"), switch_commands.way_back) == ()
        assert {one.crossconnect for one in switch.latest} == set(pairs("1A-2B 5A-6B"))

    run_virtual(main())


def test_failures_of_several_switches_are_one_line() -> None:
    denied = DeviceError("ocs2: SROF", device="ocs2", command="ENT-PATCH", code="SROF", text="")
    assert (
        switch_commands.join_errors([LinkError("ocs1: is down"), denied, KeyError("x")])
        == "ocs1: is down; ocs2: SROF; KeyError: 'x'"
    )
