"""The blocking client and the agent's socket: what a process hears of a switch that the daemon is not asked for."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hwd_agents.transfers import Transfers, switch_set
from hwd_drivers.core.errors import FailedError, ProtocolError, RefusedError
from hwd_drivers.core.offload import ThreadOffload

from ..played_daemon import HostWithDaemon

WRONG: list[dict[str, Any]] = [{"within_s": 61.0}, {"reconfiguration": "no id!"}, {"epoch": -1}]


async def test_switch_without_a_broker_fails_at_once_with_the_remedy_and_a_wrong_field_is_named(
    tmp_path: Path, thread: ThreadOffload
) -> None:
    """The agent cannot parse the line with a wrong field, so its answer has no id."""
    async with HostWithDaemon(tmp_path / "t.sock") as host:
        host.is_up = False
        with pytest.raises(FailedError, match=r"the broker is not connected\. Try again"):
            await thread(partial(switch_set, "p7x2a1b9", "crossed", path=str(host.path)))
        for wrong in WRONG:
            with Transfers(str(host.path)) as transfers, pytest.raises(RefusedError, match=next(iter(wrong))):
                async with asyncio.timeout(4):
                    await thread(partial(transfers.switch_set, "p7x2a1b9", "crossed", **wrong))
        assert host.asked == []


@pytest.mark.parametrize("answer", [b"\n", b"nonsense\n"], ids=["nothing", "nonsense"])
async def test_line_of_an_agent_that_makes_no_sense_is_an_error_at_once(
    tmp_path: Path, thread: ThreadOffload, answer: bytes
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(serve, tmp_path / "s"):
        with Transfers(str(tmp_path / "s")) as transfers, pytest.raises(ProtocolError, match="cannot parse the answer"):
            await thread(partial(transfers.claim, ["eth0"], within_s=1.0))
