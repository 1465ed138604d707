"""The SONiC driver against its twin in real time: its commands, its errors, and that it leaves nothing open."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hwd_drivers.conformance import check_garbage, check_move, check_wrong_answer
from hwd_drivers.conformance.bench import twin_bench
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import (
    ConfigError,
    DeadlineError,
    DeviceError,
    FailedError,
    LinkError,
    LoginError,
    ProtocolError,
)
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, PortOverride, PortSide
from hwd_drivers.devices.registry import OpenContext, find
from hwd_drivers.families.sonic.driver import SonicOptions, SonicSwitch
from hwd_drivers.families.sonic.models import sonic_ocs
from hwd_drivers.families.sonic.twin import SonicTwin
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.transports.rough import Way
from hwd_drivers.twins.faults import Denial
from hwd_drivers.twins.timing import find_timing


def pair(text: str) -> Crossconnect:
    return Crossconnect.parse(text)


async def read(sonic: SonicSwitch) -> list[str]:
    return [str(each) for each in await sonic.read_crossconnects(deadline_s=soon())]


def soon(seconds: float = 3.0) -> float:
    return asyncio.get_running_loop().time() + seconds


def nothing(document: Document) -> None:
    """No sink is looked at here."""


@asynccontextmanager
async def rack(
    timing: str = "ideal", size: str = "8x8", **options: Any
) -> AsyncIterator[tuple[SonicTwin, OpenContext]]:
    dialer = MemoryDialer(MemoryNet())
    before = set(threading.enumerate())
    twin = SonicTwin(
        name="ocs1",
        capabilities=sonic_ocs("8x8"),
        timing=find_timing(timing),
        draws=Draws(1),
        clock=SystemClock(),
        dialer=dialer,
        address="mem:ocs1",
        options={"user": "admin", "password": "YourPaSsWoRd"},
    )
    context = OpenContext(
        name="ocs1",
        address=await twin.start(),
        dialer=dialer,
        clock=SystemClock(),
        sink=nothing,
        user="admin",
        password="YourPaSsWoRd",
        options=SonicOptions(**options),
        capabilities=sonic_ocs(size),
    )
    try:
        yield twin, context
    finally:
        await twin.close()
    assert set(threading.enumerate()) <= before


@asynccontextmanager
async def switch(
    timing: str = "ideal", size: str = "8x8", **options: Any
) -> AsyncIterator[tuple[SonicTwin, SonicSwitch]]:
    async with rack(timing, size, **options) as (twin, context):
        opened = await SonicSwitch.open(context)
        try:
            yield twin, opened
        finally:
            await opened.close()


async def test_it_waits_until_the_switch_reports_tuned() -> None:
    async with switch("polatis-opus", poll_s=0.01) as (twin, sonic):
        exchange = await sonic.change_crossconnects(remove=(), add=[pair("1A-2B"), pair("3A-4B")], deadline_s=soon())
        assert [row.state for row in twin.unit.rows()] == ["tuned", "tuned"]
        assert exchange.acknowledged_ns - exchange.commanded_ns > 20_000_000
        assert (exchange.commands, exchange.before) == (1, ())
        assert await read(sonic) == ["1A-2B tuned", "3A-4B tuned"]


async def test_a_reset_cuts_a_connection_on_which_no_command_is_running() -> None:
    """Each command is a channel of its own: between two of them the connection has none."""
    async with switch() as (twin, sonic):
        twin.faults.reset()
        async with asyncio.timeout(3):
            assert isinstance(await sonic.lost(), LinkError)


async def test_a_change_is_one_command_line_and_reports_the_state_before() -> None:
    async with switch() as (twin, sonic):
        await sonic.change_crossconnects(remove=(), add=[pair("1A-1B"), pair("2A-2B")], deadline_s=soon())
        exchange = await sonic.change_crossconnects(
            remove=[pair("1A-1B"), pair("2A-2B")], add=[pair("2A-3B")], deadline_s=soon()
        )
        assert exchange.commands == 2
        assert exchange.before == (pair("1A-1B"), pair("2A-2B"))
        assert twin.unit.configured == [pair("2A-3B")]


async def test_a_stale_crossconnect_beside_a_new_one_is_cleared() -> None:
    """The field failure of sonic-mgmt issue 25382: the old pair stayed beside the new one, with a success."""
    async with switch() as (twin, sonic):
        twin.faults.panel((), [pair("1A-1B"), pair("5A-5B")])
        exchange = await sonic.change_crossconnects(remove=[pair("1A-1B")], add=[pair("1A-2B")], deadline_s=soon())
        assert exchange.commands == 3
        assert [str(row.pair) for row in twin.unit.rows()] == ["1A-2B", "5A-5B"]
        assert twin.unit.configured == [pair("1A-2B")]


async def test_a_stale_crossconnect_reads_as_failed_and_is_removed(caplog: pytest.LogCaptureFixture) -> None:
    async with switch() as (twin, sonic):
        twin.faults.panel((), [pair("1A-1B")])
        assert await read(sonic) == ["1A-1B failed"]
        assert await read(sonic) == ["1A-1B failed"]
        assert caplog.text.count("ocs1: 1A-1B is tuned, and in no configuration") == 1
        await sonic.change_crossconnects(remove=[pair("1A-1B")], add=(), deadline_s=soon())
        assert twin.unit.rows() == []


async def test_a_stale_crossconnect_that_is_asked_for_is_configured() -> None:
    async with switch() as (twin, sonic):
        twin.faults.panel((), [pair("1A-1B")])
        await sonic.change_crossconnects(remove=[pair("1A-1B")], add=[pair("1A-1B")], deadline_s=soon())
        assert await read(sonic) == ["1A-1B tuned"]
        assert twin.unit.configured == [pair("1A-1B")]


async def test_a_pair_that_a_panel_replaced_is_not_read_and_all_can_be_removed() -> None:
    async with switch() as (twin, sonic):
        await sonic.change_crossconnects(remove=(), add=[pair("1A-2B")], deadline_s=soon())
        twin.faults.panel([pair("1A-2B")], [pair("1A-4B")])
        assert await read(sonic) == ["1A-4B failed"]
        await sonic.change_crossconnects(remove=[pair("1A-4B")], add=(), deadline_s=soon())
        assert (twin.unit.rows(), twin.unit.configured) == ([], [])


async def test_both_crossconnects_of_a_port_can_be_named_as_to_go() -> None:
    """Configuring the one that is only in the optics takes the place of the other, which then does not exist."""
    async with switch() as (twin, sonic):
        await sonic.change_crossconnects(remove=(), add=[pair("1A-2B"), pair("5A-5B")], deadline_s=soon())
        twin.faults.panel([pair("1A-2B")], [pair("1A-4B")])
        await sonic.change_crossconnects(remove=[pair("1A-2B"), pair("1A-4B")], add=(), deadline_s=soon())
        assert await read(sonic) == ["5A-5B tuned"]
        assert twin.unit.configured == [pair("5A-5B")]


async def test_a_change_that_did_not_move_a_mirror_is_taken_back_in_both_tables() -> None:
    async with switch() as (twin, sonic):
        await sonic.change_crossconnects(remove=(), add=[pair("1A-2B"), pair("2A-1B")], deadline_s=soon())
        twin.faults.stick([PortSide.parse("1A")])
        with pytest.raises(FailedError, match="does not report 1A-3B as tuned: it is not there"):
            await sonic.change_crossconnects(remove=[pair("1A-2B")], add=[pair("1A-3B")], deadline_s=soon(0.4))
        assert await read(sonic) == ["1A-2B failed", "2A-1B tuned"]
        await sonic.change_crossconnects(remove=[pair("1A-2B")], add=[pair("1A-2B")], deadline_s=soon())
        assert await read(sonic) == ["1A-2B tuned", "2A-1B tuned"]
        assert twin.unit.configured == [pair("1A-2B"), pair("2A-1B")]


async def test_a_pair_that_disappears_before_its_deletion_counts_as_deleted() -> None:
    async with switch() as (twin, sonic):
        await sonic.change_crossconnects(remove=(), add=[pair("1A-1B"), pair("2A-2B")], deadline_s=soon())

        commanded: list[int] = []

        def somebody_else_is_first(at_ns: int) -> None:
            commanded.append(at_ns)
            twin.unit.delete([pair("1A-1B")])

        exchange = await sonic.change_crossconnects(
            remove=[pair("1A-1B"), pair("2A-2B")],
            add=[pair("3A-3B")],
            deadline_s=soon(),
            on_commanded=somebody_else_is_first,
        )
        assert await read(sonic) == ["3A-3B tuned"]
        assert commanded == [exchange.commanded_ns]
        assert exchange.before == (pair("2A-2B"),), "what was there when the first line was run"


async def test_that_something_does_not_exist_is_an_error_where_it_is_there() -> None:
    async with switch() as (twin, sonic):
        await sonic.change_crossconnects(remove=(), add=[pair("1A-1B")], deadline_s=soon())
        twin.faults.deny_next = Denial(code="1", text="Cross-connect 1A-1B does not exist")
        with pytest.raises(DeviceError, match="1A-1B does not exist"):
            await sonic.change_crossconnects(remove=[pair("1A-1B")], add=(), deadline_s=soon())


async def test_an_answer_that_comes_too_late_does_not_hide_what_was_seen_before() -> None:
    async with switch(poll_s=0.01) as (twin, sonic):
        twin.faults.partial_next = 0
        looks = asyncio.get_running_loop().call_later(0.3, lambda: setattr(twin.faults, "slow_s", 5.0))
        with pytest.raises(FailedError, match="it answered, but does not report 1A-3B as tuned: it is not there"):
            await sonic.change_crossconnects(remove=(), add=[pair("1A-3B")], deadline_s=soon(0.6))
        assert looks.when() < asyncio.get_running_loop().time()


async def test_a_silent_switch_gives_no_answer_in_time() -> None:
    async with switch() as (twin, sonic):
        twin.faults.silent = True
        with pytest.raises(DeadlineError):
            await sonic.change_crossconnects(remove=(), add=[pair("1A-3B")], deadline_s=soon(0.3))


async def test_a_missing_connection_needs_no_command() -> None:
    async with switch() as (_, sonic):
        commanded: list[int] = []
        exchange = await sonic.change_crossconnects(
            remove=[pair("1A-1B")], add=(), deadline_s=soon(), on_commanded=commanded.append
        )
        assert exchange.commands == 0
        assert commanded == [exchange.commanded_ns]


async def test_a_pair_in_the_configuration_only_is_failed_and_awaited() -> None:
    async with switch() as (twin, sonic):
        twin.faults.stick([PortSide.parse("1A")])
        with pytest.raises(FailedError, match="ocs1: it answered, but does not report 1A-1B as tuned: it is not there"):
            await sonic.change_crossconnects(remove=(), add=[pair("1A-1B")], deadline_s=soon(0.4))
        assert await read(sonic) == ["1A-1B failed"]


async def test_a_crossconnect_that_failed_is_an_error_at_once() -> None:
    async with switch() as (twin, sonic):
        twin.faults.fail([PortSide.parse("1A")])
        with pytest.raises(FailedError, match="1A-1B failed"):
            await sonic.change_crossconnects(remove=(), add=[pair("1A-1B")], deadline_s=soon())


async def test_a_crossconnect_through_a_blocked_port_is_made_and_dark() -> None:
    async with switch() as (_, sonic):
        end = PortSide.parse("1B")
        await sonic.override([end], PortOverride.FORCE_BLOCKED, deadline_s=soon())
        await sonic.change_crossconnects(remove=(), add=[pair("1A-1B")], deadline_s=soon())
        assert await read(sonic) == ["1A-1B blocked"]
        await sonic.override([end], PortOverride.NORMAL, deadline_s=soon())
        assert await sonic.read_overrides([end], deadline_s=soon()) == {end: PortOverride.NORMAL}


async def test_a_refusal_has_the_text_of_the_switch_and_names_the_command() -> None:
    async with switch() as (twin, sonic):
        await sonic.change_crossconnects(remove=(), add=[pair("1A-1B")], deadline_s=soon())
        twin.faults.deny_next = Denial(code="4", text="hardware is busy")
        with pytest.raises(
            DeviceError,
            match=r"ocs1: config ocs .* delete 1A-1B: the switch says Error: hardware is busy \(exit status 4\)",
        ) as raised:
            await sonic.change_crossconnects(remove=[pair("1A-1B")], add=[pair("2A-2B")], deadline_s=soon())
        assert raised.value.command == "config ocs cross-connect delete 1A-1B"
        assert twin.unit.configured == [pair("1A-1B")], "what follows a no must not run"


async def test_identity_and_size() -> None:
    async with switch() as (twin, sonic):
        identity = await sonic.identify(deadline_s=soon())
        assert (identity.vendor, identity.serial) == ("SONiC", twin.unit.serial)
        assert await sonic.capabilities(deadline_s=soon()) == sonic_ocs("8x8")
    async with switch(size="16x16") as (_, sonic):
        with pytest.raises(ConfigError, match="the switch has 16 ports, 1A to 8B; the testbed says 32, 1A to 16B"):
            await sonic.capabilities(deadline_s=soon())


async def test_an_answer_that_cannot_be_read_ends_the_session_and_counts(caplog: pytest.LogCaptureFixture) -> None:
    async with switch() as (twin, sonic):
        twin.faults.garble_next = True
        with pytest.raises(ProtocolError):
            await sonic.read_crossconnects(deadline_s=soon())
        assert isinstance(await asyncio.wait_for(sonic.lost(), 3), ProtocolError)
        assert sonic._ssh.garbled == 1
        assert "cannot parse b'\\r\\n\\n#" in caplog.text


async def test_a_wrong_password_and_a_wrong_host_key_are_different_errors() -> None:
    async with rack() as (twin, context):
        with pytest.raises(LoginError, match="refuses the login of admin"):
            await SonicSwitch.open(_but(context, password="toor"))
        with pytest.raises(ConfigError, match="host key"):
            await SonicSwitch.open(_but(context, options=SonicOptions(host_key="SHA256:wrong")))
        with pytest.raises(ConfigError, match="needs a login"):
            await SonicSwitch.open(_but(context, password=None))
        right = await SonicSwitch.open(_but(context, options=SonicOptions(host_key=twin.host_key)))
        await right.close()


@pytest.mark.parametrize("check", [check_move, check_garbage, check_wrong_answer], ids=lambda check: check.__name__)
async def test_it_passes_the_suite_bytewise(check: Any) -> None:
    """The whole suite over all ways is run by tests/drivers/test_all_drivers.py; it is slow."""
    async with twin_bench(
        find("sonic-ocs"),
        model="sonic-ocs",
        size="8x8",
        way=Way.BYTEWISE,
        dialer=MemoryDialer(MemoryNet()),
        clock=SystemClock(),
        draws=Draws(7),
        timing=find_timing("ideal"),
    ) as bench:
        await check(bench)


def _but(context: OpenContext, **other: Any) -> OpenContext:
    fields = {name: getattr(context, name) for name in OpenContext.__slots__}
    return OpenContext(**(fields | other))
