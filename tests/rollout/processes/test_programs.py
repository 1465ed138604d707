"""Programs on hosts: in the network of a twin host, and over a real SSH server; both by one supervisor."""

import asyncio
import getpass
import json
import os
import pwd
import shutil
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from hwd.model.program import ProgramEnd, RunningProgram
from hwd.rollout.processes.supervised_program import ProgramRequest, SupervisedProgram
from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.sources.kernel.sockets import ANSWER_TIMEOUT_S
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import FailedError, LinkError
from hwd_drivers.core.ids import RandomIds
from hwd_drivers.core.offload import ThreadOffload

from .conftest import DEBIAN_PYTHON, WITHIN_S, Place, Relay, gone, on_twin, said, said_without_root

Start = Callable[..., Awaitable[RunningProgram]]

pytestmark = pytest.mark.kernel


@pytest.fixture
def start(place: Place) -> Start:
    """Starts a shell with a script on a host, without an id; it ends with the test."""
    return partial(place.start, keep=None)


async def test_output_signals_and_end_are_those_of_the_program(start: Start) -> None:
    program = await start("printf 'a\\377b'; echo oh >&2; head -c 1000000 /dev/zero; exit 3")
    found = await said(program)
    assert found == {"out": b"a\xffb" + bytes(1_000_000), "err": b"oh\n"}
    end = await program.wait()
    assert (end, str(end)) == (ProgramEnd(status=3), "ended with status 3")
    end = await (await start("kill -SEGV $$")).wait()
    assert (end, end.exit_status) == (ProgramEnd(signal="SIGSEGV"), 128 + signal.SIGSEGV)
    program = await start("trap 'echo heard; exit 4' USR1; echo ready; while :; do sleep 0.01; done")
    heard = b""
    async with asyncio.timeout(WITHIN_S):
        async for piece in program.output():
            heard += piece.data if piece.stream == "out" else b""  # the shell says there that its sleep was ended
            if piece.data == b"ready\n":
                await program.signal("USR1")
    assert (heard, await program.wait()) == (b"ready\nheard\n", ProgramEnd(status=4))
    await program.signal("KILL")  # it has ended: nobody gets it


async def test_nothing_that_the_program_started_outlives_it_nor_one_that_does_not_listen_to_sigterm_its_closing(
    start: Start,
) -> None:
    # Neither what is in a session of its own, nor what has the pipes of its output.
    program = await start("setsid sleep 1000 & echo $!; setsid sh -c 'sleep 1000 & sleep 1000' >/dev/null & echo $!")
    pids = [int(word) for word in (await said(program))["out"].split()]
    assert len(pids) == 2
    assert (await program.wait()).status == 0
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists()
    program = await start("trap '' TERM; echo ready; while :; do sleep 1; done")
    async with asyncio.timeout(WITHIN_S):
        assert (await anext(aiter(program.output()))).data == b"ready\n"
    await program.close()
    await gone(program.pid)


async def test_orphans_of_a_program_are_reaped_while_it_runs(start: Start) -> None:
    """Else a shell that starts one thing after the other fills the process table."""
    count = 40  # that end at the same time: /proc may leave out one while another goes
    program = await start(f"for i in $(seq {count}); do (sh -c 'echo $$; exec sleep 0.3' &); done; exec sleep 1000")
    said = b""
    async with asyncio.timeout(WITHIN_S):
        async for piece in program.output():
            said += piece.data
            if said.count(b"\n") == count:
                break
        pids = [int(word) for word in said.split()]
        while [pid for pid in pids if Path(f"/proc/{pid}").exists()]:  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.01)
    assert not program.has_ended


async def test_whoever_has_the_pipe_of_a_program_that_has_ended_is_not_waited_for(start: Start) -> None:
    """It was passed to a process that is not of the program."""
    holder = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", "read pid; exec 9>/proc/$pid/fd/1; echo held; read forever", stdin=PIPE, stdout=PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    program = await start("echo $$; while [ ! -e /tmp/hwd-go-$$ ]; do sleep 0.01; done; echo end")
    output = program.output()
    async with asyncio.timeout(WITHIN_S):
        pid = (await anext(aiter(output))).data.strip()
        holder.stdin.write(pid + b"\n")
        assert await holder.stdout.readline() == b"held\n"
        go = Path(f"/tmp/hwd-go-{pid.decode()}")
        go.touch()
        assert b"".join([piece.data async for piece in output]) == b"end\n"
        assert await program.wait() == ProgramEnd(status=0)
    go.unlink()
    holder.kill()
    await holder.wait()


async def test_what_cannot_be_started_is_named_and_leaves_its_id_free(place: Place) -> None:
    with pytest.raises(FailedError, match="h0: cannot start /bin/sh: there is no user nosuchuser here"):
        await place.start("true", user="nosuchuser")
    assert place.sockets == []
    with pytest.raises(FailedError, match="h0: cannot start /no/such: No such file or directory"):
        await place.start("/no/such", "argument", keep=None)
    with pytest.raises(FailedError, match=r"cannot start /bin/echo: .*null byte"):
        await place.start("/bin/echo", "a\0b", keep=None)
    end = await (await place.start("kill -35 $$", keep=None)).wait()
    assert (end, end.exit_status) == (ProgramEnd(signal="SIG35"), 128 + 35), "one without a name"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which alone becomes another user")
