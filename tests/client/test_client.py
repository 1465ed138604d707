"""What both clients make of daemons that are away, silent, elsewhere, or none at all."""

import json
import socket
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from hwd.client import AsyncClient, Client, async_client
from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import DaemonPlace, run_dir
from hwd.model.lease import HeldLease
from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError

from .conftest import Scripted

both = pytest.mark.parametrize("kind", [Client, AsyncClient])


async def close(client: Client | AsyncClient) -> None:
    if isinstance(client, Client):
        client.close()
    else:
        await client.aclose()


async def ask(answer: Any) -> Any:
    return await answer if isinstance(answer, Awaitable) else answer


def nobody() -> str:
    """A URL that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


def announce(announcement: Announcement, url: str) -> None:
    announcement.write(DaemonPlace(testbed="bed", pid=7, http=url, mqtt="mqtt://h:2", data_dir="/d"))


@both
async def test_a_daemon_that_is_not_there_is_unreachable_with_what_to_do(kind: Any) -> None:
    client = kind(nobody())
    with pytest.raises(LinkError, match=r"cannot be reached: Connection refused\. `hwd serve TESTBED` starts one"):
        await ask(client.status())
    await close(client)


@both
async def test_a_daemon_that_is_silent_is_not_waited_for_for_ever(kind: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        client = kind(f"http://127.0.0.1:{sock.getsockname()[1]}")
        with pytest.raises(DeadlineError, match=r"no answer to POST /api/v1/reconfigurations within 0.05 s"):
            await ask(client.apply_hash("0" * 12, within_s=0.05))
        await close(client)


@both
async def test_a_daemon_that_moved_to_another_port_is_found_again(kind: Any, server: Scripted, tmp_path: Path) -> None:
    environment = {"HWD_RUN_DIR": str(tmp_path)}
    server.kind, server.answers = "application/json", ["[]"]
    with Announcement(run_dir("bed", environment) / "daemon.json") as announcement:
        announce(announcement, nobody())
        client = kind.find(environment=environment)
        announce(announcement, server.url)
        assert await ask(client.queue()) == []
        assert client.url == server.url
        await close(client)


@both
async def test_the_event_stream_finds_it_too(kind: Any, server: Scripted, tmp_path: Path) -> None:
    environment = {"HWD_RUN_DIR": str(tmp_path)}
    server.answers = ['event: missed\nid: b.1\ndata: {"count": 2}\n\n']
    with Announcement(run_dir("bed", environment) / "daemon.json") as announcement:
        announce(announcement, nobody())
        client = kind.find(environment=environment, testbed="bed")
        announce(announcement, server.url)
        if isinstance(client, Client):
            with client.events() as events:
                assert next(events).missed == 2
        else:
            async with client.events() as aevents:
                assert (await anext(aevents)).missed == 2
        await close(client)


@both
async def test_one_that_was_named_by_its_url_is_not_sought(kind: Any, server: Scripted, tmp_path: Path) -> None:
    environment = {"HWD_RUN_DIR": str(tmp_path)}
    with Announcement(run_dir("bed", environment) / "daemon.json") as announcement:
        announce(announcement, server.url)
        client = kind.find(nobody(), environment)
        with pytest.raises(LinkError):
            await ask(client.status())
        assert server.asked == []
        await close(client)


@both
async def test_an_answer_of_another_shape_is_a_protocol_error(kind: Any, server: Scripted) -> None:
    server.kind, server.answers = "application/json", ['{"documents": [{"kind": "switch.up"}]}']
    client = kind(server.url)
    with pytest.raises(ProtocolError, match="cannot read the answer to GET /api/v1/runs/x/documents"):
        await ask(client.run_documents("x"))
    await close(client)


async def test_who_waits_for_a_lease_is_told_of_changes_and_not_of_the_time_that_passes(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_client, "WAITS_LOOK_S", 0.001)

    def answer(place: int | None, why: str = "") -> str:
        more = {"kind": "claim"} if place is None else {"kind": "waiting", "place": place, "waits_for": [why]}
        return json.dumps({"lease": "k3v9", "holder": "ben", "ports": ["ocs1.7"], "left_s": None, **more})

    leased = "ocs1.7: leased to ada (a1b2) for another {} s. Wait, or ask ada"
    said: list[tuple[int, str]] = []

    def say(lease: HeldLease) -> None:
        assert lease.place
        assert lease.waits_for
        said.append((lease.place, lease.waits_for[0].split(" (")[0]))

    server.kind = "application/json"
    server.answers = [
        *(answer(2, leased.format(left)) for left in (15, 14, 13)),
        *(answer(1, leased.format(left)) for left in (12, 11.5)),
        answer(1, "ocs1.7: leased to eve (c3d4) for another 11 s. Wait, or ask eve"),
        answer(None),
    ]
    async with AsyncClient(server.url) as client:
        await client.wait_lease("k3v9", say=say)
    assert said == [(2, "ocs1.7: leased to ada"), (1, "ocs1.7: leased to ada"), (1, "ocs1.7: leased to eve")]
