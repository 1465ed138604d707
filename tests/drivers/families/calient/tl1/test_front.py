"""A Calient twin over TL1, as a client of bytes meets it."""

import asyncio

import pytest

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.twins.server import Denial

from ....stage import Client, Stage, ends, in_virtual_time

HEAD = "\r\n\n   CALIENT01TS 26-11-20 10:11:1"


@pytest.fixture
def stage() -> Stage:
    return Stage("calient-tl1", "calient-s160", "16", heard_s=0.001)


async def at_terminal(stage: Stage, *, login: bool = True, **options: Json) -> Client:
    """Another client; the first one starts the unit with these options."""
    if stage.twin is None:
        await stage.start(**options)
    client = await stage.connect()
    await asyncio.sleep(0.001)
    if login:
        assert "COMPLD" in await client.ask("ACT-USER::lab:1::secret;")
    return client


@in_virtual_time
async def test_the_prompt_follows_every_answer(stage: Stage) -> None:
    client = await at_terminal(stage, login=False)
    assert client.got == b"\r\nagent>"
    assert await client.ask("RTRV-CRS::,:1;") == (
        f"{HEAD}2\r\nM  1 DENY\r\n   PLNA\r\n   /* Login Not Active */\r\n;\r\nagent>"
    )
    heard = await client.ask("ACT-USER::lab:ab12::secret;\r\n")
    assert heard.startswith(f'{HEAD}2\r\nM  ab12 COMPLD\r\n   "lab:lab,2"\r\n   /* NOTICE ')
    assert heard.endswith(";\r\nagent>")
    assert "Already logged in" in await client.ask("ACT-USER::lab:2::secret;")


@in_virtual_time
async def test_a_command_without_a_ctag_is_answered_with_0(stage: Stage) -> None:
    client = await at_terminal(stage)
    heard = await client.ask("RTRV-NE;")
    assert "M  0 COMPLD" in heard
    assert ",SWPACKAGE=6.0-3,STATUS=OK,CHASSISTYPE=S16,PLATFORM=VERSION2" in heard


@in_virtual_time
async def test_a_connection_goes_from_entered_over_ready_to_in_service(stage: Stage) -> None:
    stage.timing = "polatis-opus"
    client = await at_terminal(stage)
    assert "COMPLD" in await client.ask("ENT-CRS::1.1.1,1.1.2:2::Quali,2WAY;")
    row = '"1.1.1-1.1.2:SRCPORT=1.1.1,DSTPORT=1.1.2,GRPNAME=Quali,CONNNAME=1.1.1-1.1.2,CONNTYPE=2WAY,'
    assert f"{row}AS=UMA,OS=RDY,OC=OK,PS=UPR,AL=CL" in await client.ask("RTRV-CRS:::::ALL;")
    assert "COMPLD" in await client.ask("ACT-CRS::1.1.1,1.1.2:3::1.1.1-1.1.2,Quali;")
    assert f"{row}AS=IS,OS=RDY,OC=OK" in await client.ask("RTRV-CRS::,:4;", within_s=0.001)
    await asyncio.sleep(0.1)
    assert f"{row}AS=IS,OS=IS,OC=OK" in await client.ask("RTRV-CRS::,:5;")
    heard = await client.ask("RTRV-PORT-SUM::1.1.1;")
    assert '"1.1.1:ALIAS=NONE,INPWR=NONE,OUTPWR=NONE,CONNNAME1=1.1.1-1.1.2,CONNSTATE1=ACT,CONNNAME2=NONE' in heard
    heard = await client.ask("RTRV-PORT::1.1:6::,;")
    assert '"1.1.1:WX,TRANSIT,TRANSIT:INAS=IS,INOS=IS,INOC=OK,INRS=NPR,OUTAS=IS,' in heard
    assert '"1.1.3:WX,NONE,NONE:INAS=OOS-NP,INOS=OOS,' in heard
    assert "1.2.1" not in heard
    assert "COMPLD" in await client.ask("CANC-CRS:::::1.1.1-1.1.2;")
    assert "COMPLD" in await client.ask("DLT-CRS::1.1.1,1.1.2:7::,Quali,1.1.1-1.1.2;")
    assert '"' not in await client.ask("RTRV-CRS::,:8;")


@in_virtual_time
async def test_a_used_port_is_refused_with_the_words_that_programs_look_for(stage: Stage) -> None:
    client = await at_terminal(stage)
    await client.ask("ENT-CRS::1.1.1,1.1.2:2::,1WAY,mine,,;")
    heard = await client.ask("ENT-CRS::1.1.1,1.1.3:3::,1WAY;")
    assert "M  3 DENY\r\n   SROF\r\n   /* Invalid Connection - Port already in Connection: 1.1.1 */\r\n;" in heard
    assert "IIAC" in await client.ask("ENT-CRS::1.1.9,1.1.3:4::,1WAY;")
    assert "IIAC" in await client.ask("ACT-CRS::::other;")


