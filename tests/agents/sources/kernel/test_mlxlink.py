"""The PHY by the vendor's tool: its JSON, a tool that fails, hangs or writes nonsense, and NICs of another make."""

import asyncio
import contextlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_agents.process.config import PortConfig, SamplingConfig
from hwd_agents.sources.kernel.interface_drivers import KernelDrivers
from hwd_agents.sources.kernel.mlxlink import DOWN, UP, ToolPhys, parse_state
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_agents.watchers.firmware_watcher import FirmwareWatcher
from hwd_agents.wire import DriverNote
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.offload import InlineOffload

from ...conftest import Ear, stop

FAST = SamplingConfig(firmware_fast_s=0.01, firmware_slow_s=0.01)


class Mlx5:
    """A DriverSource of a host with one ConnectX."""

    async def read_driver(self, interface: str) -> DriverNote:
        return DriverNote(name="mlx5_core", version="6.1", firmware="22.39.2048", bus="0000:3b:00.0")


def written(state: object) -> bytes:
    """What `mlxlink --json` writes of an Ethernet port, cut to what matters."""
    info = {"Auto Negotiation": "ON", "FEC": "RS-FEC", "Physical state": "LinkUp", "Speed": "100G", "State": state}
    result = {"output": {"Operational Info": info, "Troubleshooting Info": {"Status Opcode": "0"}}}
    return json.dumps({"result": result, "status": {"code": 0, "message": "success"}}).encode()


def tool(folder: Path, script: str) -> str:
    """An executable in place of the vendor's, which answers as `script` does."""
    path = folder / "mstlink"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


STATES = (
    *("Disable", "Port PLL Down", "Polling", "Active", "Close port", "Physical LinkUp", "Sleep", "Rx disable"),
    *("Signal detect", "Receiver detect", "Sync peer", "Negotiation", "Training", "SubFSM active"),
)
"""Of `mlxlink_maps.cpp` of mstflint, in its order."""


def test_every_state_of_the_tool_is_known_and_two_are_up_and_another_is_not_and_is_remarked_on() -> None:
    assert {state for state in STATES if parse_state("eth0", written(state), pytest.fail)} == UP
    assert {*STATES} - UP == DOWN - {"Disabled"}
    assert parse_state("eth0", written("Active "), pytest.fail)
    unknown, words = ["Dreaming", "ACTIVE", "N/A", "", "Active (degraded)"], list[str]()
    assert not any(parse_state("eth0", written(word), words.append) for word in unknown)
    assert words == unknown


async def test_fall_by_a_state_that_is_not_known_is_seen_and_remarked_on_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state, new = tmp_path / "state", tmp_path / "new"
    state.write_bytes(written("Active"))
    phys = ToolPhys(["eth0"], Mlx5(), SystemClock(), FAST, tool=tool(tmp_path, f"cat {state}"))
    reports: asyncio.Queue[bool] = asyncio.Queue()
    task = asyncio.create_task(phys.open_phy(lambda interface, up, *times: reports.put_nowait(up), lambda: None))
    async with asyncio.timeout(20):
        for word, up in (("Active", True), ("Dreaming", False), ("Active", True), ("Dreaming", False)):
            new.write_bytes(written(word))
            new.rename(state)
            while await reports.get() is not up:
                pass
            assert phys.why_not("eth0") == ""
    await stop(task)
    (remark,) = (one.getMessage() for one in caplog.records if "Dreaming" in one.getMessage())
    assert remark.endswith("is 'Dreaming', which is not known here, and is read as not up")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"-E- No such device", "wrote no JSON"),
        (b'{"result": {}}', "JSON without 'output'"),
        (b'{"result": {"output": []}}', "JSON without 'output'"),
        (written(None), "is None, which is no text"),
    ],
)
def test_what_the_tool_writes_without_sense_is_refused(answer: bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        parse_state("eth0", answer)


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.text(max_size=9),
        lambda below: st.dictionaries(st.sampled_from(["result", "output", "Operational Info", "State"]), below),
    ).map(lambda data: json.dumps(data).encode())
)
def test_any_answer_is_a_state_or_a_protocol_error(answer: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert parse_state("eth0", answer) in (True, False)


async def test_a_phy_is_polled_and_its_change_lies_between_two_looks(tmp_path: Path) -> None:
    state, new = tmp_path / "state", tmp_path / "new"
    state.write_bytes(written("Polling"))
    new.write_bytes(written("Active"))
    clock = SystemClock()
    phys = ToolPhys(["eth0"], Mlx5(), clock, FAST, tool=tool(tmp_path, f'[ "$2" = 0000:3b:00.0 ] && cat {state}'))
    ear, told, seen = Ear(), asyncio.Event(), asyncio.Event()

    def emit(kind: str, port: str | None, **more: Any) -> None:
        ear(kind, port, **more)
        told.set()

    watcher = FirmwareWatcher({"port": PortConfig(interface="eth0")}, phys, clock, emit, on_change=seen.set)
    task = asyncio.create_task(watcher.run())
    async with asyncio.timeout(20):
        await seen.wait()
        assert watcher.up("port") is False
        watcher.begin("port")
        changed_ns = clock.monotonic_ns()
        new.rename(state)
        await told.wait()
    (event,) = ear.told
    assert (event.kind, event.port, event.data, event.origin) == ("firmware", "port", {"up": True}, "measured")
    assert event.earliest_ns <= changed_ns <= event.at_ns
    kept = watcher.observation("port")
    assert (kept.at_begin, kept.now, kept.latched) == (False, True, False)
    assert kept.longest_gap_ns > 0
    await stop(task)


@pytest.mark.parametrize(
    ("interface", "script", "words"),
    [
        ("eth0", "echo '-E- Failed to open device' >&2; exit 1", "failed with status 1: -E- Failed to open device"),
        ("eth0", "echo no", "wrote no JSON"),
        ("lo", "exit 0", "lo:"),
    ],
    ids=["a tool that fails", "a tool without sense", "a NIC of another make"],
)
async def test_where_nothing_can_be_read_the_firmware_is_unknown_with_the_reason(
    tmp_path: Path, interface: str, script: str, words: str
) -> None:
    drivers = KernelDrivers(HostSockets(), InlineOffload()) if interface == "lo" else Mlx5()
    phys = ToolPhys([interface], drivers, SystemClock(), FAST, tool=tool(tmp_path, script))
    noted = asyncio.Event()
    task = asyncio.create_task(phys.open_phy(lambda *_: None, noted.set))
    async with asyncio.timeout(20):
        await noted.wait()
    assert words in phys.why_not(interface)
    await stop(task)
