"""Machines start, do what they are told, keep nothing, and end with the tests."""

import asyncio
from pathlib import Path

import pytest

from .fixtures import Machines
from .machine import cable

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(900)]

ADDRESSES = ("02:00:00:00:00:01", "02:00:00:00:00:02")


async def test_two_machines_on_a_cable_reach_each_other_over_rdma(machines: Machines) -> None:
    both = [machines.start(name, nics=[nic]) for name, nic in zip(("h0", "h1"), cable("data", *ADDRESSES), strict=True)]
    await asyncio.gather(*(machine.up() for machine in both))
    for number, machine in enumerate(both, start=1):
        await machine.run("modprobe", "-a", "rdma_rxe", "ib_uverbs")
        await machine.run("ip", "addr", "add", f"10.1.0.{number}/24", "dev", "data")
        await machine.run("ip", "link", "set", "data", "up")
        await machine.run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "data")
    server = asyncio.create_task(both[0].run("ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "10"))
    client = await both[1].run(
        "sh", "-c", "until ibv_rc_pingpong -d rxe0 -g 1 -n 10 10.1.0.1; do sleep 0.2; done", within_s=30
    )
    assert "10 iters" in client.out
    assert "10 iters" in (await server).out
    carrier = "/sys/class/net/data/carrier"
    assert await both[0].read(carrier) == b"1\n"
    both[0].monitor.set_carrier("data", False)
    await both[0].run("sh", "-c", f"while [ $(cat {carrier}) = 1 ]; do sleep 0.02; done")
    assert (await both[1].read(carrier)) == b"1\n"


async def test_a_fresh_host_has_systemd_and_an_ssh_server_and_no_way_out(machines: Machines, tmp_path: Path) -> None:
    (tmp_path / "ssh").mkdir()
    for name in ("ssh/ssh_host_ed25519_key", "key"):
        await _do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name))
    luggage = {"etc/ssh": tmp_path / "ssh", "root/authorized_keys": tmp_path / "key.pub"}
    host = machines.contain("fresh", luggage=luggage)
    await host.up()
    place, port = host.ssh
    key = (tmp_path / "ssh/ssh_host_ed25519_key.pub").read_text()
    (tmp_path / "known").write_text(f"[{place}]:{port} {key}")
    options = ["-F", "none", "-i", str(tmp_path / "key"), "-p", str(port)]
    options += [f"-oUserKnownHostsFile={tmp_path / 'known'}", "-oBatchMode=yes", "-oConnectTimeout=30"]
    asked = "systemctl is-system-running --wait; python3 -m venv x 2>&1; python3 -m pip 2>&1; ip route"
    said = await _do("ssh", *options, f"root@{place}", asked)
    assert said.startswith("running\n")
    assert "ensurepip is not" in said
    assert "No module named pip" in said
    assert "default" not in said


async def test_a_command_that_takes_too_long_is_killed_in_the_machine(machines: Machines) -> None:
    host = machines.start("h0")
    await host.up()
    with pytest.raises(TimeoutError, match="h0: sleep 1000: not done within 1 s"):
        await host.run("sleep", "1000", within_s=1)
    await host.run("sh", "-c", "while pgrep -x sleep; do :; done")
    await host.copy(Path(__file__).parent / "guest", "/root/copied")
    assert await host.read("/root/copied/door.py") == (Path(__file__).parent / "guest/door.py").read_bytes()


async def _do(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(120):
        out, _ = await process.communicate()
    return out.decode()
