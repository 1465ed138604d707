"""A Calient twin over TL1, as a client of bytes meets it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from typing_extensions import override

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, PortSide
from hwd_drivers.families.calient.models import tl1_driver
from hwd_drivers.families.calient.twin import CalientTwin
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.server import Denial
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

HEAD = "\r\n\n   CALIENT01TS 70-01-01 00:00:0"


class Telnet(asyncio.Protocol):
    """A client that sends the commands of the test."""

    def __init__(self) -> None:
        self.heard = ""
        self.ended = False
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self.heard += data.decode()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True

    async def say(self, text: str, *, within_s: float = 0.001) -> str:
        """What comes back within a time."""
        assert self.transport is not None
        self.heard = ""
        self.transport.write(text.encode())
        await asyncio.sleep(within_s)
        return self.heard


class World:
    def __init__(self, timing: str, options: dict[str, object]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.dialer = MemoryDialer(MemoryNet())
        self.twin = CalientTwin(
            "tl1",
            name="ocs1",
            capabilities=tl1_driver.capabilities("calient-s160", "16"),
            timing=find_timing(timing),
            draws=Draws(7),
            clock=VirtualClock(loop, wall_start_ns=0),
            dialer=self.dialer,
            address="mem:ocs1",
            options=options,  # type: ignore[arg-type]  # the twin checks them
        )

    async def telnet(self, *, login: bool = True) -> Telnet:
        _, client = await self.dialer.connect(Telnet, "mem:ocs1")
        await asyncio.sleep(0.001)
        if login:
            assert "COMPLD" in await client.say("ACT-USER::lab:1::secret;")
        return client


Story = Callable[[World], Awaitable[None]]


def in_world(timing: str = "ideal", **options: object) -> Callable[[Story], Callable[[], None]]:
    def decorate(story: Story) -> Callable[[], None]:
        async def main() -> None:
            world = World(timing, options)
            await world.twin.start()
            try:
                await story(world)
            finally:
                await world.twin.close()

        return lambda: run_virtual(main())

    return decorate


@in_world()
async def test_the_prompt_follows_every_answer(world: World) -> None:
    client = await world.telnet(login=False)
    assert client.heard == "\r\nagent>"
    assert await client.say("RTRV-CRS::,:1;") == (
        f"{HEAD}0\r\nM  1 DENY\r\n   PLNA\r\n   /* Login Not Active */\r\n;\r\nagent>"
    )
    heard = await client.say("ACT-USER::lab:ab12::secret;\r\n")
    assert heard.startswith(f'{HEAD}0\r\nM  ab12 COMPLD\r\n   "lab:lab,2"\r\n   /* NOTICE ')
    assert heard.endswith(";\r\nagent>")
    assert "Already logged in" in await client.say("ACT-USER::lab:2::secret;")


@in_world()
async def test_a_command_without_a_ctag_is_answered_with_0(world: World) -> None:
    client = await world.telnet()
    heard = await client.say("RTRV-NE;")
    assert "M  0 COMPLD" in heard
    assert ",SWPACKAGE=6.0-3,STATUS=OK,CHASSISTYPE=S16,PLATFORM=VERSION2" in heard


@in_world(timing="polatis-opus")
async def test_a_connection_goes_from_entered_over_ready_to_in_service(world: World) -> None:
    client = await world.telnet()
    assert "COMPLD" in await client.say("ENT-CRS::1.1.1,1.1.2:2::Quali,2WAY;")
    row = '"1.1.1-1.1.2:SRCPORT=1.1.1,DSTPORT=1.1.2,GRPNAME=Quali,CONNNAME=1.1.1-1.1.2,CONNTYPE=2WAY,'
    assert f"{row}AS=UMA,OS=RDY,OC=OK,PS=UPR,AL=CL" in await client.say("RTRV-CRS:::::ALL;")
    assert "COMPLD" in await client.say("ACT-CRS::1.1.1,1.1.2:3::1.1.1-1.1.2,Quali;")
    assert f"{row}AS=IS,OS=RDY,OC=OK" in await client.say("RTRV-CRS::,:4;", within_s=0.001)
    await asyncio.sleep(0.1)
    assert f"{row}AS=IS,OS=IS,OC=OK" in await client.say("RTRV-CRS::,:5;")
    heard = await client.say("RTRV-PORT-SUM::1.1.1;")
    assert '"1.1.1:ALIAS=NONE,INPWR=NONE,OUTPWR=NONE,CONNNAME1=1.1.1-1.1.2,CONNSTATE1=ACT,CONNNAME2=NONE' in heard
    heard = await client.say("RTRV-PORT::1.1:6::,;")
    assert '"1.1.1:WX,TRANSIT,TRANSIT:INAS=IS,INOS=IS,INOC=OK,INRS=NPR,OUTAS=IS,' in heard
    assert '"1.1.3:WX,NONE,NONE:INAS=OOS-NP,INOS=OOS,' in heard
    assert "1.2.1" not in heard
    assert "COMPLD" in await client.say("CANC-CRS:::::1.1.1-1.1.2;")
    assert "COMPLD" in await client.say("DLT-CRS::1.1.1,1.1.2:7::,Quali,1.1.1-1.1.2;")
    assert '"' not in await client.say("RTRV-CRS::,:8;")


@in_world()
async def test_a_used_port_is_refused_with_the_words_that_programs_look_for(world: World) -> None:
    client = await world.telnet()
    await client.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY,mine,,;")
    heard = await client.say("ENT-CRS::1.1.1,1.1.3:3::,1WAY;")
    assert "M  3 DENY\r\n   SROF\r\n   /* Invalid Connection - Port already in Connection: 1.1.1 */\r\n;" in heard
    assert "IIAC" in await client.say("ENT-CRS::1.1.9,1.1.3:4::,1WAY;")
    assert "IIAC" in await client.say("ACT-CRS::::other;")


@in_world()
async def test_a_connection_that_does_not_exist_is_invalid_to_whoever_asks_for_it(world: World) -> None:
    """Phosphorus G2MPLS takes this denial for "deleted", MonALISA any completion for "connected"."""
    client = await world.telnet()
    for asked in ("RTRV-CRS::1.1.1,1.1.2:2::1.1.1>1.1.2;", "rtrv-crs:::2::,1.1.1-1.1.2;", "RTRV-CRS::1.1.1,1.1.2:2;"):
        heard = await client.say(asked)
        assert "M  2 DENY" in heard
        assert "Invalid Connection" in heard
    assert "COMPLD" in await client.say("ENT-CRS::1.1.1,1.1.2:3::,1way;")
    assert "COMPLD" in await client.say("ENT-CRS::1.1.3,1.1.4:3::,2way;")
    for asked, other in (
        ("RTRV-CRS::1.1.1,1.1.2:4::1.1.1>1.1.2;", "1.1.3"),
        ("rtrv-crs:::4::,1.1.3-1.1.4;", "1.1.1"),
    ):
        heard = await client.say(asked)
        assert "M  4 COMPLD" in heard
        assert heard.count("SRCPORT=") == 1
        assert f"SRCPORT={other}" not in heard


@in_world()
async def test_a_connection_with_a_name_is_addressed_and_listed_by_its_ports_too(world: World) -> None:
    client = await world.telnet()
    assert "COMPLD" in await client.say("ENT-CRS::1.1.1,1.1.2:2::LAB,1WAY,ring,,;")
    row = '"1.1.1>1.1.2:SRCPORT=1.1.1,DSTPORT=1.1.2,GRPNAME=LAB,CONNNAME=ring,CONNTYPE=1WAY,'
    for asked in ("RTRV-CRS:::::ALL;", "RTRV-CRS:::3::ring;", "RTRV-CRS::1.1.1,1.1.2:3::1.1.1>1.1.2;"):
        assert row in await client.say(asked)
    assert "COMPLD" in await client.say("ACT-CRS::1.1.1,1.1.2:4::1.1.1>1.1.2;")
    assert "COMPLD" in await client.say("CANC-CRS::1.1.1,1.1.2:5::1.1.1>1.1.2;")
    assert "COMPLD" in await client.say("dlt-crs:::6::1.1.1>1.1.2;")
    assert "Invalid Connection" in await client.say("RTRV-CRS:::7::ring;")


@in_world()
async def test_a_command_whose_tag_is_too_long_is_denied_and_not_done(world: World) -> None:
    client = await world.telnet()
    heard = await client.say("ENT-CRS::1.1.1,1.1.2:1234567::,1WAY;")
    assert "M  0 DENY\r\n   IICT\r\n   /* Invalid Correlation Tag */" in heard
    assert "Invalid Connection" in await client.say("RTRV-CRS::1.1.1,1.1.2:1;")


@in_world(steps="one", delete_active="allow", in_use_code="SNVS")
async def test_a_unit_of_one_step_lights_with_ent_crs(world: World) -> None:
    client = await world.telnet()
    await client.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY;")
    assert "AS=IS,OS=IS,OC=OK" in await client.say("RTRV-CRS::,:3;")
    assert "SNVS" in await client.say("ACT-CRS::::1.1.1>1.1.2;")
    assert "   SNVS\r\n   /* Invalid Connection" in await client.say("ENT-CRS::1.1.1,1.1.4:4::,1WAY;")
    assert "COMPLD" in await client.say("DLT-CRS:::::1.1.1>1.1.2;")


@in_world()
async def test_an_active_connection_is_not_deleted_before_it_is_cancelled(world: World) -> None:
    client = await world.telnet()
    await client.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY;ACT-CRS::1.1.1,1.1.2:3::;")
    assert "1.1.1>1.1.2 is active" in await client.say("DLT-CRS:::::1.1.1>1.1.2;")
    assert "COMPLD" in await client.say("DLT-CRS-ALL:::;")
    assert world.twin.mirror.crossconnects() == []


@in_world(idle_s=60)
async def test_a_session_that_is_idle_for_a_minute_is_ended(world: World) -> None:
    client = await world.telnet()
    await asyncio.sleep(50)
    await client.say("rtrv-hdr:::9;")
    await asyncio.sleep(59)
    assert not client.ended
    await asyncio.sleep(2)
    assert client.ended


@in_world(sessions_max=1)
async def test_a_session_over_the_limit_gets_a_message_and_is_ended(world: World) -> None:
    first = await world.telnet()
    second = await world.telnet(login=False)
    assert "Too many sessions" in second.heard
    assert second.ended
    assert not first.ended


@in_world(user="lab", password="other", login_code="PICC")
async def test_a_wrong_login_is_denied_with_the_configured_code(world: World) -> None:
    client = await world.telnet(login=False)
    assert "DENY\r\n   PICC" in await client.say("ACT-USER::lab:1::secret;")
    assert "PLNA" in await client.say("RTRV-NE;")


@in_world(reports=True)
async def test_connections_are_reported_to_those_who_are_logged_in(world: World) -> None:
    client, stranger = await world.telnet(), await world.telnet(login=False)
    before = stranger.heard
    heard = await client.say(
        "ENT-CRS::1.1.1,1.1.2:2::,1WAY;ACT-CRS::1.1.1,1.1.2:3::;CANC-CRS::1.1.1,1.1.2:4::;DLT-CRS::1.1.1,1.1.2:5::;"
    )
    assert 'A  1 REPT EVT CRS\r\n   "1.1.1>1.1.2:NA,INSERVICE,NSA"\r\n;\r\n' in heard
    assert 'A  2 REPT EVT CRS\r\n   "1.1.1>1.1.2:NA,DELETED,NSA"\r\n;\r\n' in heard
    world.twin.faults.stick([PortSide.parse("3A")])
    heard = await client.say("ENT-CRS::1.1.3,1.1.4:6::,1WAY;ACT-CRS::1.1.3,1.1.4:7::;")
    assert '*  3 REPT ALM CRS\r\n   "1.1.3>1.1.4:MN,CONNFAIL,SA"' in heard
    assert stranger.heard == before


@in_world()
async def test_power_is_that_of_the_monitors(world: World) -> None:
    client = await world.telnet()
    world.twin.mirror.set_input(PortSide.parse("1A"), -3.4)
    await client.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY;ACT-CRS::1.1.1,1.1.2:3::;")
    assert '"1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=NONE,' in await client.say("RTRV-PORT-SUM::1.1.1;")
    heard = await client.say("RTRV-PORT-SUM::1.1.2;")
    loss_db = world.twin.mirror.loss_db(Crossconnect.parse("1A-2B"))
    assert float(heard.partition("OUTPWR=")[2].partition(",")[0]) == pytest.approx(-3.4 - loss_db, abs=0.3)


@in_world()
async def test_faults_reach_this_protocol(world: World) -> None:
    client = await world.telnet()
    world.twin.faults.deny_next = Denial(code="SARB", text="busy; later")
    assert "SARB\r\n   /* busy, later */" in await client.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY;")
    world.twin.faults.wrong_next = True
    assert "SERIALNUMBER=" in await client.say("RTRV-CRS::,:3;")
    world.twin.faults.partial_next = 0
    assert "COMPLD" in await client.say("ENT-CRS::1.1.1,1.1.2:4::,1WAY;")
    assert '"' not in await client.say("RTRV-CRS::,:5;")


@in_world()
async def test_an_invalid_command_is_denied_or_ends_the_session(world: World) -> None:
    client = await world.telnet()
    assert "M  0 DENY\r\n   IICM" in await client.say("???;")
    assert "IITA" in await client.say("RTRV-NE:OTHER:;")
    assert "IPNV" in await client.say("ENT-CRS::1.1.1,1.1.2:2::;")
    await client.say("x" * 70_000, within_s=1)
    assert client.ended


def test_options_that_there_are_not_are_config_errors() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="twin ocs1: steps: "):
            World("ideal", {"steps": "three"})
        with pytest.raises(ConfigError, match="answers that at mem:ocs1 already"):
            World("ideal", {"tl1": "mem:other"})

    run_virtual(main())