@in_virtual_time
async def test_a_connection_that_does_not_exist_is_invalid_to_whoever_asks_for_it(stage: Stage) -> None:
    """Phosphorus G2MPLS takes this denial for "deleted", MonALISA any completion for "connected"."""
    client = await at_terminal(stage)
    for asked in ("RTRV-CRS::1.1.1,1.1.2:2::1.1.1>1.1.2;", "rtrv-crs:::2::,1.1.1-1.1.2;", "RTRV-CRS::1.1.1,1.1.2:2;"):
        heard = await client.ask(asked)
        assert "M  2 DENY" in heard
        assert "Invalid Connection" in heard
    assert "COMPLD" in await client.ask("ENT-CRS::1.1.1,1.1.2:3::,1way;")
    assert "COMPLD" in await client.ask("ENT-CRS::1.1.3,1.1.4:3::,2way;")
    for asked, other in (
        ("RTRV-CRS::1.1.1,1.1.2:4::1.1.1>1.1.2;", "1.1.3"),
        ("rtrv-crs:::4::,1.1.3-1.1.4;", "1.1.1"),
    ):
        heard = await client.ask(asked)
        assert "M  4 COMPLD" in heard
        assert heard.count("SRCPORT=") == 1
        assert f"SRCPORT={other}" not in heard


@in_virtual_time
async def test_a_connection_with_a_name_is_addressed_and_listed_by_its_ports_too(stage: Stage) -> None:
    client = await at_terminal(stage)
    assert "COMPLD" in await client.ask("ENT-CRS::1.1.1,1.1.2:2::LAB,1WAY,ring,,;")
    row = '"1.1.1>1.1.2:SRCPORT=1.1.1,DSTPORT=1.1.2,GRPNAME=LAB,CONNNAME=ring,CONNTYPE=1WAY,'
    for asked in ("RTRV-CRS:::::ALL;", "RTRV-CRS:::3::ring;", "RTRV-CRS::1.1.1,1.1.2:3::1.1.1>1.1.2;"):
        assert row in await client.ask(asked)
    assert "COMPLD" in await client.ask("ACT-CRS::1.1.1,1.1.2:4::1.1.1>1.1.2;")
    assert "COMPLD" in await client.ask("CANC-CRS::1.1.1,1.1.2:5::1.1.1>1.1.2;")
    assert "COMPLD" in await client.ask("dlt-crs:::6::1.1.1>1.1.2;")
    assert "Invalid Connection" in await client.ask("RTRV-CRS:::7::ring;")


@in_virtual_time
async def test_a_command_whose_tag_is_too_long_is_denied_and_not_done(stage: Stage) -> None:
    client = await at_terminal(stage)
    heard = await client.ask("ENT-CRS::1.1.1,1.1.2:1234567::,1WAY;")
    assert "M  0 DENY\r\n   IICT\r\n   /* Invalid Correlation Tag */" in heard
    assert "Invalid Connection" in await client.ask("RTRV-CRS::1.1.1,1.1.2:1;")


@in_virtual_time
async def test_a_unit_of_one_step_lights_with_ent_crs(stage: Stage) -> None:
    client = await at_terminal(stage, steps="one", delete_active="allow", in_use_code="SNVS")
    await client.ask("ENT-CRS::1.1.1,1.1.2:2::,1WAY;")
    assert "AS=IS,OS=IS,OC=OK" in await client.ask("RTRV-CRS::,:3;")
    assert "SNVS" in await client.ask("ACT-CRS::::1.1.1>1.1.2;")
    assert "   SNVS\r\n   /* Invalid Connection" in await client.ask("ENT-CRS::1.1.1,1.1.4:4::,1WAY;")
    assert "COMPLD" in await client.ask("DLT-CRS:::::1.1.1>1.1.2;")


@in_virtual_time
async def test_an_active_connection_is_not_deleted_before_it_is_cancelled(stage: Stage) -> None:
    client = await at_terminal(stage)
    await client.ask("ENT-CRS::1.1.1,1.1.2:2::,1WAY;ACT-CRS::1.1.1,1.1.2:3::;")
    assert "1.1.1>1.1.2 is active" in await client.ask("DLT-CRS:::::1.1.1>1.1.2;")
    assert "COMPLD" in await client.ask("DLT-CRS-ALL:::;")
    assert stage.twin.mirror.crossconnects() == []


