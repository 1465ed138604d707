"""Operations of the ranks of jobs, at the agent's socket: asked for, granted, ended, and lost."""

import asyncio
import socket
from collections.abc import AsyncIterator
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hwd_agents.transfers.host_transfers import AGAIN_S, ANSWER_WITHIN_S, EXPIRED_AFTER_S
from hwd_agents.transfers.lines import Line
from hwd_agents.wire import Ask
from hwd_drivers.core.clock import SystemClock

from ..played_daemon import GRANTED, JOB, JOINED, HostWithDaemon, Process

OPERATION: dict[str, Any] = {
    "group": "world",
    "kind": "all-reduce",
    "index": 7,
    "size_bytes": 4_000_000,
    "parts": [],
    "peer": None,
    "iteration": None,
    "layer": None,
}
ASK: dict[str, Any] = {"ask": {**JOB, "operation": OPERATION, "within_s": 5.0, "wait_s": 1.0}, "id": 5}
CLAIM: dict[str, Any] = {"claim": {"links": ["eth0"], "within_s": 5.0, "wait_s": 1.0}, "id": 5}
JOIN: dict[str, Any] = {"join": JOB, "id": 4}
DONE: dict[str, Any] = {"done": {**JOB, "operation": OPERATION}, "id": 6}
LONG_S = 300.0


class HostWithProcess(HostWithDaemon):
    """A host, and a process at its socket."""

    process: Process


@pytest.fixture
async def host(virtual_time: None) -> AsyncIterator[HostWithProcess]:
    with TemporaryDirectory() as place:
        async with HostWithProcess(Path(place) / "t.sock") as host, await Process.connect(host.path) as host.process:
            yield host


async def granted(host: HostWithProcess, **grant: Any) -> str:
    """The id of an operation that was asked for and may go."""
    host.process.say(ASK)
    host.done(await host.ask("claim-operation"), **GRANTED | grant)
    line = await host.process.line()
    assert line["outcome"] == "go"
    id: str = line["transfer"]
    return id


async def ended(host: HostWithDaemon) -> list[str]:
    """What the daemon is told next has ended."""
    ask = await host.ask("end-transfers")
    host.done(ask)
    found: list[str] = ask.arguments["transfers"]
    return found


async def test_operation_is_asked_for_with_all_that_its_rank_said_and_goes(host: HostWithProcess) -> None:
    host.process.say(ASK)
    ask = await host.ask("claim-operation")
    host.done(ask, within_s=4.0, waited_s=0.0, ports=["eth0"])
    line = await host.process.line()
    assert line == {"id": 5, "outcome": "go", "transfer": ask.arguments["transfer"], "within_s": 4.0, "why": ""}
    stated = dict(ask.arguments)
    process_name = stated.pop("process")
    assert stated == {**JOB, "operation": OPERATION, "within_s": 5.0, "transfer": line["transfer"], "ended": None}
    assert process_name.startswith("rank 1 of job j7x2a1b9, pid ")


@pytest.mark.parametrize("ports", [["eth0"], []], ids=["optical", "none"])
async def test_operation_is_reported_over_its_ports_until_its_process_says_that_it_has_ended(
    host: HostWithProcess, ports: list[str]
) -> None:
    id = await granted(host, waited_s=0.5, ports=ports)
    for one in await host.report():
        assert (one["transfer"], one["ports"]) == (id, ["eth0"])
        assert one["phase"] == "all-reduce 7 of world, 4 MB"
        assert one["left_s"] == pytest.approx(5.5, abs=0.01)
    assert len(await host.report()) == len(ports)
    line = await host.process.answer({"end": id, "id": 6})
    assert line == {"id": 6, "outcome": "ended", "transfer": id, "within_s": None, "why": ""}
    assert await ended(host) == [id]
    assert await host.report() == []


