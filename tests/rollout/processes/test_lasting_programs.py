"""Programs with an id outlive whoever started them: on a twin host, and over a real SSH server."""

import asyncio
import base64
import getpass
import json
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from hwd.model.program import ProgramEnd, RunningProgram
from hwd.rollout.processes.supervised_program import ProgramRequest
from hwd.twin.kernel import Keeper
from hwd_drivers.core.errors import ConfigError, LinkError, RefusedError, UnknownError
from hwd_drivers.core.ids import RandomIds

from .conftest import DEBIAN_PYTHON, FOLDER, WITHIN_S, Place, Relay, gone, on_twin, parent_of, pieces, said

COUNT = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo $i; echo -$i >&2; done"
SLOW_COUNT = "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo $i; sleep 0.005; done"
UNTIL_TERM = "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done"

pytestmark = pytest.mark.kernel


async def until(program: RunningProgram, words: bytes) -> bytes:
    """What it writes, up to the piece that ends like this."""
    found = b""
    async with aclosing(pieces(program)) as output:  # type: ignore[type-var]
        async for piece in output:
            found += piece.data
            if found.endswith(words):
                return found
    raise AssertionError(f"it ended after {found!r}")


async def test_program_that_is_left_goes_on_and_who_attaches_gets_the_rest_of_its_output_once(place: Place) -> None:
    program = await place.start(COUNT)
    found = {"out": b"", "err": b""}
    async for piece in pieces(program):
        found[piece.stream] += piece.data
        if program.taken > 3000:
            break
    await program.leave()
    again = await place.attach()
    assert again.pid == program.pid
    assert again.taken == program.taken
    for stream, data in (await said(again)).items():
        found[stream] += data
    numbers = range(1, 2001)
    assert found == {
        "out": b"".join(b"%d\n" % number for number in numbers),
        "err": b"".join(b"-%d\n" % number for number in numbers),
    }
    assert again.taken == sum(map(len, found.values()))
    assert await again.wait() == ProgramEnd(status=0)
    await again.close()


STARTER = """
import asyncio, getpass, json, sys
from pathlib import Path
from hwd.model.ssh import SshPlace
from hwd.rollout.processes.supervised_program import ProgramRequest
from hwd_drivers.core.clock import SystemClock

async def main():
    where, script, keep = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
    user = getpass.getuser()
    request = ProgramRequest(command=["/bin/sh", "-c", script], user=user, within_s=30, keep=keep)
    if "keeper" in where:
        from hwd.rollout.processes.twin_processes import start_in_namespace
        from hwd_drivers.core.offload import InlineOffload
        program = await start_in_namespace("h0", Path(where["keeper"]), request, offload=InlineOffload())
    else:
        from hwd.rollout.processes.ssh_processes import start_over_ssh
        place = SshPlace(address="127.0.0.1", port=where["port"], user=user)
        program = await start_over_ssh("h0", place, request, clock=SystemClock(), home=Path(where["home"]))
    async for piece in program.output():
        print(program.taken, piece.data.hex(), flush=True)

asyncio.run(main())
"""


async def test_program_outlives_a_starter_that_is_killed_and_each_byte_of_its_output_is_had_once(place: Place) -> None:
    where = json.dumps({name: value for name, value in place.where.items() if name != "hang_up"})
    starter = await asyncio.create_subprocess_exec(
        sys.executable, "-B", "-c", STARTER, where, SLOW_COUNT, place.keep, stdout=PIPE, start_new_session=True
    )
    assert starter.stdout is not None
    taken, found, killed = 0, b"", False
    async with asyncio.timeout(WITHIN_S):
        while line := await starter.stdout.readline():
            word, data = line.split()
            taken, found = int(word), found + bytes.fromhex(data.decode())
            if taken > 30 and not killed:
                os.killpg(starter.pid, signal.SIGKILL)
                killed = True
        await starter.wait()
    assert taken < 290, "it was killed in the middle"
    assert len(found) == taken
    again = await place.attach(taken)
    assert again.taken == taken
    found += (await said(again))["out"]
    assert found == b"".join(b"%d\n" % number for number in range(1, 101))
    assert await again.wait() == ProgramEnd(status=0)
    await again.close()


