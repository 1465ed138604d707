"""The NETCONF driver of Polatis switches against its twin in real time, and the twin's answers byte for byte."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hwd_drivers.core.errors import ConfigError, DeadlineError, DeviceError, LinkError, ProtocolError
from hwd_drivers.core.values import Attenuation, AttenuationMode, PortOverride, PortSide
from hwd_drivers.transports.ssh.session import SshLogin, SshSession

from ....parts import pairs
from ....stage import Client, Stage, texts

END = b"]]>]]>"


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """In real time: the driver has threads."""
    login = {"user": "admin", "password": "root"}
    async with Stage("polatis-netconf", "polatis-6000", "8x8", options={**login}, within_s=30.0) as stage:
        yield stage


@pytest.mark.parametrize("named", ["pair", "pairs"])
@pytest.mark.parametrize("base", ["1.0", "1.1"])
async def test_both_revisions_of_the_module_and_both_framings(stage: Stage, named: str, base: str) -> None:
    twin, device = await stage.start_and_open(netconf_list=named, netconf_base=base)
    await device.change(add="1A-2B 3A-4B")
    assert await device.pairs() == "1A-2B 3A-4B"
    await device.change(remove="1A-2B")
    assert twin.unit.pairs() == [(3, 12)]


async def test_a_unit_with_old_modules_has_power_and_port_states_in_another_place(stage: Stage) -> None:
    twin, device = await stage.start_and_open(netconf_list="pairs")
    capabilities = await device.capabilities()
    assert (len(capabilities.monitored), capabilities.attenuated, len(capabilities.blockable)) == (8, (), 16)
    await device.change(add="1A-1B")
    stage.light("1A", 1.0)
    lit, dark = await device.power("1B 2B")
    assert (lit is not None, dark) == (True, None)
    await device.override("1B", PortOverride.FORCE_BLOCKED)
    assert texts(twin.mirror.blocked) == "1B"
    assert await device.overrides("1B") == {"1B": PortOverride.FORCE_BLOCKED}
    await device.override("1B", PortOverride.NORMAL)
    assert await device.overrides("1B") == {"1B": PortOverride.NORMAL}


async def test_relative_attenuation_is_an_offset_to_the_reference_port(stage: Stage) -> None:
    stage.model = "polatis-vst"
    twin, device = await stage.start_and_open()
    end, reference = PortSide.parse("1B"), PortSide.parse("1A")
    await device.change(add="1A-1B")
    stage.light("1A", 1.0)
    held = Attenuation(end=end, mode=AttenuationMode.RELATIVE, level=6.0)
    await device.attenuate(held)
    (read,) = await device.attenuation("1B")
    assert (read.mode, read.level, read.reference) == (AttenuationMode.RELATIVE, 6.0, reference)
    assert twin.mirror.output(end, stage.clock.monotonic_ns()) == pytest.approx(-5.0, abs=0.01)


async def test_on_a_single_sided_unit_a_crossconnect_is_removed_by_what_the_unit_calls_its_ingress(
    stage: Stage,
) -> None:
    stage.size = "8"
    twin, device = await stage.start_and_open()
    twin.unit.connect([(7, 3), (1, 2)])
    assert await device.pairs() == "1-2 3-7"
    await device.change(remove="3-7 1-2")
    assert twin.unit.pairs() == []


async def test_a_refusal_has_the_error_tag_and_message_and_names_the_crossconnects(stage: Stage) -> None:
    _, device = await stage.start_and_open()
    with pytest.raises(
        DeviceError,
        match=r"ocs1: edit-config cross-connects: delete 7A-7B: the device says data-missing \(Port 7 has no",
    ) as raised:
        await device.change(remove="7A-7B")
    found = (raised.value.device, raised.value.code, raised.value.text)
    assert found == ("ocs1", "data-missing", "Port 7 has no cross-connect")


async def test_a_missing_part_of_the_unit_is_a_device_error(stage: Stage) -> None:
    _, device = await stage.start_and_open()
    with pytest.raises(DeviceError, match="nothing of 1A in the answer"):
        await device.power("1A 1B")
    with pytest.raises(DeviceError, match="nothing of 1B"):
        await device.attenuation("1B")
    assert await device.power("") == []


async def test_a_change_is_one_edit_and_reports_the_state_before(stage: Stage) -> None:
    twin, device = await stage.start_and_open()
    await device.change(add="1A-1B 2A-2B")
    twin.faults.panel(pairs("2A-2B"), pairs("5A-2B"))
    exchange = await device.change(remove="1A-1B", add="3A-3B")
    assert exchange.commands == 1
    assert texts(exchange.before or ()) == "1A-1B 5A-2B"
    assert twin.unit.pairs() == [(3, 11), (5, 10)]
    device = await stage.open(read_before=False)
    exchange = await device.change(add="1A-1B")
    assert exchange.before is None
    assert not (await device.capabilities()).reports_before


@pytest.mark.parametrize("fault", ["garble_next", "wrong_next"])
async def test_an_answer_that_cannot_be_read_ends_the_session_and_counts(
    stage: Stage, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    twin, device = await stage.start_and_open()
    setattr(twin.faults, fault, True)
    with pytest.raises(ProtocolError):
        await device.read()
    assert isinstance(await asyncio.wait_for(device.lost(), 30), ProtocolError)
    assert device.device._client._connection.garbled == 1
    assert "cannot parse" in caplog.text


async def test_host_keys(stage: Stage) -> None:
    twin = await stage.start()
    with pytest.raises(ConfigError, match="host key"):
        await stage.open(host_key="SHA256:wrong")
    await stage.open(host_key=twin.fronts["netconf"].host_key)


async def test_sessions_over_the_limit_are_errors(stage: Stage) -> None:
    await stage.start_and_open(sessions_max=1)
    with pytest.raises((LinkError, ProtocolError)) as raised:
        await (await stage.open(login_within_s=10.0)).identify()
    assert not isinstance(raised.value, DeadlineError)


class Raw(Client):
    """Bytes of a NETCONF session."""

    async def messages(self, count: int) -> list[bytes]:
        async with asyncio.timeout(30):
            await self.until(lambda: self.received.count(END) >= count)
        return self.received.split(END)[:-1]


@pytest.fixture
async def raw(stage: Stage) -> AsyncIterator[Raw]:
    await stage.start()
    ssh = await SshSession.open(
        stage.dialer,
        stage.address,
        name="raw",
        login=SshLogin(user="admin", password="root"),
        clock=stage.clock,
        deadline_s=stage.now_s + 30.0,
    )
    try:
        yield (await ssh.subsystem(Raw, "netconf"))[1]
    finally:
        await ssh.close()


async def test_the_twin_answers_as_it_was_written_down(raw: Raw) -> None:
    lines = Path(__file__).with_name("captures.txt").read_text(encoding="utf-8").splitlines()
    sent, wanted = ([line[2:].encode() for line in lines if line[0] == mark] for mark in "><")
    for message in sent:
        raw.transport.write(message + END)
    assert await raw.messages(len(wanted)) == wanted
    await asyncio.wait_for(raw.lost(), 30)


@pytest.mark.parametrize(
    "data",
    [
        b"<rpc message-id='1'><get/></rpc>" + END,
        b"<hello/>" + END,
        re.sub(
            b"</hello>",
            b"<session-id>4</session-id></hello>",
            b"<hello><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability></capabilities></hello>",
        )
        + END,
        b"<!DOCTYPE x [<!ENTITY a 'b'>]><hello>&a;</hello>" + END,
        b"nonsense" + END,
        b"x" * (5 << 20),
    ],
)
async def test_a_message_that_only_a_server_sends_ends_the_session(raw: Raw, data: bytes) -> None:
    raw.transport.write(data)
    await asyncio.wait_for(raw.lost(), 30)
    assert b"rpc-reply" not in raw.received