async def test_end_of_an_operation_says_what_its_host_had_counted_before_and_after_it(host: HostWithProcess) -> None:
    id = await granted(host)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.sendto(bytes(10_000), receiver.getsockname())
    host.process.say({"end": id, "id": 6})
    ask = await host.ask("end-transfers")
    (one,) = ask.arguments["operations"]
    assert (one["job"], one["rank"], one["operation"]["index"]) == ("j7x2a1b9", 1, 7)
    before, after = one["before"], one["after"]
    assert before["at_ns"] < after["at_ns"]
    assert after["ports"]["eth0"]["tx"] - before["ports"]["eth0"]["tx"] >= 10_028
    assert after["datagrams"]["received"] > before["datagrams"]["received"]
    host.process.say(ASK | {"id": 7})
    again = await host.ask("claim-operation")
    assert again.arguments["ended"] == one  # the daemon has not answered yet that it knows
    host.done(ask)


async def test_host_counts_before_the_daemon_can_let_others_send_to_it(host: HostWithProcess) -> None:
    """The ask of the last rank lets the others go, and what they send comes at once."""
    asked_ns: list[int] = []

    def let_go(ask: Ask) -> dict[str, Any]:
        asked_ns.append(SystemClock().monotonic_ns())
        return {"within_s": 5.0, "waited_s": 0.0, "ports": ["eth0"]}

    host.reactions["claim-operation"] = let_go
    line = await host.process.answer(ASK)
    host.process.say({"end": line["transfer"], "id": 6})
    ask = await host.ask("end-transfers")
    assert ask.arguments["operations"][0]["before"]["at_ns"] < asked_ns[0]


async def test_next_ask_tells_the_last_end_where_the_daemon_has_answered_none(host: HostWithProcess) -> None:
    for index in (7, 8):
        ask = {**ASK["ask"], "operation": OPERATION | {"index": index}}
        host.process.say({"ask": ask, "id": index})
        asked = await host.claim()
        host.done(asked, **GRANTED)
        id = (await host.process.line())["transfer"]
        assert (await host.process.answer({"end": id, "id": 20}))["outcome"] == "ended"
    host.process.say({"ask": {**ASK["ask"], "operation": OPERATION | {"index": 9}}, "id": 9})
    assert (await host.claim()).arguments["ended"]["operation"]["index"] == 8


async def test_stranger_who_guesses_a_rank_does_not_change_what_was_counted_for_it(host: HostWithProcess) -> None:
    guess = {**JOB, "key": "a guess"}
    host.is_up = False
    assert (await host.process.answer(DONE))["outcome"] == "failed"
    host.is_up, back_ns = True, SystemClock().monotonic_ns()
    async with await Process.connect(host.path) as stranger:
        stranger.say({"done": {**guess, "operation": OPERATION}, "id": 1})
        host.refuse(await host.ask("end-operation"), "it does not know the key of the job")
        assert (await stranger.line())["outcome"] == "refused"
        host.process.say(DONE)
        first = await host.ask("end-operation")
        assert first.arguments["after"]["at_ns"] < back_ns
        host.done(first)
        assert (await host.process.line())["outcome"] == "ended"
        host.process.say(DONE)
        second = await host.ask("end-operation")
        assert second.arguments["after"]["at_ns"] > back_ns, "the end that was heard is not kept"
        host.done(second)
        await host.process.line()
        host.process.say(ASK)
        asked, began_ns = await host.ask("claim-operation"), SystemClock().monotonic_ns()
        others = {**guess, "operation": OPERATION | {"index": 8}, "within_s": 5.0, "wait_s": 1.0}
        stranger.say({"ask": others, "id": 2})
        host.refuse(await host.ask("claim-operation"), "it does not know the key of the job")
        assert (await stranger.line())["outcome"] == "refused"
    host.fail(asked, "the daemon came to no end with it")
    assert (await host.process.line())["outcome"] == "failed"
    id = await granted(host)
    host.process.say({"end": id, "id": 7})
    ask = await host.ask("end-transfers")
    assert ask.arguments["operations"][0]["before"]["at_ns"] < began_ns, "of the first time that it asked"


async def test_operation_ends_with_the_connection_of_its_process(host: HostWithProcess) -> None:
    id = await granted(host)
    await host.process.close()
    assert await ended(host) == [id]
    assert await host.report() == []