async def test_dead_relay_and_a_broken_connection_leave_the_program_running(place: Place) -> None:
    program = await place.start(UNTIL_TERM)
    assert await until(program, b"ready\n") == b"ready\n"
    place.hang_up()
    async with asyncio.timeout(WITHIN_S):
        end = await program.wait()
    assert str(end).startswith("its end is not known: h0: the supervisor of the program has gone")
    assert str(end).endswith("Where its supervisor runs, it goes on: attach to it")
    with pytest.raises(LinkError, match=f"h0: it is not known whether program {program.pid} has ended"):
        await program.close()
    again = await place.attach(program.taken)
    await again.signal("TERM")
    assert (await said(again))["out"] == b"bye\n"
    assert await again.wait() == ProgramEnd(status=5)
    await again.close()


async def test_end_waits_for_somebody_who_takes_it_and_then_nothing_is_left(place: Place) -> None:
    program = await place.start(UNTIL_TERM)
    supervisor = parent_of(program.pid)
    await until(program, b"ready\n")
    await program.signal("TERM")
    await program.leave()
    await gone(program.pid)
    assert len(place.sockets) == 1
    with pytest.raises(RefusedError, match=f"h0: a program of this id is there already, .* to be taken: {place.keep}"):
        await place.start("true")
    for output in (b"bye\n", b""):  # one who leaves has taken the output, and not the end
        again = await place.attach()
        assert (await said(again))["out"] == output
        assert await again.wait() == ProgramEnd(status=5)
        await again.leave()
    again = await place.attach()
    await again.close()
    await gone(supervisor)
    assert place.sockets == []
    with pytest.raises(UnknownError, match=f"h0: no program of this id is there, .* has taken its end: {place.keep}"):
        await place.attach()
    assert await (await place.start("exit 4")).wait() == ProgramEnd(status=4)
    await (await place.attach()).close()


async def test_id_of_a_program_that_runs_is_refused_and_closing_ends_all_that_it_started_and_frees_it(
    place: Place,
) -> None:
    with pytest.raises(UnknownError, match=r"h0: no program of this id is there"):
        await place.attach()
    program = await place.start("trap '' TERM; setsid sleep 1000 & echo $!; while :; do sleep 1; done")
    with pytest.raises(RefusedError, match=r"h0: a program of this id is there already"):
        await place.start("true")
    other = int(await until(program, b"\n"))
    await program.close()
    assert not Path(f"/proc/{program.pid}").exists()
    assert not Path(f"/proc/{other}").exists()
    assert place.sockets == []
    with pytest.raises(UnknownError):
        await place.attach()


async def test_who_attaches_takes_the_program_over(place: Place) -> None:
    program = await place.start(UNTIL_TERM)
    await until(program, b"ready\n")
    again = await place.attach(program.taken)
    async with asyncio.timeout(WITHIN_S):
        end = await program.wait()
    assert str(end) == "its end is not known: h0: another daemon has attached to it"
    await program.close()
    await again.signal("TERM")
    assert (await said(again))["out"] == b"bye\n"
    await again.close()


async def test_nobody_attached_holds_up_no_output_and_what_is_dropped_is_said(place: Place) -> None:
    program = await place.start("echo begin; head -c 3000000 /dev/zero; echo end")
    await program.leave()
    await gone(program.pid)
    again = await place.attach()
    found = await said(again)
    assert found["out"] == (bytes(3_000_000) + b"end\n")[-1_048_576:]
    dropped = 6 + 3_000_000 + 4 - 1_048_576
    assert found["err"] == b"[hwd: %d bytes of output were dropped while no daemon was attached]\n" % dropped
    assert again.taken == 3_000_010
    await again.close()


async def test_what_is_no_id_is_refused_and_a_reader_that_is_cancelled_does_not_keep_the_program_from_its_end(
    place: Place,
) -> None:
    program = await place.start(UNTIL_TERM)
    await until(program, b"ready\n")
    reading = asyncio.create_task(program.wait())
    await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.wait((reading,))
    await program.close()
    await gone(program.pid)
    assert place.sockets == []
    for keep in ("", "a/b", "..", "A", "a" * 65):
        place.keep = keep
        with pytest.raises(ConfigError, match=re.escape(f"{keep!r} is no id of a program: 1 to 64 of 0-9, a-z and -")):
            await place.start("true")
        with pytest.raises(ConfigError):
            await place.attach()


