"""A Polatis twin behind several protocols at once: one state, one set of faults, whatever bytes its clients send."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, PortSide
from hwd_drivers.families.polatis.models import MODELS
from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

LOGIN = b"ACT-USER::admin:1::root;"


class Client(asyncio.Protocol):
    """Sends bytes and keeps those that come."""

    def __init__(self) -> None:
        self.got = b""
        self.ended = False
        self.transport: asyncio.Transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self.got += data

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True

    async def say(self, data: bytes) -> str:
        """What comes back within a second."""
        self.got = b""
        self.transport.write(data)
        await asyncio.sleep(1)
        return self.got.decode()


class World:
    def __init__(self, options: dict[str, Json]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.dialer = MemoryDialer(MemoryNet())
        self.twin = PolatisTwin(
            "tl1",
            name="ocs1",
            capabilities=MODELS["polatis-vst"]("8x8"),
            timing=find_timing("ideal"),
            draws=Draws(7),
            clock=self.clock,
            dialer=self.dialer,
            address="mem:tl1",
            options=options,
        )

    async def clients(self) -> tuple[Client, Client]:
        """One over TL1, logged in, and one over SCPI."""
        await self.twin.start()
        _, tl1 = await self.dialer.connect(Client, "mem:tl1")
        _, scpi = await self.dialer.connect(Client, "mem:scpi")
        await tl1.say(LOGIN)
        return tl1, scpi


def in_world(**options: Json) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[], None]]:
    def wrap(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
        async def main() -> None:
            world = World({"scpi": "mem:scpi", **options})
            try:
                await test(world)
            finally:
                await world.twin.close()

        return lambda: run_virtual(main())

    return wrap


@in_world()
async def test_all_protocols_act_on_one_state(world: World) -> None:
    tl1, scpi = await world.clients()
    assert dict(world.twin.addresses) == {"tl1": "mem:tl1", "scpi": "mem:scpi"}
    await tl1.say(b"ENT-PATCH::1&2,9&10:2:;")
    assert await scpi.say(b":oxc:swit:conn:stat?\n") == "(@1,2),(@9,10)\r\n"
    await scpi.say(b":oxc:swit:conn:only (@3),(@11)\n:oxc:swit:port:dis (@11)\n")
    assert '   "3,11"\r\n;' in await tl1.say(b"RTRV-PATCH:::3:;")
    world.twin.mirror.set_input(PortSide.parse("3A"), 0.0)
    assert '"11:-60.00"' in await tl1.say(b"RTRV-PORT-POWER::11:4:;")
    assert await scpi.say(b":oxc:swit:port:stat? (@11);:syst:err?\n") == '(D);0, "No error"\r\n'


@in_world()
async def test_a_shutter_and_a_port_that_is_off_must_both_be_undone(world: World) -> None:
    tl1, scpi = await world.clients()
    await tl1.say(b"OPR-PORT-SHUTTER::9:2:;")
    await scpi.say(b":oxc:swit:port:dis (@9)\n")
    await tl1.say(b"RLS-PORT-SHUTTER::9:3:;")
    assert world.twin.mirror.blocked == {PortSide.parse("1B")}
    await scpi.say(b":oxc:swit:port:enab (@9)\n")
    assert world.twin.mirror.blocked == frozenset()


@in_world()
async def test_a_port_that_failed_says_so(world: World) -> None:
    _, scpi = await world.clients()
    world.twin.faults.fail([PortSide.parse("1B")])
    assert await scpi.say(b":oxc:swit:port:dis (@10);stat? (@8,9,10)\n") == "(E,F,D)\r\n"
    world.twin.faults.clear()
    assert await scpi.say(b":oxc:swit:port:stat? (@9)\n") == "(E)\r\n"


@in_world()
async def test_a_reset_cuts_the_sessions_of_all_protocols(world: World) -> None:
    clients = await world.clients()
    world.twin.faults.reset()
    await asyncio.sleep(1)
    assert all(client.ended for client in clients)


@in_world()
async def test_the_power_up_mode_decides_what_a_power_cut_restores(world: World) -> None:
    tl1, scpi = await world.clients()
    await tl1.say(b"ENT-PATCH::1,9:2:;")
    for mode, left in ((b"DARK", []), (b"REST", ["2A-2B"])):
        await scpi.say(b":oxc:boot:mode " + mode + b";:oxc:swit:conn:only (@2),(@10)\n")
        world.twin.faults.reboot(3)
        await asyncio.sleep(4)
        assert list(map(str, world.twin.mirror.crossconnects())) == left
        _, scpi = await world.dialer.connect(Client, "mem:scpi")


@in_world()
async def test_a_partial_batch_is_acknowledged_over_every_protocol(world: World) -> None:
    tl1, scpi = await world.clients()
    world.twin.faults.partial_next = 1
    assert "COMPLD" in await tl1.say(b"ENT-PATCH::1&2,9&10:2:;")
    assert world.twin.mirror.crossconnects() == [Crossconnect.parse("1A-1B")]
    world.twin.faults.partial_next = 1
    assert await scpi.say(b":oxc:swit:conn:add (@3,4),(@11,12);stat?\n") == "(@1,3),(@9,11)\r\n"


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        ({"tl1": "mem:other"}, "tl1: mem:other: it answers that at mem:tl1 already"),
        ({"snmp": "mem:other"}, "snmp: is an unknown field"),
        ({"shutter_open": "is open"}, "shutter_open: must match pattern"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Json], finding: str) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match=finding):
            World(options)

    run_virtual(main())


def test_a_place_that_is_taken_leaves_nothing_open() -> None:
    async def main() -> None:
        world, other = World({"scpi": "mem:scpi"}), World({"scpi": "mem:tl1"})
        await world.twin.start()
        await world.twin.close()
        with pytest.raises(OSError, match="mem:tl1"):
            await other.twin.start()
        assert dict(other.twin.addresses) == {}
        await other.dialer.listen(Client, "mem:tl1")

    run_virtual(main())


TL1_TEXTS = st.sampled_from(
    [
        "ENT-PATCH",
        "DLT-PATCH",
        "RTRV-PATCH",
        "SET-TH-PMON",
        "OPR-PORT-FLAP",
        "SET-PORT-ATTEN",
        "1",
        "9",
        "&&",
        "&",
        ",",
        ":",
        "::",
        ";",
        '"',
        "\\",
        "TYPE=LOS",
        "MODE=ABS",
        "LEVEL=(-3)",
        "LOW=9",
        "ALL",
        "99999999999",
        "frcd",
        "=",
        "é",
    ]
)
SCPI_TEXTS = st.sampled_from(
    [
        ":oxc:swit:",
        "conn:",
        "add ",
        "sub ",
        "only ",
        "stat?",
        "port? ",
        "(@",
        "1",
        "9",
        ",",
        ":",
        ")",
        ";",
        "\n",
        "\r",
        "*IDN?",
        "*RST",
        ":syst:err?",
        ":pmon:pow? ",
        '"',
        "'",
        "99999999999",
        "-1",
        ":oxc:boot:mode ",
        "é",
        " ",
    ]
)


@settings(max_examples=150)
@given(
    st.lists(TL1_TEXTS | st.text(max_size=4), max_size=60).map("".join),
    st.lists(SCPI_TEXTS | st.text(max_size=4), max_size=60).map("".join),
    st.binary(max_size=40),
)
def test_no_bytes_of_a_client_upset_a_unit(tl1_text: str, scpi_text: str, noise: bytes) -> None:
    """After any bytes of a client, the next clients are answered."""

    @in_world()
    async def story(world: World) -> None:
        tl1, scpi = await world.clients()
        await tl1.say(tl1_text.encode() + noise + b'";\n";\n')
        await scpi.say(scpi_text.encode() + noise + b"\n")
        _, tl1 = await world.dialer.connect(Client, "mem:tl1")
        _, scpi = await world.dialer.connect(Client, "mem:scpi")
        assert "M  1 COMPLD" in await tl1.say(LOGIN)
        assert "M  2 COMPLD" in await tl1.say(b"DLT-PATCH::ALL:2:;")
        assert await scpi.say(b":oxc:swit:conn:stat?\n") == "(@),(@)\r\n"

    story()


@in_world()
async def test_scpi_lines_that_pile_up_end_their_session_only(world: World) -> None:
    _, scpi = await world.clients()
    world.twin.faults.slow_s = 100
    await scpi.say(b"*IDN?\n" * 5000)
    assert scpi.ended
    world.twin.faults.clear()
    _, other = await world.dialer.connect(Client, "mem:scpi")
    assert "Polatis" in await other.say(b"*IDN?\n")
