"""Ranks against the socket of an agent, as their programs have them: in a thread, since they block."""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hwd_agents.shim import Rank
from hwd_agents.wire import Ask, OperationKind
from hwd_drivers.core.errors import ConfigError, FailedError, LinkError, RefusedError
from hwd_drivers.core.offload import ThreadOffload

from ..played_daemon import GRANTED, JOB, JOINED, HostWithDaemon
from ..switches import test_select_client as select_socket
from .conftest import Host, answering

NAMED: dict[str, Any] = {"job": JOB["job"], "number": JOB["rank"], "key": JOB["key"]}
ENVIRONMENT = {"HWD_JOB": JOB["job"], "HWD_RANK": "1", "HWD_JOB_KEY": JOB["key"]}


def make(host: HostWithDaemon, shim: str = "ask") -> Rank:
    return Rank(**NAMED, path=str(host.path), shim=shim, away_s=5.0)


def operations(host: HostWithDaemon, verb: str = "claim-operation") -> list[dict[str, Any]]:
    return [ask.arguments["operation"] for ask in host.asked if ask.verb == verb]


# --- it joins


@pytest.mark.parametrize(("shim", "asked"), [({}, 1), ({"HWD_SHIM": "go"}, 0)], ids=["none", "go"])
async def test_rank_and_its_shim_are_what_the_daemon_put_into_its_environment_and_without_one_all_is_asked_for(
    host: Host, shim: dict[str, str], asked: int
) -> None:
    def work() -> Rank:
        environment = ENVIRONMENT | {"HWD_TRANSFER_SOCKET": f"unix:{host.path}"} | shim
        with Rank.from_environment(environment) as rank, rank.operation("world", "barrier", within_s=5):
            return rank

    rank = await host.thread(work)
    assert (rank.job, rank.number) == (JOB["job"], 1)
    assert [(place.host, place.optical) for place in rank.places] == [
        ("h1", {"eth0": "10.0.0.1"}),
        ("h0", {"eth0": "10.0.0.2"}),
    ]
    assert rank.groups == {"world": (0, 1)}
    assert {name: host.asked[0].arguments[name] for name in JOB} == JOB
    assert host.verbs()[1:2] == ["claim-operation"] * asked, "a shim that lets all go asks for nothing"


def test_process_without_a_variable_of_a_rank_or_a_number_is_none() -> None:
    for name in ENVIRONMENT:
        environment = {key: value for key, value in ENVIRONMENT.items() if key != name}
        with pytest.raises(ConfigError, match=f"^{name}: not in the environment. Start ranks with `hwd job run`$"):
            Rank.from_environment(environment)
    with pytest.raises(ConfigError, match=r"^HWD_RANK: 'one' is no number"):
        Rank.from_environment(ENVIRONMENT | {"HWD_RANK": "one"})


async def test_rank_joins_when_its_agent_has_come(tmp_path: Path, thread: ThreadOffload) -> None:
    tried = asyncio.Event()

    def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        tried.set()

    away = HostWithDaemon(tmp_path / "t.sock")
    starting = await asyncio.start_unix_server(hang_up, away.path)
    joining = asyncio.create_task(thread(partial(make, away)))
    await tried.wait()
    starting.close()
    away.path.unlink(missing_ok=True)  # from Python 3.13 on asyncio has removed it
    async with answering(away):
        rank = await joining
        rank.close()
    assert away.verbs() == ["join-job"]


async def test_rank_joins_when_the_daemon_can_answer_and_is_refused_at_once_where_it_is_none_of_its_job(
    host: Host,
) -> None:
    def first_fail(ask: Ask) -> dict[str, Any]:
        if len(host.asked) < 3:
            raise FailedError("its records are away")
        return JOINED

    def refuse(ask: Ask) -> dict[str, Any]:
        raise RefusedError("job j7x2a1b9: no rank has this key")

    host.reactions["join-job"] = first_fail
    rank = await host.thread(partial(make, host))
    rank.close()
    assert host.verbs() == ["join-job"] * 3
    host.reactions["join-job"] = refuse
    with pytest.raises(RefusedError, match=r"^job j7x2a1b9: no rank has this key$"):
        await host.thread(partial(make, host))
    assert host.verbs() == ["join-job"] * 4