async def test_socket_of_a_program_that_a_clean_up_has_removed_comes_again(twin: Place) -> None:
    program = await twin.start(UNTIL_TERM)
    await until(program, b"ready\n")
    await program.leave()
    (socket_file,) = twin.sockets
    socket_file.unlink()
    async with asyncio.timeout(WITHIN_S):
        while not twin.sockets:  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
    again = await twin.attach()
    assert again.pid == program.pid
    await again.signal("TERM")
    assert (await again.wait()).status == 5
    await again.close()
    assert not twin.sockets


async def test_longest_time_or_a_signal_to_its_supervisor_ends_a_program(twin: Place) -> None:
    program = await twin.start("exec sleep 1000", within_s=0.3)
    await program.leave()
    await gone(program.pid)
    again = await twin.attach()
    assert await again.wait() == ProgramEnd(signal="SIGTERM", why="its longest time of 0.3 s is over")
    await again.close()
    program = await twin.start(UNTIL_TERM)
    await until(program, b"ready\n")
    supervisor = parent_of(program.pid)
    os.kill(supervisor, signal.SIGTERM)
    assert await program.wait() == ProgramEnd(status=5, why="its supervisor got SIGTERM")
    await gone(supervisor)
    assert twin.sockets == []


@pytest.mark.parametrize("killed", [True, False])
async def test_end_of_a_rack_ends_the_programs_on_its_hosts_as_a_host_that_is_switched_off_does(
    twin: Place, keeper: Keeper, stack: AsyncExitStack, *, killed: bool
) -> None:
    other = on_twin(keeper.path, stack)
    left = await other.start("exec sleep 1000")
    supervisors = [parent_of(left.pid)]
    await left.leave()  # nobody is attached to it
    programs = [await twin.start(UNTIL_TERM), await twin.start(UNTIL_TERM, keep=None)]
    for program in programs:
        await until(program, b"ready\n")
        supervisors.append(parent_of(program.pid))
    if killed:
        os.kill(keeper.pid, signal.SIGKILL)
    else:
        await keeper.stop()
    for program in programs:
        assert await program.wait() == ProgramEnd(status=5, why="the twin rack of its host has ended")
    await gone(left.pid, *(program.pid for program in programs), *supervisors)
    assert twin.sockets == other.sockets == []


async def test_killed_supervisor_takes_the_program_with_it_and_its_socket_is_replaced(twin: Place) -> None:
    program = await twin.start("exec sleep 1000")
    os.kill(parent_of(program.pid), signal.SIGKILL)
    await program.wait()
    await gone(program.pid)
    [stale] = twin.sockets
    again = await twin.start("exec sleep 1000")
    assert twin.sockets == [stale]
    os.kill(parent_of(again.pid), signal.SIGKILL)
    await again.wait()
    with pytest.raises(UnknownError):
        await twin.attach()
    assert twin.sockets == []


@pytest.mark.parametrize("keep", [True, False])
async def test_environment_is_added_to_the_usual_one_and_a_program_without_an_id_ends_when_it_is_left(
    place: Place, *, keep: bool
) -> None:
    environment = {"RANK": "3", "LANG": "C", "WORDS": "a 'b'\n$c"}
    more: dict[str, Any] = {} if keep else {"keep": None}
    program = await place.start('echo "$RANK $LANG $WORDS $USER"', environment=environment, **more)
    assert await said(program) == {"out": f"3 C a 'b'\n$c {getpass.getuser()}\n".encode(), "err": b""}
    assert program.taken > 0
    await program.close()
    program = await place.start(UNTIL_TERM, **more)
    await until(program, b"ready\n")
    await program.leave()
    if keep:
        program = await place.attach()
        await program.close()
    await gone(program.pid)


def asked(keep: str, script: str, **more: object) -> str:
    command = ["/bin/sh", "-c", script]
    return ProgramRequest(command=command, user=getpass.getuser(), within_s=WITHIN_S, keep=keep).text("h0", **more)


@pytest.fixture
def keep() -> str:
    return f"test-{RandomIds().token(length=12)}"