async def test_program_runs_as_the_user_that_is_asked_for(start: Start) -> None:
    found = await said(await start("id -un; id -Gn; echo $HOME", user="nobody"))
    assert found["out"].split()[:2] == [b"nobody", b"nogroup"]


@pytest.mark.skipif(os.geteuid() == 0, reason="needs an ordinary user")
async def test_ordinary_user_cannot_become_another_one(start: Start) -> None:
    with pytest.raises(FailedError, match=r"only root could|sudo"):
        await start("true", user="root")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be an ordinary user whose program is root's")
@pytest.mark.skipif(not Path(DEBIAN_PYTHON).exists(), reason=f"needs {DEBIAN_PYTHON}, which any user may run")
async def test_program_that_has_become_another_user_is_named_and_left() -> None:
    """As `sudo` makes it, under a supervisor that is not root."""
    with tempfile.TemporaryDirectory(prefix="hwd-") as folder:  # pytest closes the folders above its own to other users
        Path(folder).chmod(0o755)
        become = Path(folder) / "setpriv"
        shutil.copy("/usr/bin/setpriv", become)
        become.chmod(0o4755)
        line = ProgramRequest(
            command=[str(become), "--reuid=0", "/bin/sleep", "1000"], user="nobody", within_s=1
        ).text()
        relay = await Relay.start(line, user=pwd.getpwnam("nobody").pw_uid)
        first = await relay.line()
        assert [*first] == ["started"], first
        end = (await relay.line())["end"]
        await relay.end()
    pid = first["started"]
    os.kill(pid, signal.SIGKILL)
    why = f"its longest time of 1 s is over; left behind, since it cannot be ended: {pid}"
    assert end == {"status": None, "signal": "", "why": why}


async def test_supervisor_that_hears_nothing_ends_its_program() -> None:
    asked = json.loads(ProgramRequest(command=["/bin/sleep", "1000"], user=getpass.getuser(), within_s=WITHIN_S).text())
    line = json.dumps({**asked, "silent_s": 0.4})
    relay = await Relay.start(line)
    _, *beats, end = (await relay.end()).splitlines()
    assert beats, "signs of life of its own"
    assert set(beats) == {b""}
    why = "whoever started it is silent for 0.4 s"
    assert json.loads(end)["end"] == {"status": None, "signal": "SIGTERM", "why": why}


class Said:
    """A pipe out of which these bytes come, then its end, or nothing any more where its host has vanished."""

    def __init__(self, *pieces: bytes, vanishes: bool = False) -> None:
        self._pieces = [*pieces]
        self._vanishes = vanishes
        self.beats = 0

    async def read(self) -> bytes:
        if not self._pieces and self._vanishes:
            await asyncio.Event().wait()
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, data: bytes) -> None:
        assert data
        self.beats += data == b"\n"

    async def close(self) -> None:
        self._pieces.clear()


async def test_closing_under_a_reader_ends_the_reader(twin: Place) -> None:
    """One that stayed in the loop would take the data of the next socket of its number."""
    program = await twin.start("/bin/sleep", "1000", keep=None)
    waiting = asyncio.create_task(program.wait())
    await asyncio.sleep(0)
    await program.close()
    async with asyncio.timeout(WITHIN_S):
        assert (await waiting).status is None, "nobody waited for its end any more"
    assert not Path(f"/proc/{program.pid}").exists()


async def test_program_on_a_twin_host_has_the_interfaces_of_that_host(keeper: Keeper, twin: Place) -> None:
    crossbar = Crossbar(keeper, SystemClock())
    crossbar.plug("h0.eth7", host="h0", interface="eth7")
    crossbar.close()
    lines = (await said(await twin.start("cat /proc/net/dev", keep=None)))["out"].decode().splitlines()[2:]
    assert {line.split(":")[0].strip() for line in lines} >= {"lo", "eth7"}
    assert not any("eth0" in line for line in lines)


WITHOUT_ROOT = """
import asyncio, getpass, sys
from pathlib import Path
from hwd.rollout.processes.supervised_program import ProgramRequest
from hwd.rollout.processes.twin_processes import attach_in_namespace, start_in_namespace
from hwd.twin.kernel import Keeper
from hwd_drivers.core.offload import InlineOffload

async def main():
    async with Keeper() as keeper:
        await keeper.start(["h0"], Path(sys.argv[1]))
        command = ["/bin/sh", "-c", "id -un; grep CapEff /proc/self/status; grep -c : /proc/net/dev"]
        more = {"offload": InlineOffload()}
        for keep in (None, sys.argv[2]):
            request = ProgramRequest(command=command, user=getpass.getuser(), within_s=30, keep=keep)
            program = await start_in_namespace("h0", keeper.path, request, **more)
            if keep:
                await program.leave()
                program = await attach_in_namespace("h0", keeper.path, keep, **more)
            async for piece in program.output():
                print(piece.data.decode(), end="")
            await program.close()
        print(keeper.privilege)

asyncio.run(main())
"""


