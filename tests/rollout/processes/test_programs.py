"""Programs on hosts: in the network of a twin host, and over a real SSH server; both by one supervisor."""

import asyncio
import getpass
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from hwd.model.program import ProgramEnd, RunningProgram
from hwd.model.testbed import Host
from hwd.rollout.processes.host_processes import HostProcesses
from hwd.rollout.processes.running import SupervisedProgram
from hwd.rollout.processes.ssh_processes import start_over_ssh
from hwd.rollout.processes.twin_processes import start_in_namespace
from hwd.twin.kernel import Crossbar, Keeper
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import FailedError, LinkError

WITHIN_S = 30.0
Start = Callable[..., Awaitable[RunningProgram]]
MakeSshd = Callable[..., Any]

pytestmark = pytest.mark.kernel


@pytest.fixture(params=["twin", "ssh"])
async def start(
    request: pytest.FixtureRequest, tmp_path: Path, make_sshd: MakeSshd, stack: AsyncExitStack, keeper: Keeper
) -> Start:
    """Starts a shell with a script on a host; closed at the end."""
    sshd = make_sshd()

    async def start(script: str, *, user: str = "", within_s: float = WITHIN_S) -> RunningProgram:
        program: RunningProgram
        command, user = ["/bin/sh", "-c", script], user or getpass.getuser()
        if request.param == "twin":
            program = await start_in_namespace("h0", keeper.path, command, user=user, within_s=within_s)
        else:
            processes = HostProcesses(lambda: None, SystemClock(), home=sshd.home)
            host = Host(name="h0", ports=(), ssh=sshd.place)
            program = await processes.start(host, command, user=user, within_s=within_s)
        stack.push_async_callback(program.close)
        return program

    return start


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Keeper]:
    async with Keeper() as keeper:
        await keeper.start(["h0"], tmp_path / "run")
        yield keeper


async def said(program: RunningProgram) -> dict[str, bytes]:
    """All that it writes, by stream."""
    found = {"out": b"", "err": b""}
    async with asyncio.timeout(WITHIN_S):
        async for piece in program.output():
            found[piece.stream] += piece.data
    return found