async def test_starter_that_goes_before_it_knows_takes_the_program_with_it_and_an_end_that_nobody_takes_is_given_up(
    keep: str,
) -> None:
    relay = await Relay.start(asked(keep, "exec sleep 1000"))
    pid = (await relay.line())["started"]
    relay.input.close()
    await gone(pid)
    await relay.end()
    relay = await Relay.start(asked(keep, "exit 3", waits_s=0.3))
    assert set(await relay.line()) == {"started", "at", "dropped"}
    await relay.keep()
    assert (await relay.line())["end"]["status"] == 3
    await relay.end()
    assert not [*FOLDER.glob(f"{keep}.*")]


async def test_silence_and_what_is_no_line_end_the_connection_and_not_the_program(keep: str) -> None:
    relay = await Relay.start(asked(keep, "exec sleep 1000", silent_s=0.3))
    pid = (await relay.line())["started"]
    await relay.keep()
    assert await relay.end() == b"", "signs of life alone"
    other = await Relay.attach(keep)
    assert await other.line() == {"started": pid, "at": 0, "dropped": 0}
    assert await other.close() == {"status": None, "signal": "SIGTERM", "why": "it was closed"}
    relay = await Relay.start(asked(keep, "exec sleep 1000"))
    pid = (await relay.line())["started"]
    await relay.keep()
    relay.input.write(b"{oh\n")
    assert await relay.end() == b""
    [path] = FOLDER.glob(f"{keep}.*")
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(path))
        caller.sendall(b"{oh\n")
        assert caller.recv(100) == b""
    other = await Relay.attach(keep)
    assert (await other.line())["started"] == pid
    await other.close()


async def test_output_that_was_not_taken_is_sent_again_and_the_program_waits_for_a_reader_who_is_attached(
    keep: str,
) -> None:
    relay = await Relay.start(asked(keep, "echo one; read forever < /dev/zero"))
    await relay.line()
    await relay.keep()
    assert await relay.line() == {"out": "b25lCg=="}
    relay.say(taken=1)
    relay.input.close()
    await relay.end()
    other = await Relay.attach(keep)
    assert (await other.line())["at"] == 1
    assert await other.line() == {"out": "bmUK"}
    await other.close()
    relay = await Relay.start(asked(keep, "head -c 3000000 /dev/zero", silent_s=2))
    await relay.line()
    await relay.keep()
    size, silent = 0, 0
    async with asyncio.timeout(WITHIN_S):
        while silent < 2:
            line = await relay.output.readline()
            silent = silent + 1 if line == b"\n" else 0  # signs of life alone
            size += len(base64.b64decode(json.loads(line)["out"])) if not silent else 0
    assert 1_048_576 < size <= 1_048_576 + 32_768
    while size < 3_000_000:
        relay.say(taken=size)
        size += len(base64.b64decode((await relay.line())["out"]))
    assert (await relay.line())["end"]["status"] == 0
    relay.say(close=True)
    await relay.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
@pytest.mark.skipif(not Path(DEBIAN_PYTHON).exists(), reason=f"needs {DEBIAN_PYTHON}, which any user may run")
@pytest.mark.parametrize("planted", ["of another user", "open to others", "a link"])
async def test_folder_that_others_could_enter_is_refused(planted: str, tmp_path: Path, keep: str) -> None:
    user = 2_000_000_000 + os.getpid()  # a user of its own, which no other test has
    folder = Path(f"/tmp/hwd-programs-{user}")
    if planted == "a link":
        folder.symlink_to(tmp_path)
    else:
        folder.mkdir(mode=0o700)
        if planted == "open to others":
            folder.chmod(0o750)
            os.chown(folder, user, user)
    try:
        why = f"{folder} is not a folder of user {user} that nobody else may enter. Remove it"
        relay = await Relay.start(asked(keep, "true"), user=user)
        assert await relay.line() == {"failed": f"/bin/sh: {why}"}
        await relay.end()
        relay = await Relay.attach(keep, user=user)
        assert await relay.line() == {"failed": f"{keep}: {why}"}
        await relay.end()
    finally:
        if planted == "a link":
            folder.unlink()
        else:
            folder.rmdir()