async def test_program_on_a_rack_without_root_is_its_user_and_has_no_rights_over_the_networks() -> None:
    """The networks are owned by a user namespace, of which whoever enters them is root at first."""
    who, words, errors = await said_without_root(WITHOUT_ROOT, f"test-{RandomIds().token(length=12)}")
    assert words == [*[who, "CapEff:", "0" * 16, "1"] * 2, "user"], errors


async def test_broken_connection_or_a_killed_supervisor_ends_the_program_on_the_host(place: Place) -> None:
    program = await place.start("exec sleep 1000", keep=None)
    place.hang_up()
    end = await program.wait()
    assert (end.status, end.signal) == (None, "")
    assert str(end).startswith("its end is not known: h0: the supervisor of the program has gone")
    await gone(program.pid)


async def test_words_of_a_shell_beside_the_supervisor_do_no_harm_and_a_host_that_vanishes_is_noticed() -> None:
    """pyenv's own `python3` writes such a line now and then, when several of them start at once."""
    pipe = Said(
        b"rm: cannot remove 'x'\n{\"star", b'ted": 7}\nsudo: a lecture\n', b'{"out": "aGk="}\nTraceback', b" ..."
    )
    program = await SupervisedProgram.start("h0", pipe, "{}")
    assert (program.pid, await said(program)) == (7, {"out": b"hi", "err": b""})
    assert str(await program.wait()) == (
        "its end is not known: h0: the supervisor of the program has gone: rm: cannot remove 'x' sudo: a lecture "
        "Traceback .... Where its supervisor runs, it ends it within 30 s"
    )
    await program.close()
    with pytest.raises(LinkError, match="h0: the supervisor of the program has gone: sudo: a password is required"):
        await SupervisedProgram.start("h0", Said(b"sudo: a password is required\n"), "{}")
    pipe = Said(b'{"started": 7}\n', vanishes=True)
    program = await SupervisedProgram.start("h0", pipe, "{}", silent_s=0.2)
    end = await program.wait()
    assert end.why.startswith("h0: nothing was heard of the program's supervisor for 0.2 s")
    assert pipe.beats
    await program.close()


async def test_keeper_that_is_stopped_or_lost_holds_nobody_up(
    keeper: Keeper, twin: Place, stack: AsyncExitStack
) -> None:
    os.kill(keeper.pid, signal.SIGSTOP)
    callers = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(100)]
    try:
        with suppress(BlockingIOError):  # its queue is full
            for caller in callers:
                caller.setblocking(False)
                caller.connect(os.fspath(keeper.path))
        with pytest.raises(LinkError, match=r"h0: its network cannot be had: .* Is its twin rack up"):
            await twin.start("true", keep=None)
    finally:
        os.kill(keeper.pid, signal.SIGCONT)
        for caller in callers:
            caller.close()
    with pytest.raises(LinkError, match=r"h0: its network cannot be had: .* Is its twin rack up"):
        await on_twin(keeper.path.with_name("lost"), stack).start("true", keep=None)


async def test_keeper_that_does_not_answer_holds_up_no_loop_and_who_does_not_wait_leaves_nothing(
    keeper: Keeper, stack: AsyncExitStack
) -> None:
    offload = ThreadOffload(1)
    stack.callback(offload.close)
    place, loop = on_twin(keeper.path, stack, offload), asyncio.get_running_loop()
    before = children()
    os.kill(keeper.pid, signal.SIGSTOP)
    try:
        begun_s = loop.time()
        starting = asyncio.create_task(place.start("exec sleep 1000", keep=None))
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert not starting.done()
        assert loop.time() - begun_s < ANSWER_TIMEOUT_S / 2
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    finally:
        os.kill(keeper.pid, signal.SIGCONT)
    await offload(int)  # after it
    async with asyncio.timeout(WITHIN_S):
        while children() - before:  # noqa: ASYNC110 - nothing tells of the end of one that was dropped
            await asyncio.sleep(0.01)


def children() -> set[int]:
    return {int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


NAMELESS = """
import os, sys
from hwd.rollout.onhost.child import start
child = start({"command": ["/bin/sh", "-c", "id -u; echo $USER $HOME"], "user": sys.argv[1], "environment": {}})
os.waitpid(child.pid, 0)
for pipe in child.pipes:
    os.set_blocking(pipe, True)
    print(os.read(pipe, 4096).decode())
"""


@pytest.mark.parametrize(("user", "said"), [("uid54321", "54321 uid54321 /"), ("daemon", "and this is uid54321")])
async def test_user_without_an_entry_in_passwd_is_named_by_its_number(user: str, said: str) -> None:
    command = ["unshare", "--user", "--map-user=54321", "--map-group=54321", sys.executable, "-P", "-c", NAMELESS, user]
    process = await asyncio.create_subprocess_exec(*command, env={}, stdout=PIPE, stderr=STDOUT)
    words, _ = await process.communicate()
    if b"unshare" in words:
        pytest.skip("needs user namespaces")
    assert said in " ".join(words.decode().split())