@in_virtual_time
async def test_a_session_that_is_idle_for_a_minute_is_ended(stage: Stage) -> None:
    client = await at_terminal(stage, idle_s=60)
    await asyncio.sleep(50)
    await client.ask("rtrv-hdr:::9;")
    await asyncio.sleep(59)
    assert not client.ended
    await asyncio.sleep(2)
    assert client.ended


@in_virtual_time
async def test_a_session_over_the_limit_gets_a_message_and_is_ended(stage: Stage) -> None:
    first = await at_terminal(stage, sessions_max=1)
    second = await at_terminal(stage, login=False)
    assert "Too many sessions" in second.got.decode()
    assert second.ended
    assert not first.ended


@in_virtual_time
async def test_a_wrong_login_is_denied_with_the_configured_code(stage: Stage) -> None:
    client = await at_terminal(stage, login=False, user="lab", password="other", login_code="PICC")
    assert "DENY\r\n   PICC" in await client.ask("ACT-USER::lab:1::secret;")
    assert "PLNA" in await client.ask("RTRV-NE;")


@in_virtual_time
async def test_connections_are_reported_to_those_who_are_logged_in(stage: Stage) -> None:
    client, stranger = await at_terminal(stage, reports=True), await at_terminal(stage, login=False)
    before = stranger.got
    heard = await client.ask(
        "ENT-CRS::1.1.1,1.1.2:2::,1WAY;ACT-CRS::1.1.1,1.1.2:3::;CANC-CRS::1.1.1,1.1.2:4::;DLT-CRS::1.1.1,1.1.2:5::;"
    )
    assert 'A  1 REPT EVT CRS\r\n   "1.1.1>1.1.2:NA,INSERVICE,NSA"\r\n;\r\n' in heard
    assert 'A  2 REPT EVT CRS\r\n   "1.1.1>1.1.2:NA,DELETED,NSA"\r\n;\r\n' in heard
    stage.twin.faults.stick(ends("3A"))
    heard = await client.ask("ENT-CRS::1.1.3,1.1.4:6::,1WAY;ACT-CRS::1.1.3,1.1.4:7::;")
    assert '*  3 REPT ALM CRS\r\n   "1.1.3>1.1.4:MN,CONNFAIL,SA"' in heard
    assert stranger.got == before


@in_virtual_time
async def test_power_is_that_of_the_monitors(stage: Stage) -> None:
    client = await at_terminal(stage)
    stage.light("1A", -3.4)
    await client.ask("ENT-CRS::1.1.1,1.1.2:2::,1WAY;ACT-CRS::1.1.1,1.1.2:3::;")
    assert '"1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=NONE,' in await client.ask("RTRV-PORT-SUM::1.1.1;")
    heard = await client.ask("RTRV-PORT-SUM::1.1.2;")
    loss_db = stage.twin.mirror.loss_db(Crossconnect.parse("1A-2B"))
    assert float(heard.partition("OUTPWR=")[2].partition(",")[0]) == pytest.approx(-3.4 - loss_db, abs=0.3)


@in_virtual_time
async def test_faults_reach_this_protocol(stage: Stage) -> None:
    client = await at_terminal(stage)
    stage.twin.faults.deny_next = Denial(code="SARB", text="busy; later")
    assert "SARB\r\n   /* busy, later */" in await client.ask("ENT-CRS::1.1.1,1.1.2:2::,1WAY;")
    stage.twin.faults.wrong_next = True
    assert "SERIALNUMBER=" in await client.ask("RTRV-CRS::,:3;")
    stage.twin.faults.partial_next = 0
    assert "COMPLD" in await client.ask("ENT-CRS::1.1.1,1.1.2:4::,1WAY;")
    assert '"' not in await client.ask("RTRV-CRS::,:5;")


@in_virtual_time
async def test_an_invalid_command_is_denied_or_ends_the_session(stage: Stage) -> None:
    client = await at_terminal(stage)
    assert "M  0 DENY\r\n   IICM" in await client.ask("???;")
    assert "IITA" in await client.ask("RTRV-NE:OTHER:;")
    assert "IPNV" in await client.ask("ENT-CRS::1.1.1,1.1.2:2::;")
    await client.ask("x" * 70_000, within_s=1)
    assert client.ended


@in_virtual_time
async def test_options_that_there_are_not_are_config_errors(stage: Stage) -> None:
    with pytest.raises(ConfigError, match="twin ocs1: steps: "):
        stage.make(steps="three")
    with pytest.raises(ConfigError, match="answers that at mem:ocs1 already"):
        stage.make(tl1="mem:other")
