"""The accept loop when descriptors are out."""

import asyncio
import os
import resource
import socket

import pytest

from hwd_drivers.transports.accept_loop import AcceptLoop

PATIENCE_S = 20.0


async def test_it_pauses_while_no_descriptor_is_free() -> None:
    loop = asyncio.get_running_loop()
    taken: asyncio.Queue[socket.socket] = asyncio.Queue()
    rests: asyncio.Queue[OSError] = asyncio.Queue()
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
        client.setblocking(False)
        accepting = asyncio.create_task(AcceptLoop(listening, take=taken.put_nowait, starved=rests.put_nowait).run())
        await asyncio.sleep(0.01)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        spare = os.dup(client.fileno())
        os.close(spare)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await loop.sock_connect(client, listening.getsockname())
                assert (await rests.get()).strerror == "Too many open files"
                before = loop.time()
                await rests.get()
                assert loop.time() - before > 0.4, "it looks twice a second"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        async with asyncio.timeout(PATIENCE_S):
            (await taken.get()).close()
        assert rests.empty()
        accepting.cancel()
        await asyncio.wait([accepting])


async def test_a_connection_that_cannot_be_handled_does_not_block_others(caplog: pytest.LogCaptureFixture) -> None:
    taken: asyncio.Queue[socket.socket] = asyncio.Queue()
    failures = iter([KeyError("one")])

    def take(connection: socket.socket) -> None:
        if (failure := next(failures, None)) is not None:
            raise failure
        taken.put_nowait(connection)

    def starved(error: OSError) -> None:
        raise AssertionError(error)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepting = asyncio.create_task(AcceptLoop(listening, take=take, starved=starved).run())
        with socket.create_connection(listening.getsockname()), socket.create_connection(listening.getsockname()):
            async with asyncio.timeout(PATIENCE_S):
                (await taken.get()).close()
        accepting.cancel()
        await asyncio.wait([accepting])
    assert "could not be handled, which is a bug of hwd" in caplog.text