def test_rank_whose_agent_stays_away_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "none.sock")
    with pytest.raises(LinkError, match=f"^rank 1 of job j7x2a1b9: {re.escape(path)}: cannot reach the agent"):
        Rank(**NAMED, path=path, away_s=0.0)


async def test_largest_job_can_be_joined_and_a_rank_whose_shim_is_not_installed_disconnects(host: Host) -> None:
    with pytest.raises(ConfigError, match="shim 'rotor': not installed on this host"):
        await host.thread(partial(make, host, "rotor"))
    ports = {f"enp{n}s0f0np0": f"10.100.{n}.{n}" for n in range(100, 108)}
    place = {"host": "host-100", "gpu": 7, "optical": ports, "electrical": ports}
    host.reactions["join-job"] = lambda ask: {"ranks": [place] * 256, "groups": {"world": [*range(256)]}}
    rank = await host.thread(partial(make, host))
    rank.close()
    assert len(rank.places) == 256


# --- it asks


async def test_operation_is_asked_for_before_its_block_and_ended_after_it(host: Host) -> None:
    inside: list[str] = []

    def work() -> None:
        with make(host) as rank:
            with rank.operation("world", OperationKind.SEND, within_s=5, size_bytes=4096, peer=0) as port:
                inside.extend(host.verbs())
                assert port is None
            inside.append("ended")

    await host.thread(work)
    assert inside == ["join-job", "claim-operation", "ended"]
    claim = host.asked[1].arguments
    said = {"group": "world", "kind": "send", "index": 0, "size_bytes": 4096, "parts": [], "peer": 0}
    assert claim["operation"] == said | {"iteration": None, "layer": None}
    assert (claim["within_s"], claim["key"], claim["rank"]) == (5.0, "secret", 1)
    assert await host.report() == []


async def test_rank_that_says_its_parts_knows_the_light_that_it_was_let_go_over(host: Host) -> None:
    links: list[tuple[str, ...]] = []

    def work() -> None:
        with make(host) as rank:
            with rank.operation("world", "all-to-all", parts=[300, 0, 100], within_s=5):
                links.append(rank.links)
            with rank.operation("world", "all-to-all", size_bytes=400, within_s=5):
                links.append(rank.links)

    host.reactions["claim-operation"] = lambda ask: {**GRANTED, "links": ["h0.eth0<->h1.eth0"]}
    await host.thread(work)
    assert links == [("h0.eth0<->h1.eth0",)] * 2
    assert [(one["size_bytes"], one["parts"]) for one in operations(host)] == [(400, [300, 0, 100]), (400, [])]


async def test_operations_are_counted_in_each_group_and_sends_by_who_sends_to_whom(host: Host) -> None:
    groups = ["world", "world", "dp0", "world", "dp0"]
    said = [("send", 0), ("receive", 0), ("send", 2), ("send", 0), ("receive", 0), ("all-reduce", None), ("receive", 2)]

    def work() -> None:
        with make(host) as rank:
            for group in groups:
                with rank.operation(group, "all-reduce", within_s=5):
                    pass
            for kind, peer in said:
                with rank.operation("dp1", kind, within_s=5, peer=peer):
                    pass

    await host.thread(work)
    assert [(one["group"], one["index"]) for one in operations(host)] == [
        *zip(groups, [0, 1, 0, 2, 1], strict=True),
        *zip(["dp1"] * 7, [0, 0, 0, 1, 1, 0, 0], strict=True),
    ]


async def test_operation_that_cannot_be_answered_now_is_asked_for_again_as_the_same_one(host: Host) -> None:
    def first_fail(ask: Ask) -> dict[str, Any]:
        if len(operations(host)) < 3:
            raise FailedError("it starts anew")
        return GRANTED

    def work() -> None:
        with make(host) as rank, rank.operation("world", "all-reduce", within_s=5):
            pass

    host.reactions["claim-operation"] = first_fail
    await host.thread(work)
    assert [one["index"] for one in operations(host)] == [0, 0, 0]
    claims = [ask.arguments["transfer"] for ask in host.asked if ask.verb == "claim-operation"]
    assert len({*claims}) == 3


