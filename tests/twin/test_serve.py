"""A rack as a process: what it says of itself, its agents, its faults, its end."""

import asyncio
import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hwd.config.run_files.places import is_held
from hwd.model.fault import Clear, Deny, Fault, Reset, Slow, Stick
from hwd.twin.control import ask
from hwd.twin.processes import AGAIN_AFTER_S
from hwd.twin.serve import is_told
from hwd_agents.process.config import load_config
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, DeadlineError, DeviceError, LinkError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.abilities import CrossConnects
from hwd_drivers.transports.dial import TcpDialer

from .conftest import change, open_switch, soon

SCRIPT = Path(__file__).with_name("serve_process.py")
WITHIN_S = 30.0
END_WITHIN_S = 3.0

Said = dict[str, Any]


class Served:
    """One served rack, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process, run_dir: Path) -> None:
        self.process = process
        self.run_dir = run_dir

    async def until(self, holds: Callable[[Said], object]) -> Said:
        """Wait until what the rack says of itself is so."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                said = self.said()
                if said is not None and holds(said):
                    return said
                assert self.process.returncode is None, await self.words()
                await asyncio.sleep(0.02)

    def said(self) -> Said | None:
        try:
            said: Said = json.loads((self.run_dir / "rack.json").read_text())
        except FileNotFoundError:
            return None
        return said

    async def end(self) -> tuple[int, float]:
        """Send SIGTERM; its exit status, and how long it took."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        self.process.terminate()
        async with asyncio.timeout(WITHIN_S):
            status = await self.process.wait()
        return status, loop.time() - started_s

    async def words(self) -> str:
        assert self.process.stderr is not None
        async with asyncio.timeout(WITHIN_S):
            return (await self.process.stderr.read()).decode()


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve(tmp_path: Path, write_testbed: Callable[..., Path]) -> AsyncIterator[Serve]:
    """Starts racks, and kills what is left of them."""
    served: list[Served] = []

    async def start(
        *, hosts: str = "process", agents: str = "alone", kernel: bool = False, inside: Sequence[str] = ()
    ) -> Served:
        testbed = write_testbed(kernel=kernel)
        process = await asyncio.create_subprocess_exec(
            *inside,
            sys.executable,
            str(SCRIPT),
            str(testbed),
            str(tmp_path / "run"),
            hosts,
            agents,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        served.append(Served(process, tmp_path / "run"))
        return served[-1]

    yield start
    for one in served:
        if one.process.returncode is None:
            one.process.kill()
            await one.process.wait()
        await one.words()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def until_dead(*pids: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while any(map(alive, pids)):  # noqa: ASYNC110 - they are no children of ours: nothing tells of their end
            await asyncio.sleep(0.02)


def test_progress_of_many_agents_is_told_ten_times_and_that_of_few_never() -> None:
    for total in (20, 25, 999):
        told = [up for up in range(1, total + 1) if is_told(up, total)]
        assert (len(told), told[-1]) == (10, total)
        assert max(later - earlier for earlier, later in itertools.pairwise(told)) <= total // 10 + 1
    assert not any(is_told(up, 19) for up in range(1, 20))


async def test_killed_rack_leaves_no_agent_and_the_next_one_starts(serve: Serve) -> None:
    first = await serve(agents="agents")
    said = await first.until(lambda said: all(host["agent"] for host in said["hosts"].values()))
    first.process.kill()
    await until_dead(*(host["agent"] for host in said["hosts"].values()))
    second = await serve()
    assert (await second.until(lambda said: said["pid"] == second.process.pid))["addresses"]


async def test_agents_reach_their_twins_are_started_again_when_they_die_and_end_with_the_rack(serve: Serve) -> None:
    rack = await serve(agents="agents")
    said = await rack.until(lambda said: all(host["agent"] for host in said["hosts"].values()))
    config = load_config(rack.run_dir / "agent-h1.yaml")
    assert (config.testbed, config.host, list(config.ports)) == ("small", "h1", ["eth0", "eth1"])
    assert config.clock is not None
    assert config.clock.offset_s == 1
    log_file = rack.run_dir / "agent-h0.log"
    await rack.until(lambda said: "its twin at" in log_file.read_text())
    loop = asyncio.get_running_loop()
    killed_s = loop.time()
    before = said["hosts"]["h1"]["agent"]
    os.kill(before, signal.SIGKILL)
    said = await rack.until(lambda said: said["hosts"]["h1"]["agent"] not in (before, None))
    assert loop.time() - killed_s >= AGAIN_AFTER_S
    agents = [host["agent"] for host in said["hosts"].values()]
    status, took_s = await rack.end()
    assert (status, took_s < END_WITHIN_S) == (0, True)
    assert not any(map(alive, agents))
    assert "Traceback" not in log_file.read_text()
    assert f"h1: its agent, pid {before}, was killed by signal 9" in await rack.words()


async def test_rack_whose_run_directory_a_clean_up_has_removed_goes_on_and_is_found_again(serve: Serve) -> None:
    rack = await serve(agents="agents")
    said = await rack.until(lambda said: all(host["agent"] for host in said["hosts"].values()))
    await rack.until(lambda said: all((rack.run_dir / f"{host}.transfers.sock").exists() for host in said["hosts"]))
    before = said["hosts"]["h1"]["agent"]
    shutil.rmtree(rack.run_dir)
    os.kill(before, signal.SIGKILL)  # its successor needs a configuration, a log and its socket
    said = await rack.until(lambda said: said["hosts"]["h1"]["agent"] not in (before, None))
    sockets = [rack.run_dir / f"{host}{end}" for host in said["hosts"] for end in (".sock", ".transfers.sock")]
    await rack.until(lambda said: all(path.is_socket() for path in sockets))
    await rack.until(lambda said: "its twin at" in (rack.run_dir / "agent-h1.log").read_text())
    ask(Path(said["control"]), Clear(switch="ocs1"))
    assert is_held(rack.run_dir / "rack.json")
    assert Path(said["truth"]).exists()
    assert (await rack.end())[0] == 0
    words = await rack.words()
    assert "ERROR" not in words
    assert "files of the twin rack were gone, and were made again: " in words


async def test_rack_says_where_it_is_is_the_only_one_takes_faults_and_cleans_up(serve: Serve) -> None:
    rack = await serve()
    said = await rack.until(lambda said: True)
    assert said["pid"] == rack.process.pid
    assert list(said["addresses"]) == ["ocs1", "h0", "h1", "h2", "h3"]
    sockets = {name: str(rack.run_dir / f"h0.{name}.sock") for name in ("transfers", "select")}
    assert said["hosts"]["h0"] == {"kernel": False, "keeper": None, "agent": None, "machine": None, "sockets": sockets}
    assert rack.run_dir.stat().st_mode & 0o777 == 0o700
    assert is_held(rack.run_dir / "rack.json")

    second = await serve()
    async with asyncio.timeout(WITHIN_S):
        assert await second.process.wait() == 3
    assert f"with pid {rack.process.pid}" in await second.words()
    assert rack.said() is not None

    control = Path(said["control"])
    switch = await open_switch(said["addresses"]["ocs1"], TcpDialer(), SystemClock())
    assert isinstance(switch, CrossConnects)

    ask(control, Deny(switch="ocs1", code="SROF", text="mirror stuck"))
    with pytest.raises(DeviceError, match="SROF"):
        await change(switch, ["1A-3B"])
    await change(switch, ["1A-3B"])
    ask(control, Stick(switch="ocs1", ends=("5A",)))
    await change(switch, ["5A-6B"])
    readings = await switch.read_crossconnects(deadline_s=soon())
    assert [reading.crossconnect for reading in readings] == [Crossconnect.parse("1A-3B")]
    ask(control, Slow(switch="ocs1", seconds=5))
    with pytest.raises(DeadlineError):
        await switch.read_crossconnects(deadline_s=asyncio.get_running_loop().time() + 0.1)
    ask(control, Clear(switch="ocs1"))
    ask(control, Reset(switch="ocs1"))
    async with asyncio.timeout(WITHIN_S):
        assert isinstance(await switch.lost(), LinkError)
    await switch.close()

    wrong: list[tuple[Fault, str]] = [
        (Reset(switch="ocs9"), "no switch ocs9 in testbed small; it has ocs1"),
        (Stick(switch="ocs1", ends=("99A",)), "has no port 99A"),
    ]
    for fault, why in wrong:
        with pytest.raises(ConfigError, match=why):
            ask(control, fault)
    status, took_s = await rack.end()
    assert (status, took_s < END_WITHIN_S) == (0, True)
    left = {path.name for path in rack.run_dir.iterdir()}
    assert left == {"rack.lock", "truth.jsonl"}
    with pytest.raises(LinkError, match="Is it up"):
        ask(control, Reset(switch="ocs1"))


@pytest.mark.kernel
async def test_kernel_hosts_become_process_hosts_where_there_are_no_namespaces(serve: Serve) -> None:
    """Inside a user namespace whose own limit of network namespaces is none, which the kernel enforces."""
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    rack = await serve(
        hosts="kernel", kernel=True, inside=["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh"]
    )
    said = await rack.until(lambda said: True)
    assert not any(host["kernel"] for host in said["hosts"].values())
    assert (await rack.end())[0] == 0
    (warning,) = [line for line in (await rack.words()).splitlines() if "WARNING" in line]
    assert "its 4 kernel hosts run as process hosts: keeper: cannot make network namespaces" in warning


@pytest.mark.kernel
async def test_dead_keeper_ends_the_rack(serve: Serve) -> None:
    rack = await serve(hosts="kernel", kernel=True)
    await rack.until(lambda said: True)
    children = Path(f"/proc/{rack.process.pid}/task/{rack.process.pid}/children").read_text().split()
    assert len(children) == 1, "the keeper"
    os.kill(int(children[0]), signal.SIGKILL)
    async with asyncio.timeout(WITHIN_S):
        assert await rack.process.wait() == LinkError.exit_status
    assert "the keeper of its namespaces ended with status -9. Restart the rack" in await rack.words()
    assert rack.said() is None


@pytest.mark.kernel
async def test_kernel_hosts_have_a_keeper_and_truth_is_written(serve: Serve) -> None:
    rack = await serve(hosts="kernel", kernel=True, agents="agents")
    said = await rack.until(lambda said: all(host["agent"] for host in said["hosts"].values()))
    assert all(host["kernel"] and host["keeper"] == str(rack.run_dir / "keeper") for host in said["hosts"].values())
    switch = await open_switch(said["addresses"]["ocs1"], TcpDialer(), SystemClock())
    await change(switch, ["1A-3B", "3A-1B"])
    await switch.close()
    truth = Path(said["truth"])
    await rack.until(lambda said: truth.read_text().count('"rdma"') == 2)
    truths = [json.loads(line) for line in truth.read_text().splitlines()]
    carriers = [one for one in truths if one["what"] == "carrier"]
    assert sorted(one["port"] for one in carriers) == ["h0.eth0", "h1.eth0"]
    assert all(one["before_ns"] < one["after_ns"] for one in carriers)
    status, took_s = await rack.end()
    assert (status, took_s < END_WITHIN_S) == (0, True)