async def test_operation_ends_when_its_time_is_over_and_its_process_hears_it_at_once(host: HostWithProcess) -> None:
    asked_s = asyncio.get_running_loop().time()
    id = await granted(host, waited_s=0.5)
    over = await host.process.line()
    assert asyncio.get_running_loop().time() - asked_s == pytest.approx(5.5, abs=0.01)
    assert over["over"] == id
    assert "its longest time of 5 s is over" in over["why"]
    assert await ended(host) == [id]
    line = await host.process.answer({"end": id, "id": 6})
    assert (line["outcome"], line["why"]) == ("over", over["why"])


@pytest.mark.parametrize(("asked", "is_told"), [(ASK, False), (CLAIM, True)], ids=["operation", "claim"])
async def test_end_is_told_for_a_claim_whose_answer_was_lost_and_not_for_an_operation(
    host: HostWithProcess, asked: dict[str, Any], is_told: bool
) -> None:
    """The rank asks for it again, and goes on with what the daemon may have granted already."""
    began_s = asyncio.get_running_loop().time()
    line = await host.process.answer(asked)
    assert (line["outcome"], line["id"]) == ("failed", 5)
    assert f"did not answer within {1 + ANSWER_WITHIN_S:g} s" in line["why"]
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(1 + ANSWER_WITHIN_S + 0.5, abs=0.01)
    assert await host.report() == []
    await asyncio.sleep(5 + EXPIRED_AFTER_S + 2 * AGAIN_S)
    assert ("end-transfers" in host.verbs()) is is_told


@pytest.mark.parametrize(("asked", "is_told"), [(ASK, False), (CLAIM, True)], ids=["operation", "claim"])
async def test_broker_that_is_away_fails_an_ask_at_once(
    host: HostWithProcess, asked: dict[str, Any], is_told: bool
) -> None:
    host.is_up = False
    began_s = asyncio.get_running_loop().time()
    line = await host.process.answer(asked)
    assert (line["outcome"], asyncio.get_running_loop().time() - began_s) == ("failed", 0.0)
    assert "the broker is not connected" in line["why"]
    host.is_up = True
    await asyncio.sleep(2 * AGAIN_S)
    assert ("end-transfers" in host.verbs()) is is_told


@pytest.mark.parametrize(
    ("line", "verb"), [(ASK, "claim-operation"), (CLAIM, "claim-transfer")], ids=["operation", "claim"]
)
async def test_what_a_process_asked_that_went_away_before_its_answer_is_ended(
    host: HostWithProcess, line: dict[str, Any], verb: str
) -> None:
    host.process.say(line)
    ask = await host.ask(verb)
    await host.process.close()
    id = ask.arguments["transfer"]
    assert await ended(host) == [id]
    host.done(ask, **GRANTED)
    assert await ended(host) == [id], "the daemon may have taken the first end before it granted"
    assert await host.report() == []


async def test_what_the_daemon_refuses_is_refused_for_its_reason_and_nothing_is_ended(host: HostWithProcess) -> None:
    for line, verb in ((JOIN, "join-job"), (DONE, "end-operation"), (ASK, "claim-operation")):
        host.process.say(line)
        host.refuse(await host.ask(verb), "job j7x2a1b9: no such job")
        answer = await host.process.line()
        assert (answer["outcome"], answer["why"]) == ("refused", "job j7x2a1b9: no such job")
    assert await host.report() == []
    await host.process.close()
    await asyncio.sleep(LONG_S)
    assert host.verbs() == ["join-job", "end-operation", "claim-operation"]


async def test_rank_joins_and_hears_of_its_job_and_of_nothing_that_its_daemon_lacks(host: HostWithProcess) -> None:
    host.process.say(JOIN)
    ask = await host.ask("join-job")
    host.done(ask, **JOINED)
    joined = JOINED | {"longest_s": None}
    assert await host.process.line() == {"id": 4, "outcome": "joined", "joined": joined, "why": ""}
    assert ask.arguments | {"process": ""} == {**JOB, "process": ""}
    assert ask.arguments["process"].startswith("pid ")