async def gone(pid: int) -> None:
    """Wait until there is no such process."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pidfd, ended.set)
    try:
        async with asyncio.timeout(WITHIN_S):
            await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


async def test_output_and_exit_status_are_those_of_the_program(start: Start) -> None:
    program = await start("printf 'a\\377b'; echo oh >&2; head -c 1000000 /dev/zero; exit 3")
    found = await said(program)
    assert found == {"out": b"a\xffb" + bytes(1_000_000), "err": b"oh\n"}
    end = await program.wait()
    assert end == ProgramEnd(status=3)
    assert str(end) == "ended with status 3"


async def test_end_by_a_signal_is_told_as_that(start: Start) -> None:
    program = await start("kill -SEGV $$")
    end = await program.wait()
    assert end == ProgramEnd(signal="SIGSEGV")
    assert end.exit_status == 128 + signal.SIGSEGV


async def test_signal_reaches_the_program(start: Start) -> None:
    program = await start("trap 'echo heard; exit 4' USR1; echo ready; while :; do sleep 0.01; done")
    found = b""
    async with asyncio.timeout(WITHIN_S):
        async for piece in program.output():
            found += piece.data if piece.stream == "out" else b""  # the shell says there that its sleep was ended
            if piece.data == b"ready\n":
                await program.signal("USR1")
    assert (found, await program.wait()) == (b"ready\nheard\n", ProgramEnd(status=4))
    await program.signal("KILL")  # it has ended: nobody gets it


async def test_program_ends_when_its_longest_time_is_over(start: Start) -> None:
    program = await start("exec sleep 1000", within_s=0.2)
    assert await program.wait() == ProgramEnd(signal="SIGTERM", why="its longest time of 0.2 s is over")


async def test_nothing_that_the_program_started_outlives_it(start: Start) -> None:
    """Neither what is in a session of its own, nor what has the pipes of its output."""
    program = await start("setsid sleep 1000 & echo $!; setsid sh -c 'sleep 1000 & sleep 1000' >/dev/null & echo $!")
    pids = [int(word) for word in (await said(program))["out"].split()]
    assert len(pids) == 2
    assert (await program.wait()).status == 0
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists()


async def test_closing_ends_a_program_that_does_not_listen_to_sigterm(start: Start) -> None:
    program = await start("trap '' TERM; echo ready; while :; do sleep 1; done")
    async with asyncio.timeout(WITHIN_S):
        assert (await anext(aiter(program.output()))).data == b"ready\n"
    await program.close()
    await gone(program.pid)


async def test_program_that_is_not_there_and_a_user_that_is_not_there_are_named(start: Start) -> None:
    with pytest.raises(FailedError, match="h0: cannot start /bin/sh: there is no user nosuchuser here"):
        await start("true", user="nosuchuser")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which alone becomes another user")
async def test_program_runs_as_the_user_that_is_asked_for(start: Start) -> None:
    found = await said(await start("id -un; id -Gn; echo $HOME", user="nobody"))
    assert found["out"].split()[:2] == [b"nobody", b"nogroup"]


@pytest.mark.skipif(os.geteuid() == 0, reason="needs an ordinary user")
async def test_ordinary_user_cannot_become_another_one(start: Start) -> None:
    with pytest.raises(FailedError, match=r"only root could|sudo"):
        await start("true", user="root")


async def test_missing_program_is_named(keeper: Keeper) -> None:
    with pytest.raises(FailedError, match="h0: cannot start /no/such: No such file or directory"):
        await start_in_namespace("h0", keeper.path, ["/no/such"], user=getpass.getuser(), within_s=1)


async def test_program_on_a_twin_host_has_the_interfaces_of_that_host(keeper: Keeper, stack: AsyncExitStack) -> None:
    crossbar = Crossbar(keeper, SystemClock())
    crossbar.plug("h0.eth7", host="h0", interface="eth7")
    crossbar.close()
    command = ["/bin/cat", "/proc/net/dev"]
    program = await start_in_namespace("h0", keeper.path, command, user=getpass.getuser(), within_s=WITHIN_S)
    stack.push_async_callback(program.close)
    lines = (await said(program))["out"].decode().splitlines()[2:]
    assert {line.split(":")[0].strip() for line in lines} >= {"lo", "eth7"}
    assert not any("eth0" in line for line in lines)


async def test_killed_supervisor_takes_the_program_with_it_and_the_end_is_not_known(
    keeper: Keeper, stack: AsyncExitStack
) -> None:
    command = ["/bin/sleep", "1000"]
    program = await start_in_namespace("h0", keeper.path, command, user=getpass.getuser(), within_s=WITHIN_S)
    stack.push_async_callback(program.close)
    parent = int(Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    end = await program.wait()
    assert (end.status, end.signal) == (None, "")
    assert str(end).startswith("its end is not known: h0: the supervisor of the program has gone")
    await gone(program.pid)


async def test_broken_connection_ends_the_program_on_the_host(make_sshd: MakeSshd, stack: AsyncExitStack) -> None:
    sshd = make_sshd()
    program = await start_over_ssh(
        "h0",
        sshd.place,
        ["/bin/sleep", "1000"],
        user=getpass.getuser(),
        within_s=WITHIN_S,
        clock=SystemClock(),
        home=sshd.home,
    )
    stack.push_async_callback(program.close)
    sshd.hang_up()
    assert (await program.wait()).status is None
    await gone(program.pid)


class Said:
    """A pipe out of which these bytes come, then its end."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [*pieces]

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, data: bytes) -> None:
        assert data

    async def close(self) -> None:
        self._pieces.clear()


async def test_words_of_a_shell_beside_the_supervisor_do_no_harm_and_are_told_where_it_goes() -> None:
    """pyenv's own `python3` writes such a line now and then, when several of them start at once."""
    pipe = Said(
        b"rm: cannot remove 'x'\n{\"star", b'ted": 7}\nsudo: a lecture\n', b'{"out": "aGk="}\nTraceback', b" ..."
    )
    program = await SupervisedProgram.start("h0", pipe)
    assert (program.pid, await said(program)) == (7, {"out": b"hi", "err": b""})
    assert str(await program.wait()) == (
        "its end is not known: h0: the supervisor of the program has gone: rm: cannot remove 'x' sudo: a lecture "
        "Traceback .... It is ended there within seconds"
    )
    with pytest.raises(LinkError, match="h0: the supervisor of the program has gone: sudo: a password is required"):
        await SupervisedProgram.start("h0", Said(b"sudo: a password is required\n"))


async def test_lost_keeper_is_named(tmp_path: Path) -> None:
    with pytest.raises(LinkError, match=r"h0: its network cannot be had: .* Is its twin rack up"):
        await start_in_namespace("h0", tmp_path / "keeper", ["/bin/true"], user=getpass.getuser(), within_s=1)