async def test_operation_that_is_refused_does_not_begin(host: Host) -> None:
    def refuse(ask: Ask) -> dict[str, Any]:
        raise RefusedError("the plane refuses it")

    def work() -> None:
        with make(host) as rank, rank.operation("world", "all-reduce", within_s=5):
            raise AssertionError("it began")

    host.reactions["claim-operation"] = refuse
    with pytest.raises(RefusedError, match=r"^the plane refuses it$"):
        await host.thread(work)
    assert len(operations(host)) == 1


@pytest.mark.parametrize("inside", [True, False], ids=["in the operation", "after it"])
async def test_end_of_an_operation_is_said_to_the_agent_that_was_started_anew_before_the_rank_asks(
    tmp_path: Path, thread: ThreadOffload, inside: bool
) -> None:
    """The second agent knows nothing of its transfer; the first may not have told the daemon what it had answered."""
    first, second = (answering(HostWithDaemon(tmp_path / "t.sock", boot=boot)) for boot in ("b1", "b2"))
    loop = asyncio.get_running_loop()
    await first.__aenter__()

    async def restart() -> None:
        await first.__aexit__()
        await second.__aenter__()

    def work() -> None:
        with make(first) as rank:
            with rank.operation("world", "all-gather", within_s=30):
                if inside:
                    asyncio.run_coroutine_threadsafe(restart(), loop).result()
            if not inside:
                asyncio.run_coroutine_threadsafe(restart(), loop).result()
            for _ in range(2):
                with rank.operation("world", "all-gather", within_s=30):
                    pass

    await thread(work)
    await second.__aexit__()
    assert operations(second, "end-operation") == operations(first)
    assert [verb for verb in second.verbs() if verb != "join-job"][:2] == ["end-operation", "claim-operation"]
    assert [one["index"] for one in operations(second)] == [1, 2]


async def test_operation_whose_light_was_cut_is_no_success(host: Host) -> None:
    loop = asyncio.get_running_loop()

    async def cut() -> None:
        (one,) = await host.report()
        await host.transfers.verbs["cut-transfers"]({"transfers": [one["transfer"]], "why": "k3v9a1xx cut it"})

    def work() -> None:
        with make(host) as rank, rank.operation("world", "all-reduce", within_s=30):
            asyncio.run_coroutine_threadsafe(cut(), loop).result()

    with pytest.raises(FailedError, match=r"was over before it ended: k3v9a1xx cut it\. Its light may have been cut"):
        await host.thread(work)
    assert "end-operation" not in host.verbs()


# --- it asks nobody


async def test_shim_that_names_a_port_has_the_rank_send_over_it(host: Host, declare: Callable[[str], None]) -> None:
    def work() -> None:
        with make(host, "scripted from=3") as rank, rank.operation("world", "send", within_s=5, peer=0) as port:
            assert port == "eth3"

    declare("scripted = acme_shims:SCRIPTED")
    await host.thread(work)
    assert host.verbs() == ["join-job"]


async def test_shim_that_selects_sets_switches_before_and_after_the_operation_which_does_not_begin_where_one_is_refused(
    host: Host, declare: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    during: list[int] = []

    def work() -> None:
        with make(host, "scripted from=3") as rank:
            with rank.operation("world", "all-reduce", within_s=5):
                during.append(len(said))
            during.append(len(said))
            with rank.operation("world", "all-reduce", within_s=5):
                raise AssertionError("it began")

    declare("scripted = acme_shims:SCRIPTED")
    monkeypatch.setenv("HWD_SELECT_SOCKET", f"unix:{tmp_path}/s.sock")
    answers = (select_socket.UP, select_socket.UP, select_socket.REFUSED)
    async with select_socket.answering(tmp_path / "s.sock", *answers) as said:
        with pytest.raises(RefusedError, match="its turn did not come"):
            await host.thread(work)
    assert during == [1, 2]
    assert b'"set":{"sel0":"in-2"},"within_s":2.0' in said[0]
    assert b'"set":{"sel0":"in-1"},"within_s":1.0' in said[1]
    assert host.verbs() == ["join-job"]