async def test_operation_is_said_to_be_done_without_a_transfer(host: HostWithProcess) -> None:
    host.process.say(DONE)
    ask = await host.ask("end-operation")
    host.done(ask)
    assert await host.process.line() == {"id": 6, "outcome": "ended", "transfer": "", "within_s": None, "why": ""}
    after = ask.arguments.pop("after")
    assert after["ports"]["eth0"]["rx"] > 0
    assert ask.arguments == {**JOB, "operation": OPERATION}


@pytest.mark.parametrize("line", [JOIN, DONE], ids=["join", "done"])
async def test_join_and_done_fail_while_the_daemon_is_silent(host: HostWithProcess, line: dict[str, Any]) -> None:
    began_s = asyncio.get_running_loop().time()
    answer = await host.process.answer(line)
    assert answer["outcome"] == "failed"
    assert "the daemon did not answer within 2 s" in answer["why"]
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(ANSWER_WITHIN_S + 0.5, abs=0.01)


KINDS = [CLAIM, {"end": "t1"}, {"switch": {"prepared_set": "p7x2a1b9", "target": "a"}}, JOIN, ASK, DONE]


async def test_line_of_two_kinds_is_refused_and_does_neither(host: HostWithProcess) -> None:
    assert {next(iter(one)) for one in KINDS} == {*Line.__struct_fields__} - {"id"}
    for one, other in combinations(KINDS, 2):
        answer = await host.process.answer({**one, **other, "id": 9})
        assert (answer["id"], answer["outcome"]) == (9, "refused"), (one, other)
        assert answer["why"] == "a request has one of claim, end, switch, join, ask and done"
    await asyncio.sleep(LONG_S)
    assert host.asked == []


NO_REQUESTS: list[tuple[bytes | dict[str, Any], str]] = [
    (b"\xff{", "not a request"),
    (b'{"ask":' * 2000, "not a request"),
    ({"id": 1}, "a request has one of"),
    ({"join": JOB | {"rank": -1}}, "join.rank"),
    ({"join": JOB | {"rank": 256}}, "join.rank"),
    ({"join": JOB | {"key": ""}}, "join.key"),
    ({"join": JOB | {"secret": "x"}}, "secret"),
    ({"ask": ASK["ask"] | {"wait_s": 61}}, "ask.wait_s"),
    ({"ask": ASK["ask"] | {"wait_s": 0}}, "ask.wait_s"),
    ({"ask": ASK["ask"] | {"operation": OPERATION | {"kind": "all-sum"}}}, "ask.operation.kind"),
    ({"ask": {**JOB, "within_s": 5}}, "operation"),
    ({"done": {**JOB, "operation": OPERATION | {"index": -1}}}, "done.operation.index"),
]


async def test_line_that_is_no_request_is_refused_and_the_connection_goes_on(host: HostWithProcess) -> None:
    for line, words in NO_REQUESTS:
        answer = await host.process.answer(line)
        assert answer["outcome"] == "refused", line
        assert words in answer["why"], line
    assert host.asked == []
    await granted(host)


async def test_process_ends_no_operation_of_another_one(host: HostWithProcess) -> None:
    id = await granted(host)
    async with await Process.connect(host.path) as other:
        answer = await other.answer({"end": id, "id": 6})
    assert (answer["outcome"], answer["why"]) == ("refused", f"{id}: this process has no such transfer")
    assert [one["transfer"] for one in await host.report()] == [id]


async def test_what_was_counted_for_an_operation_that_nobody_answered_is_not_told_of_the_next_one(
    host: HostWithProcess,
) -> None:
    host.is_up = False
    assert (await host.process.answer(DONE))["outcome"] == "failed"
    host.is_up, back_ns = True, SystemClock().monotonic_ns()
    host.process.say({"done": {**JOB, "operation": OPERATION | {"index": 8}}, "id": 7})
    assert (await host.ask("end-operation")).arguments["after"]["at_ns"] > back_ns
