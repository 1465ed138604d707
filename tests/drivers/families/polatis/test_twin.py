"""A Polatis twin behind several protocols at once: one state, one set of faults, whatever bytes its clients send."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError

from ...stage import Client, Stage, ends, in_virtual_time, texts

LOGIN = "ACT-USER::admin:1::root;"


def make_stage() -> Stage:
    return Stage("polatis-tl1", "polatis-vst", "8x8", address="mem:tl1", options={"scpi": "mem:scpi"}, heard_s=1.0)


@pytest.fixture
def stage() -> Stage:
    return make_stage()


async def clients(stage: Stage) -> tuple[Client, Client]:
    """One over TL1, logged in, and one over SCPI."""
    await stage.start()
    tl1, scpi = await stage.connect(), await stage.connect("mem:scpi")
    await tl1.ask(LOGIN)
    return tl1, scpi


@in_virtual_time
async def test_all_protocols_act_on_one_state(stage: Stage) -> None:
    tl1, scpi = await clients(stage)
    assert dict(stage.twin.addresses) == {"tl1": "mem:tl1", "scpi": "mem:scpi"}
    await tl1.ask("ENT-PATCH::1&2,9&10:2:;")
    assert await scpi.ask(":oxc:swit:conn:stat?\n") == "(@1,2),(@9,10)\r\n"
    await scpi.ask(":oxc:swit:conn:only (@3),(@11)\n:oxc:swit:port:dis (@11)\n")
    assert '   "3,11"\r\n;' in await tl1.ask("RTRV-PATCH:::3:;")
    stage.light("3A", 0.0)
    assert '"11:-60.00"' in await tl1.ask("RTRV-PORT-POWER::11:4:;")
    assert await scpi.ask(":oxc:swit:port:stat? (@11);:syst:err?\n") == '(D);0, "No error"\r\n'


@in_virtual_time
async def test_a_shutter_and_a_port_that_is_off_must_both_be_undone(stage: Stage) -> None:
    tl1, scpi = await clients(stage)
    await tl1.ask("OPR-PORT-SHUTTER::9:2:;")
    await scpi.ask(":oxc:swit:port:dis (@9)\n")
    await tl1.ask("RLS-PORT-SHUTTER::9:3:;")
    assert texts(stage.twin.mirror.blocked) == "1B"
    await scpi.ask(":oxc:swit:port:enab (@9)\n")
    assert stage.twin.mirror.blocked == frozenset()


@in_virtual_time
async def test_a_port_that_failed_says_so(stage: Stage) -> None:
    _, scpi = await clients(stage)
    stage.twin.faults.fail(ends("1B"))
    assert await scpi.ask(":oxc:swit:port:dis (@10);stat? (@8,9,10)\n") == "(E,F,D)\r\n"
    stage.twin.faults.clear()
    assert await scpi.ask(":oxc:swit:port:stat? (@9)\n") == "(E)\r\n"


@in_virtual_time
async def test_a_reset_cuts_the_sessions_of_all_protocols(stage: Stage) -> None:
    both = await clients(stage)
    stage.twin.faults.reset()
    await asyncio.sleep(1)
    assert all(client.ended for client in both)


@in_virtual_time
async def test_the_power_up_mode_decides_what_a_power_cut_restores(stage: Stage) -> None:
    tl1, scpi = await clients(stage)
    await tl1.ask("ENT-PATCH::1,9:2:;")
    for mode, left in (("DARK", ""), ("REST", "2A-2B")):
        await scpi.ask(":oxc:boot:mode " + mode + ";:oxc:swit:conn:only (@2),(@10)\n")
        stage.twin.faults.reboot(3)
        await asyncio.sleep(4)
        assert stage.lit() == left
        scpi = await stage.connect("mem:scpi")


@in_virtual_time
async def test_a_partial_batch_is_acknowledged_over_every_protocol(stage: Stage) -> None:
    tl1, scpi = await clients(stage)
    stage.twin.faults.partial_next = 1
    assert "COMPLD" in await tl1.ask("ENT-PATCH::1&2,9&10:2:;")
    assert stage.lit() == "1A-1B"
    stage.twin.faults.partial_next = 1
    assert await scpi.ask(":oxc:swit:conn:add (@3,4),(@11,12);stat?\n") == "(@1,3),(@9,11)\r\n"


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        ({"tl1": "mem:other"}, "tl1: mem:other: it answers that at mem:tl1 already"),
        ({"snmp": "mem:other"}, "snmp: is an unknown field"),
        ({"shutter_open": "is open"}, "shutter_open: must match pattern"),
    ],
)
@in_virtual_time
async def test_an_option_that_makes_no_sense_is_refused(stage: Stage, options: dict[str, Json], finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        stage.make(**options)


@in_virtual_time
async def test_a_place_that_is_taken_leaves_nothing_open(stage: Stage) -> None:
    await (await stage.start()).close()
    other = stage.make(scpi="mem:tl1")
    with pytest.raises(OSError, match="mem:tl1"):
        await other.start()
    assert dict(other.addresses) == {}
    await stage.dialer.listen(Client, "mem:tl1")


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

    @in_virtual_time
    async def story(stage: Stage) -> None:
        tl1, scpi = await clients(stage)
        await tl1.say(tl1_text.encode() + noise + b'";\n";\n')
        await scpi.say(scpi_text.encode() + noise + b"\n")
        tl1, scpi = await stage.connect(), await stage.connect("mem:scpi")
        assert "M  1 COMPLD" in await tl1.ask(LOGIN)
        assert "M  2 COMPLD" in await tl1.ask("DLT-PATCH::ALL:2:;")
        assert await scpi.ask(":oxc:swit:conn:stat?\n") == "(@),(@)\r\n"

    story(stage=make_stage())


@in_virtual_time
async def test_scpi_lines_that_pile_up_end_their_session_only(stage: Stage) -> None:
    _, scpi = await clients(stage)
    stage.twin.faults.slow_s = 100
    await scpi.ask("*IDN?\n" * 5000)
    assert scpi.ended
    stage.twin.faults.clear()
    other = await stage.connect("mem:scpi")
    assert "Polatis" in await other.ask("*IDN?\n")
