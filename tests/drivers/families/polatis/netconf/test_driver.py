"""The NETCONF driver of Polatis switches against its twin in real time, and the twin's answers byte for byte."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from hwd_drivers.conformance import check_move, check_wrong_answer
from hwd_drivers.conformance.bench import twin_bench
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, DeadlineError, DeviceError, LinkError, LoginError, ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Attenuation, AttenuationMode, Crossconnect, PortOverride, PortSide
from hwd_drivers.devices.registry import OpenContext, find
from hwd_drivers.families.polatis.models import MODELS_REPORTING_BEFORE
from hwd_drivers.families.polatis.netconf.driver import NetconfOptions, PolatisNetconfSwitch
from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.transports.rough import Way
from hwd_drivers.transports.ssh.session import SshLogin, SshSession
from hwd_drivers.twins.timing import find_timing

Unit = Callable[..., AbstractAsyncContextManager[tuple[PolatisTwin, OpenContext]]]
END = b"]]>]]>"


def pair(text: str) -> Crossconnect:
    return Crossconnect.parse(text)


def soon(seconds: float = 3.0) -> float:
    return asyncio.get_running_loop().time() + seconds


def but(context: OpenContext, **other: Any) -> OpenContext:
    return OpenContext(**({name: getattr(context, name) for name in OpenContext.__slots__} | other))


@pytest.fixture
def switch(unit: Unit) -> Callable[..., AbstractAsyncContextManager[tuple[PolatisTwin, PolatisNetconfSwitch]]]:
    @asynccontextmanager
    async def opened(
        options: NetconfOptions | None = None, **twin_options: Any
    ) -> AsyncIterator[tuple[PolatisTwin, PolatisNetconfSwitch]]:
        before = set(threading.enumerate())
        async with unit(**twin_options) as (twin, context):
            device = await PolatisNetconfSwitch.open(but(context, options=options or NetconfOptions()))
            try:
                yield twin, device
            finally:
                await device.close()
        assert set(threading.enumerate()) <= before

    return opened


Switch = Callable[..., AbstractAsyncContextManager[tuple[PolatisTwin, PolatisNetconfSwitch]]]


@pytest.mark.parametrize("named", ["pair", "pairs"])
@pytest.mark.parametrize("base", ["1.0", "1.1"])
async def test_both_revisions_of_the_module_and_both_framings(switch: Switch, named: str, base: str) -> None:
    async with switch(netconf_list=named, netconf_base=base) as (twin, device):
        await device.change_crossconnects(remove=(), add=[pair("1A-2B"), pair("3A-4B")], deadline_s=soon())
        read = await device.read_crossconnects(deadline_s=soon())
        assert [str(each.crossconnect) for each in read] == ["1A-2B", "3A-4B"]
        await device.change_crossconnects(remove=[pair("1A-2B")], add=(), deadline_s=soon())
        assert twin.unit.pairs() == [(3, 12)]


async def test_a_unit_with_old_modules_has_power_and_port_states_in_another_place(switch: Switch) -> None:
    async with switch(netconf_list="pairs") as (twin, device):
        capabilities = await device.capabilities(deadline_s=soon())
        assert (len(capabilities.monitored), capabilities.attenuated, len(capabilities.blockable)) == (8, (), 16)
        end = PortSide.parse("1B")
        await device.change_crossconnects(remove=(), add=[pair("1A-1B")], deadline_s=soon())
        twin.mirror.set_input(PortSide.parse("1A"), 1.0)
        lit, dark = await device.read_power([end, PortSide.parse("2B")], deadline_s=soon())
        assert (lit.power_dbm is not None, dark.power_dbm) == (True, None)
        await device.override([end], PortOverride.FORCE_BLOCKED, deadline_s=soon())
        assert twin.mirror.blocked == {end}
        assert await device.read_overrides([end], deadline_s=soon()) == {end: PortOverride.FORCE_BLOCKED}
        await device.override([end], PortOverride.NORMAL, deadline_s=soon())
        assert await device.read_overrides([end], deadline_s=soon()) == {end: PortOverride.NORMAL}


async def test_relative_attenuation_is_an_offset_to_the_reference_port(switch: Switch) -> None:
    async with switch(model="polatis-vst") as (twin, device):
        end, reference = PortSide.parse("1B"), PortSide.parse("1A")
        await device.change_crossconnects(remove=(), add=[pair("1A-1B")], deadline_s=soon())
        twin.mirror.set_input(reference, 1.0)
        held = Attenuation(end=end, mode=AttenuationMode.RELATIVE, level=6.0)
        await device.attenuate([held], deadline_s=soon())
        (read,) = await device.read_attenuation([end], deadline_s=soon())
        assert (read.mode, read.level, read.reference) == (AttenuationMode.RELATIVE, 6.0, reference)
        assert twin.mirror.output(end, SystemClock().monotonic_ns()) == pytest.approx(-5.0, abs=0.01)


async def test_a_change_is_one_edit_and_reports_the_state_before(switch: Switch) -> None:
    async with switch() as (twin, device):
        await device.change_crossconnects(remove=(), add=[pair("1A-1B"), pair("2A-2B")], deadline_s=soon())
        twin.faults.panel([pair("2A-2B")], [pair("5A-2B")])
        exchange = await device.change_crossconnects(remove=[pair("1A-1B")], add=[pair("3A-3B")], deadline_s=soon())
        assert exchange.commands == 1
        assert exchange.before == (pair("1A-1B"), pair("5A-2B"))
        assert twin.unit.pairs() == [(3, 11), (5, 10)]
    async with switch(NetconfOptions(read_before=False)) as (_, device):
        exchange = await device.change_crossconnects(remove=(), add=[pair("1A-1B")], deadline_s=soon())
        assert exchange.before is None
        assert not (await device.capabilities(deadline_s=soon())).reports_before


async def test_on_a_single_sided_unit_a_crossconnect_is_removed_by_what_the_unit_calls_its_ingress(
    switch: Switch,
) -> None:
    async with switch(size="8") as (twin, device):
        twin.unit.connect([(7, 3), (1, 2)])
        read = await device.read_crossconnects(deadline_s=soon())
        assert [str(each.crossconnect) for each in read] == ["1-2", "3-7"]
        await device.change_crossconnects(remove=[pair("3-7"), pair("1-2")], add=(), deadline_s=soon())
        assert twin.unit.pairs() == []


async def test_a_refusal_has_the_error_tag_and_message_and_names_the_crossconnects(switch: Switch) -> None:
    async with switch() as (_, device):
        with pytest.raises(
            DeviceError,
            match=r"ocs1: edit-config cross-connects: delete 7A-7B: the device says data-missing \(Port 7 has no",
        ) as raised:
            await device.change_crossconnects(remove=[pair("7A-7B")], add=(), deadline_s=soon())
        assert (raised.value.device, raised.value.code, raised.value.text) == (
            "ocs1",
            "data-missing",
            "Port 7 has no cross-connect",
        )


async def test_a_single_sided_unit(switch: Switch) -> None:
    async with switch(size="16") as (twin, device):
        await device.change_crossconnects(remove=(), add=[pair("3-12")], deadline_s=soon())
        assert twin.unit.pairs() == [(3, 12)]
        assert [str(each.crossconnect) for each in await device.read_crossconnects(deadline_s=soon())] == ["3-12"]


async def test_capabilities_are_those_of_the_unit(switch: Switch, unit: Unit) -> None:
    async with switch(model="polatis-vst") as (_, device):
        capabilities = await device.capabilities(deadline_s=soon())
        outputs = tuple(PortSide.parse(f"{port}B") for port in range(1, 9))
        assert capabilities.monitored == capabilities.attenuated == outputs
        assert len(capabilities.blockable) == 16
    async with unit() as (_, context):
        bigger = MODELS_REPORTING_BEFORE["polatis-6000"]("16x16")
        device = await PolatisNetconfSwitch.open(but(context, capabilities=bigger))
        with pytest.raises(ConfigError, match=r"ocs1: the switch has 8x8 \(16 ports\), the testbed says 16x16"):
            await device.capabilities(deadline_s=soon())
        await device.close()


async def test_overrides_are_port_states(switch: Switch) -> None:
    async with switch() as (twin, device):
        ends = [PortSide.parse("1A"), PortSide.parse("1B")]
        await device.override(ends, PortOverride.FORCE_BLOCKED, deadline_s=soon())
        assert twin.mirror.blocked == frozenset(ends)
        asked = [*ends, PortSide.parse("2A")]
        read = await device.read_overrides(asked, deadline_s=soon())
        assert list(read.values()) == [PortOverride.FORCE_BLOCKED, PortOverride.FORCE_BLOCKED, PortOverride.NORMAL]
        await device.override(ends, PortOverride.NORMAL, deadline_s=soon())
        assert twin.mirror.blocked == frozenset()


async def test_a_missing_part_of_the_unit_is_a_device_error(switch: Switch) -> None:
    async with switch() as (_, device):
        with pytest.raises(DeviceError, match="nothing of 1A in the answer"):
            await device.read_power([PortSide.parse("1A"), PortSide.parse("1B")], deadline_s=soon())
        with pytest.raises(DeviceError, match="nothing of 1B"):
            await device.read_attenuation([PortSide.parse("1B")], deadline_s=soon())
        assert await device.read_power([], deadline_s=soon()) == ()


async def test_an_output_is_held_at_a_power(switch: Switch) -> None:
    async with switch(model="polatis-vst") as (twin, device):
        end = PortSide.parse("1B")
        await device.change_crossconnects(remove=(), add=[pair("1A-1B")], deadline_s=soon())
        twin.mirror.set_input(PortSide.parse("1A"), 1.0)
        held = Attenuation(end=end, mode=AttenuationMode.ABSOLUTE, level=-12.5)
        await device.attenuate([held], deadline_s=soon())
        assert await device.read_attenuation([end], deadline_s=soon()) == (held,)
        (read,) = await device.read_power([end], deadline_s=soon())
        assert read.power_dbm is not None
        assert twin.mirror.output(end, SystemClock().monotonic_ns()) == pytest.approx(-12.5, abs=0.01)
        await device.attenuate([Attenuation(end=end, mode=AttenuationMode.NONE)], deadline_s=soon())
        (read_now,) = await device.read_attenuation([end], deadline_s=soon())
        assert (read_now.mode, read_now.level) == (AttenuationMode.NONE, None)


async def test_an_answer_that_cannot_be_read_ends_the_session_and_counts(
    switch: Switch, caplog: pytest.LogCaptureFixture
) -> None:
    for fault in ("garble_next", "wrong_next"):
        async with switch() as (twin, device):
            setattr(twin.faults, fault, True)
            with pytest.raises(ProtocolError):
                await device.read_crossconnects(deadline_s=soon())
            assert isinstance(await asyncio.wait_for(device.lost(), 3), ProtocolError)
            assert device._client.garbled == 1
            assert "cannot parse" in caplog.text


async def test_wrong_logins_and_host_keys(unit: Unit) -> None:
    async with unit() as (twin, context):
        front: Any = twin.fronts["netconf"]
        with pytest.raises(LoginError, match="refuses the login of admin"):
            await PolatisNetconfSwitch.open(but(context, password="toor"))
        with pytest.raises(ConfigError, match="host key"):
            await PolatisNetconfSwitch.open(but(context, options=NetconfOptions(host_key="SHA256:wrong")))
        with pytest.raises(ConfigError, match="needs a login"):
            await PolatisNetconfSwitch.open(but(context, user=None))
        right = await PolatisNetconfSwitch.open(but(context, options=NetconfOptions(host_key=front.host_key)))
        await right.close()


async def test_sessions_over_the_limit_are_errors(unit: Unit) -> None:
    async with unit(sessions_max=1) as (_, context):
        first = await PolatisNetconfSwitch.open(context)
        with pytest.raises((LinkError, ProtocolError)) as raised:
            second = await PolatisNetconfSwitch.open(but(context, options=NetconfOptions(login_within_s=2.0)))
            await second.identify(deadline_s=soon())
        assert not isinstance(raised.value, DeadlineError)
        await first.close()


async def test_it_works_over_tcp(unit: Unit) -> None:
    async with unit(dialer=TcpDialer(), address="127.0.0.1:0") as (twin, context):
        device = await PolatisNetconfSwitch.open(context)
        assert (await device.identify(deadline_s=soon())).serial == twin.unit.product.serial
        await device.close()


@pytest.mark.parametrize("check", [check_move, check_wrong_answer], ids=lambda check: check.__name__)
async def test_it_passes_the_suite_bytewise(check: Any) -> None:
    """The whole suite over all ways is run by tests/drivers/test_all_drivers.py; it is slow."""
    async with twin_bench(
        find("polatis-netconf"),
        model="polatis-vst",
        size="8x8",
        way=Way.BYTEWISE,
        dialer=MemoryDialer(MemoryNet()),
        clock=SystemClock(),
        draws=Draws(7),
        timing=find_timing("ideal"),
    ) as bench:
        await check(bench)


class Raw(asyncio.Protocol):
    """Bytes of a NETCONF session."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.lost = asyncio.Event()
        self.came = asyncio.Event()

    @override
    def data_received(self, data: bytes) -> None:
        self.data += data
        self.came.set()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    async def until(self, messages: int) -> list[bytes]:
        async with asyncio.timeout(5):
            while self.data.count(END) < messages:
                self.came.clear()
                await self.came.wait()
        return bytes(self.data).split(END)[:-1]


@asynccontextmanager
async def raw(unit: Unit) -> AsyncIterator[tuple[asyncio.Transport, Raw]]:
    async with unit() as (_, context):
        ssh = await SshSession.open(
            context.dialer,
            context.address,
            name="raw",
            login=SshLogin(user="admin", password="root"),
            clock=SystemClock(),
            deadline_s=soon(),
        )
        try:
            yield await ssh.subsystem(Raw, "netconf")
        finally:
            await ssh.close()


async def test_the_twin_answers_as_it_was_written_down(unit: Unit) -> None:
    lines = Path(__file__).with_name("captures.txt").read_text(encoding="utf-8").splitlines()
    sent, wanted = ([line[2:].encode() for line in lines if line[0] == mark] for mark in "><")
    async with raw(unit) as (transport, session):
        for message in sent:
            transport.write(message + END)
        assert await session.until(len(wanted)) == wanted
        await asyncio.wait_for(session.lost.wait(), 5)


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
async def test_a_message_that_only_a_server_sends_ends_the_session(unit: Unit, data: bytes) -> None:
    async with raw(unit) as (transport, session):
        transport.write(data)
        await asyncio.wait_for(session.lost.wait(), 10)
        assert b"rpc-reply" not in session.data
