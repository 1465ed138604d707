"""What can be made to go wrong with a twin, over all of its protocols at once, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import PortSide
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.server import Denial, Faults, TwinServer, TwinSession
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock

from ..parts import Recorder, capabilities, ids, pairs, square


def mirror(timing: str = "ideal") -> Mirror:
    return Mirror(name="ocs1", capabilities=capabilities(square(2)), timing=find_timing(timing), draws=Draws(7))


def timeless() -> Faults:
    return Faults(mirror=mirror(), clock=None)  # type: ignore[arg-type]  # no time passes


class Echo(TwinSession):
    """Echoes received bytes."""

    @override
    def data_received(self, data: bytes) -> None:
        self.note_input()
        self.reply(data)


class Polite(Echo):
    """Says why it ends."""

    @override
    def refuse(self) -> None:
        self.send(b"full")

    @override
    def idle(self) -> None:
        self.send(b"bye")
        self.hang_up()


class Scene:
    """One mirror behind two servers that share its faults."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.dialer = MemoryDialer(MemoryNet())
        self.mirror = mirror("lowradix-8ms")
        self.faults = Faults(mirror=self.mirror, clock=clock)
        self.servers = [self.server("mem:tl1"), self.server("mem:scpi")]

    def server(
        self, address: str, *, make_session: Callable[[TwinServer], TwinSession] = Echo, sessions_max: int | None = None
    ) -> TwinServer:
        return TwinServer(
            mirror=self.mirror,
            clock=self.clock,
            dialer=self.dialer,
            address=address,
            make_session=make_session,
            faults=self.faults,
            sessions_max=sessions_max,
        )

    async def connect(self, address: str = "mem:tl1") -> tuple[asyncio.Transport, Recorder]:
        return await self.dialer.connect(Recorder, address)

    def connect_pairs(self, text: str) -> None:
        self.mirror.connect(pairs(text), self.clock.monotonic_ns(), move=True)

    def ids(self) -> list[str]:
        return ids(self.mirror, self.clock.monotonic_ns())


@pytest.fixture
async def scene(clock: VirtualClock) -> AsyncIterator[Scene]:
    scene = Scene(clock)
    for server in scene.servers:
        await server.start()
    yield scene
    for server in scene.servers:
        await server.close()


async def test_reset_ends_the_sessions_of_all_protocols_and_a_close_during_a_reboot_leaves_nothing(
    scene: Scene,
) -> None:
    clients = [(await scene.connect(address))[1] for address in ("mem:tl1", "mem:scpi")]
    scene.faults.reset()
    for client in clients:
        await client.lost()
    await scene.connect()
    scene.faults.reboot(10)
    for server in scene.servers:
        await server.close()
    await asyncio.sleep(20)
    with pytest.raises(ConnectionRefusedError):
        await scene.connect()


async def test_reboot_refuses_connections_of_all_protocols_and_ends_in_the_power_up_state(scene: Scene) -> None:
    scene.connect_pairs("1A-2B")
    rebooted: list[float] = []
    loop = asyncio.get_running_loop()
    scene.faults.on_reboot.append(lambda: rebooted.append(loop.time()))
    _, client = await scene.connect()
    began_s = loop.time()
    scene.faults.reboot(10)
    await client.lost()
    assert (scene.ids(), scene.faults.rebooting) == ([], True)
    with pytest.raises(RefusedError, match="ocs1: reboots"):
        scene.faults.panel((), pairs("1A-2B"))
    await asyncio.sleep(9.9)
    for address in ("mem:tl1", "mem:scpi"):
        with pytest.raises(ConnectionRefusedError):
            await scene.connect(address)
    await asyncio.sleep(0.2)
    assert rebooted == pytest.approx([began_s + 10])
    assert not scene.faults.rebooting
    for address in ("mem:tl1", "mem:scpi"):
        await scene.connect(address)
    assert scene.ids() == []


async def test_unit_without_power_does_not_report_the_loss_of_light(scene: Scene) -> None:
    scene.connect_pairs("1A-2B")
    await asyncio.sleep(0.1)
    _, client = await scene.connect()
    await asyncio.sleep(0.1)

    def tell(now_ns: int) -> None:
        for session in scene.servers[0].sessions:
            session.send(b"gone")

    scene.mirror.on_change.append(tell)
    scene.faults.reboot(10)
    await client.lost()
    assert (client.received, scene.ids()) == (b"", [])


async def test_unit_that_restores_settles_its_crossconnects_again_also_after_two_reboots(scene: Scene) -> None:
    scene.connect_pairs("1A-2B")
    scene.faults.restores = True
    scene.faults.reboot(1)
    await asyncio.sleep(1.004)
    assert scene.ids() == ["1A-2B tuning"]
    await asyncio.sleep(0.005)
    assert scene.ids() == ["1A-2B tuned"]
    scene.faults.reboot(1)
    await asyncio.sleep(0.5)
    scene.faults.reboot(1)
    await asyncio.sleep(0.75)
    with pytest.raises(ConnectionRefusedError):
        await scene.connect()
    await asyncio.sleep(0.3)
    await scene.connect()
    assert scene.ids() == ["1A-2B tuned"], "that of before the first"


