"""The SONiC driver against its twin in real time: its commands, its errors, and that it leaves nothing open."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hwd_drivers.core.errors import ConfigError, DeadlineError, DeviceError, FailedError, LinkError, ProtocolError
from hwd_drivers.core.values import PortOverride
from hwd_drivers.families.sonic.cli import CommandLine, LineOutput
from hwd_drivers.families.sonic.driver import LOOK_WITHIN_S
from hwd_drivers.twins.faults import Denial

from ...parts import ends, pairs
from ...stage import Stage, texts

LOGIN = ("admin", "YourPaSsWoRd")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    options = dict(zip(("user", "password"), LOGIN, strict=True))
    async with Stage("sonic-ocs", "sonic-ocs", "8x8", login=LOGIN, options={**options}, within_s=30.0) as stage:
        yield stage


async def test_it_waits_until_the_switch_reports_tuned(stage: Stage) -> None:
    stage.timing = "polatis-opus"
    twin = await stage.start()
    sonic = await stage.open(poll_s=0.01)
    exchange = await sonic.change(add="1A-2B 3A-4B")
    assert [row.state for row in twin.unit.rows()] == ["tuned", "tuned"]
    assert exchange.acknowledged_ns - exchange.commanded_ns > 20_000_000
    assert (exchange.commands, exchange.before) == (1, ())
    assert await sonic.read() == ["1A-2B tuned", "3A-4B tuned"]
    assert (await sonic.change(remove="1A-2B 3A-4B", add="1A-5B")).commands == 2


async def test_a_reset_cuts_a_connection_on_which_no_command_is_running(stage: Stage) -> None:
    """Each command is a channel of its own: between two of them the connection has none."""
    twin, sonic = await stage.start_and_open()
    twin.faults.reset()
    async with asyncio.timeout(30):
        assert isinstance(await sonic.lost(), LinkError)


async def test_a_stale_crossconnect_beside_a_new_one_is_cleared(stage: Stage) -> None:
    """The field failure of sonic-mgmt issue 25382: the old pair stayed beside the new one, with a success."""
    twin, sonic = await stage.start_and_open()
    twin.faults.panel((), pairs("1A-1B 5A-5B"))
    exchange = await sonic.change(remove="1A-1B", add="1A-2B")
    assert exchange.commands == 3
    assert [str(row.pair) for row in twin.unit.rows()] == ["1A-2B", "5A-5B"]
    assert texts(twin.unit.configured) == "1A-2B"


async def test_a_stale_crossconnect_reads_as_failed_and_is_removed(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    twin, sonic = await stage.start_and_open()
    twin.faults.panel((), pairs("1A-1B"))
    assert await sonic.read() == ["1A-1B failed"]
    assert await sonic.read() == ["1A-1B failed"]
    assert caplog.text.count("ocs1: 1A-1B is tuned, and in no configuration") == 1
    await sonic.change(remove="1A-1B")
    assert twin.unit.rows() == []


async def test_a_stale_crossconnect_that_is_asked_for_is_configured(stage: Stage) -> None:
    twin, sonic = await stage.start_and_open()
    twin.faults.panel((), pairs("1A-1B"))
    await sonic.change(remove="1A-1B", add="1A-1B")
    assert await sonic.read() == ["1A-1B tuned"]
    assert texts(twin.unit.configured) == "1A-1B"


async def test_a_pair_that_a_panel_replaced_is_not_read_and_all_can_be_removed(stage: Stage) -> None:
    twin, sonic = await stage.start_and_open()
    await sonic.change(add="1A-2B")
    twin.faults.panel(pairs("1A-2B"), pairs("1A-4B"))
    assert await sonic.read() == ["1A-4B failed"]
    await sonic.change(remove="1A-4B")
    assert (twin.unit.rows(), twin.unit.configured) == ([], [])


async def test_both_crossconnects_of_a_port_can_be_named_as_to_go(stage: Stage) -> None:
    """Configuring the one that is only in the optics takes the place of the other, which then does not exist."""
    twin, sonic = await stage.start_and_open()
    await sonic.change(add="1A-2B 5A-5B")
    twin.faults.panel(pairs("1A-2B"), pairs("1A-4B"))
    await sonic.change(remove="1A-2B 1A-4B")
    assert await sonic.read() == ["5A-5B tuned"]
    assert texts(twin.unit.configured) == "5A-5B"


async def test_a_change_that_did_not_move_a_mirror_is_taken_back_in_both_tables(stage: Stage) -> None:
    twin, sonic = await stage.start_and_open()
    await sonic.change(add="1A-2B 2A-1B")
    twin.faults.stick(ends("1A"))
    with pytest.raises(FailedError, match="does not report 1A-3B as tuned: it is not there"):
        await sonic.change(remove="1A-2B", add="1A-3B", within_s=1.5)
    assert await sonic.read() == ["1A-2B failed", "2A-1B tuned"]
    with pytest.raises(FailedError, match="still reports 1A-2B"):
        await sonic.change(remove="1A-2B", within_s=1.5)
    await sonic.change(remove="1A-2B", add="1A-2B")
    assert await sonic.read() == ["1A-2B tuned", "2A-1B tuned"]
    assert texts(twin.unit.configured) == "1A-2B 2A-1B"


async def test_a_pair_that_disappears_before_its_deletion_counts_as_deleted(stage: Stage) -> None:
    twin, sonic = await stage.start_and_open()
    await sonic.change(add="1A-1B 2A-2B")

    commanded: list[int] = []

    def somebody_else_is_first(at_ns: int) -> None:
        commanded.append(at_ns)
        twin.unit.delete(pairs("1A-1B"))

    exchange = await sonic.change(remove="1A-1B 2A-2B", add="3A-3B", on_commanded=somebody_else_is_first)
    assert await sonic.read() == ["3A-3B tuned"]
    assert commanded == [exchange.commanded_ns]
    assert texts(exchange.before or ()) == "2A-2B", "what was there when the first line was run"


async def test_that_something_does_not_exist_is_an_error_where_it_is_there(stage: Stage) -> None:
    twin, sonic = await stage.start_and_open()
    await sonic.change(add="1A-1B")
    twin.faults.deny_next = Denial(code="1", text="Cross-connect 1A-1B does not exist")
    with pytest.raises(DeviceError, match="1A-1B does not exist") as raised:
        await sonic.change(remove="1A-1B", add="2A-2B")
    assert raised.value.command == "config ocs cross-connect delete 1A-1B"
    assert texts(twin.unit.configured) == "1A-1B", "what follows a no must not run"


async def test_an_answer_that_comes_too_late_does_not_hide_what_was_seen_before(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = await stage.start()
    sonic = await stage.open(poll_s=0.01)
    twin.faults.partial_next = 0
    run, late_s = CommandLine.run, stage.now_s + 2.0 - 0.8 * LOOK_WITHIN_S

    def look(shell: CommandLine, line: str, **more: Any) -> LineOutput:
        twin.faults.slow_s = 30.0 if stage.now_s > late_s else 0.0
        return run(shell, line, **more)

    monkeypatch.setattr(CommandLine, "run", look)
    with pytest.raises(FailedError, match="it answered, but does not report 1A-3B as tuned: it is not there"):
        await sonic.change(add="1A-3B", within_s=2.0)
    assert twin.faults.slow_s


async def test_a_silent_switch_gives_no_answer_in_time(stage: Stage) -> None:
    twin, sonic = await stage.start_and_open()
    twin.faults.silent = True
    with pytest.raises(DeadlineError):
        await sonic.change(add="1A-3B", within_s=0.3)


async def test_a_missing_connection_needs_no_command(stage: Stage) -> None:
    _, sonic = await stage.start_and_open()
    commanded: list[int] = []
    exchange = await sonic.change(remove="1A-1B", on_commanded=commanded.append)
    assert exchange.commands == 0
    assert commanded == [exchange.commanded_ns]


async def test_a_crossconnect_that_failed_is_an_error_at_once(stage: Stage) -> None:
    twin, sonic = await stage.start_and_open()
    twin.faults.fail(ends("1A"))
    with pytest.raises(FailedError, match="1A-1B failed"):
        await sonic.change(add="1A-1B")


async def test_a_crossconnect_through_a_blocked_port_is_made_and_dark(stage: Stage) -> None:
    _, sonic = await stage.start_and_open()
    await sonic.override("1B", PortOverride.FORCE_BLOCKED)
    await sonic.change(add="1A-1B")
    assert await sonic.read() == ["1A-1B blocked"]
    await sonic.override("1B", PortOverride.NORMAL)
    assert await sonic.overrides("1B") == {"1B": PortOverride.NORMAL}


async def test_host_keys(stage: Stage) -> None:
    twin = await stage.start()
    with pytest.raises(ConfigError, match="host key"):
        await stage.open(host_key="SHA256:wrong")
    await stage.open(host_key=twin.fronts["ssh"].host_key)


async def test_an_answer_that_cannot_be_read_ends_the_session_and_counts(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    twin, sonic = await stage.start_and_open()
    twin.faults.garble_next = True
    with pytest.raises(ProtocolError):
        await sonic.read()
    assert isinstance(await asyncio.wait_for(sonic.lost(), 30), ProtocolError)
    assert sonic.device._ssh.garbled == 1
    assert "cannot parse b'\\r\\n\\n#" in caplog.text
