"""The thread on which the backend of PyTorch makes the operations of a rank, without PyTorch."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from hwd_agents.pytorch.worker import SubmittedOperation, Worker
from hwd_agents.shim import Rank
from hwd_agents.wire import OperationKind
from hwd_drivers.core.errors import RefusedError

from ..played_daemon import JOB, HostWithDaemon
from .conftest import Host


class Calls:
    """Operations of one rank, and what becomes of them."""

    def __init__(self, host: HostWithDaemon, shim: str = "ask") -> None:
        self.worker = Worker(Rank(job=JOB["job"], number=1, key=JOB["key"], path=str(host.path), shim=shim, away_s=5.0))
        self.sent: list[str] = []
        self.told: list[str] = []

    def call(
        self,
        name: str,
        kind: OperationKind = OperationKind.BARRIER,
        peer: int | None = None,
        raises: bool = False,
        before: Callable[[], object] = lambda: None,
        told: Callable[[BaseException | None], None] | None = None,
    ) -> SubmittedOperation:
        def send() -> None:
            before()
            self.sent.append(name)
            if raises:
                raise OSError("the other rank has gone")

        one = SubmittedOperation(
            group="world",
            kind=kind,
            size_bytes=0,
            within_s=5,
            send=send,
            on_done=told or (lambda error: self.told.append(f"{name}: {error}")),
            peer=peer,
            port="eth0",
        )
        self.worker.submit(one)
        return one


async def on_thread(host: Host, work: Callable[[Calls], None], shim: str = "ask") -> Calls:
    def make() -> Calls:
        calls = Calls(host, shim)
        work(calls)
        calls.worker.close()
        return calls

    return await host.thread(make)


def announced(host: HostWithDaemon) -> list[str]:
    found = (ask.arguments["operation"] for ask in host.asked if ask.verb == "claim-operation")
    return [
        f"{one['kind']} {one['index']} {one['peer'] if one.get('peer') is not None else ''}".strip() for one in found
    ]


async def test_operations_are_made_one_after_the_other_as_they_were_called(host: Host) -> None:
    def work(calls: Calls) -> None:
        last = [calls.call(name) for name in ("a", "b", "c")][-1]
        assert calls.worker.wait(last, 10)
        assert last.error is None

    calls = await on_thread(host, work)
    assert calls.sent == ["a", "b", "c"]
    assert announced(host) == ["barrier 0", "barrier 1", "barrier 2"]
    with pytest.raises(RefusedError, match="barrier of world: the process is ending"):
        calls.call("late")


async def test_sends_and_receives_begin_when_one_is_waited_for_in_the_order_of_their_pairs(host: Host) -> None:
    def work(calls: Calls) -> None:
        calls.call("to 2", OperationKind.SEND, 2)
        calls.call("from 0", OperationKind.RECEIVE, 0)
        calls.call("to 0", OperationKind.SEND, 0)
        calls.call("from 0 again", OperationKind.RECEIVE, 0)
        waited = calls.call("from 2", OperationKind.RECEIVE, 2)
        assert calls.sent == []
        assert calls.worker.wait(waited, 10)

    calls = await on_thread(host, work)
    assert calls.sent == ["from 0", "from 0 again", "to 0", "to 2", "from 2"]
    assert announced(host) == ["receive 0 0", "receive 1 0", "send 0 0", "send 0 2", "receive 0 2"]


@pytest.mark.parametrize("how", ["barrier", "drain", "close"])
async def test_sends_that_nobody_waits_for_are_made_before_what_comes_behind_them(host: Host, how: str) -> None:
    def work(calls: Calls) -> None:
        calls.call("to 0", OperationKind.SEND, 0)
        if how == "barrier":
            calls.worker.wait(calls.call("barrier"), 10)
        elif how == "drain":
            calls.worker.drain()
            assert calls.sent == ["to 0"]

    assert (await on_thread(host, work)).sent[0] == "to 0"


async def test_none_begins_after_one_that_failed_and_each_says_why(host: Host) -> None:
    def work(calls: Calls) -> None:
        calls.call("a", raises=True)
        last = calls.call("b")
        assert calls.worker.wait(last, 10)
        assert isinstance(last.error, RefusedError)

    calls = await on_thread(host, work)
    assert calls.sent == ["a"]
    first, second = calls.told
    assert first == "a: the other rank has gone"
    assert "an earlier one failed: barrier of world: the other rank has gone" in second


async def test_operation_whose_light_was_cut_is_told_also_where_none_comes_behind_it(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()

    async def cut() -> None:
        (one,) = await host.report()
        await host.transfers.verbs["cut-transfers"]({"transfers": [one["transfer"]], "why": "k3v9a1xx cut it"})

    def work(calls: Calls) -> None:
        one = calls.call("a", before=lambda: asyncio.run_coroutine_threadsafe(cut(), loop).result())
        assert calls.worker.wait(one, 10)

    calls = await on_thread(host, work)
    assert calls.told == ["a: None"], "gloo has brought it"
    assert "k3v9a1xx cut it. Its light may have been cut" in caplog.text


async def test_what_is_called_at_the_end_of_an_operation_may_raise_and_the_next_one_goes_on(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    def told(error: BaseException | None) -> None:
        raise ValueError("a hook of the program")

    def work(calls: Calls) -> None:
        calls.call("first", told=told)
        assert calls.worker.wait(calls.call("behind"), 10)

    calls = await on_thread(host, work)
    assert calls.told == ["behind: None"]
    assert "a hook of the program" in caplog.text


async def test_callback_of_an_operation_does_not_wait_for_another_one(host: Host) -> None:
    found: list[BaseException] = []

    def work(calls: Calls) -> None:
        second = threading.Event()

        def told(error: BaseException | None) -> None:
            second.wait(10)
            try:
                calls.worker.wait(behind)
            except RefusedError as refused:
                found.append(refused)

        calls.call("first", told=told)
        behind = calls.call("behind")
        second.set()
        assert calls.worker.wait(behind, 10)

    await on_thread(host, work)
    assert "waited for in a callback" in str(found[0])


async def test_shim_that_names_another_port_than_the_connections_have_is_refused(
    host: Host, declare: Callable[[str], None]
) -> None:
    declare("scripted = acme_shims:SCRIPTED")

    def work(calls: Calls) -> None:
        one = calls.call("to 0", OperationKind.SEND, 0)
        assert calls.worker.wait(one, 10)

    calls = await on_thread(host, work, "scripted from=7")
    assert calls.sent == []
    assert "sends over eth7, and the connections of its group go over eth0" in calls.told[0]