async def test_address_that_is_taken_meanwhile_is_tried_again(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.faults.reboot(1)
    await asyncio.sleep(0.5)
    thief = await scene.dialer.listen(Recorder, "mem:tl1")
    await asyncio.sleep(5)
    assert "twin ocs1: cannot listen at mem:tl1 again" in caplog.text
    await thief.close()
    await asyncio.sleep(0.3)
    transport, client = await scene.connect()
    transport.write(b"x")
    await asyncio.sleep(0.1)
    assert client.received == b"x"


async def test_time_advances_while_one_protocol_is_open_and_stops_after(scene: Scene) -> None:
    await scene.servers[0].close()
    tuned: list[int] = []
    scene.mirror.on_change.append(tuned.append)
    scene.connect_pairs("1A-2B")
    await asyncio.sleep(0.1)
    assert len(tuned) == 2
    await scene.servers[1].close()
    scene.connect_pairs("1A-1B")
    await asyncio.sleep(0.1)
    assert len(tuned) == 3


async def test_drift_goes_on_by_itself_and_a_change_at_the_front_panel_ends_no_session(scene: Scene) -> None:
    scene.connect_pairs("1A-1B")
    await asyncio.sleep(1)
    told: list[int] = []
    scene.mirror.on_change.append(told.append)
    scene.faults.drift([PortSide.parse("1A")], 1.0, over_s=10)
    await asyncio.sleep(20)
    assert len(told) == 11, "when it is set, and ten steps"
    _, client = await scene.connect()
    scene.faults.panel({*pairs("1A-1B")}, frozenset(pairs("2A-1B")))
    await asyncio.sleep(1)
    assert (scene.ids(), bool(client.lost_with)) == (["2A-1B tuned"], False)


@given(st.lists(st.integers(), max_size=6), st.none() | st.integers(0, 9), st.booleans())
def test_change_is_done_whole_in_part_or_not_at_all(changes: list[int], partial: int | None, denied: bool) -> None:
    faults = timeless()
    no = Denial(code="SROF")
    faults.partial_next = partial
    faults.deny_next = no if denied else None
    done, denial = faults.take_change(changes)
    assert denial == (no if denied else None)
    assert list(done) == (changes[:partial] if partial is not None else [] if denied else changes)
    assert faults.take_change(changes) == (changes, None), "used up"


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 9))
def test_change_in_steps_is_done_in_part_over_all_its_commands_until_it_is_read(steps: list[int], partial: int) -> None:
    faults = timeless()
    faults.partial_next = partial
    faults.end_change()
    done = [pair for pair in steps if faults.take_step(pair)[0]]
    some = list(dict.fromkeys(steps))[:partial]
    assert done == [pair for pair in steps if pair in some], "so many pairs, and all commands of those"
    assert faults.partial_next == partial
    faults.end_change()
    assert faults.partial_next == (None if steps else partial), "a reading before any step ends nothing"
    assert not steps or faults.take_step("another") == (True, None)


def test_denial_of_a_change_in_steps_answers_the_first_that_is_left_out() -> None:
    faults = timeless()
    no = Denial(code="SROF")
    faults.deny_next = no
    assert (faults.take_step(1), faults.take_step(1)) == ((False, no), (True, None))
    faults.deny_next, faults.partial_next = no, 1
    assert [faults.take_step(pair) for pair in (1, 2, 3)] == [(True, None), (False, no), (False, None)]
    faults.end_change()
    assert faults.take_step(2) == (True, None)


async def test_answers_are_spoiled_once_and_swallowed_as_long_as_it_is_silent(scene: Scene) -> None:
    faults = scene.faults
    faults.half_next = True
    assert (faults.spoil(b"123456"), faults.spoil(b"123456")) == (b"123", b"123456")
    faults.garble_next = True
    assert faults.spoil(b"123456") not in (None, b"123456")
    faults.wrong_next = True
    assert (faults.take_wrong(), faults.take_wrong()) == (True, False)
    faults.silent = True
    assert (faults.spoil(b"1"), faults.spoil(b"1")) == (None, None)
    faults.partial_next, faults.wrong_next, faults.deny_next = 1, True, Denial(code="x")
    faults.clear()
    assert (faults.spoil(b"1"), faults.take_wrong(), faults.take_change([1, 2])) == (b"1", False, ([1, 2], None))


async def test_session_over_the_limit_gets_a_message_and_is_ended_and_others_stay(scene: Scene) -> None:
    server = scene.server("mem:few", make_session=Polite, sessions_max=2)
    await server.start()
    one, first = await scene.connect("mem:few")
    _, second = await scene.connect("mem:few")
    _, third = await scene.connect("mem:few")
    await third.lost()
    await asyncio.sleep(1)
    assert (third.received, bool(first.lost_with), bool(second.lost_with)) == (b"full", False, False)
    one.close()
    await first.lost()
    await asyncio.sleep(0.1)
    again, fourth = await scene.connect("mem:few")
    again.write(b"x")
    await asyncio.sleep(1)
    assert (fourth.received, bool(fourth.lost_with)) == (b"x", False)
    await server.close()


async def test_idle_session_is_ended(scene: Scene) -> None:
    server = scene.server("mem:idle", make_session=Polite)
    await server.start()
    transport, client = await scene.connect("mem:idle")
    await asyncio.sleep(0.01)
    server.sessions[0].end_after_idle(10)
    began_s = asyncio.get_running_loop().time()
    for _ in range(3):
        await asyncio.sleep(9)
        transport.write(b"x")
    await client.lost()
    assert client.at_s[-1] - began_s == pytest.approx(37, abs=0.01)
    assert client.received == b"xxxbye"
    _, other = await scene.connect("mem:idle")
    await asyncio.sleep(0.01)
    server.sessions[0].end_after_idle(10)
    server.sessions[0].end_after_idle(0)
    await asyncio.sleep(100)
    assert not other.lost_with
    await server.close()
