"""`hwd agent` on fresh hosts with a real systemd, without pip, venv or a way to the internet: the whole circle as a new
operator would.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import pytest

from hwd.bus.broker import EmbeddedBroker
from hwd.rollout.births import Births

from ..machines.fixtures import Machines
from ..machines.image import Image
from ..machines.machine import HOST_IP, Boot, Machine
from ..system.job_rack import install_plane

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(1500)]

PASSWORD = "geheim42"
UNSAID = f"[{PASSWORD[0]}]{PASSWORD[1:]}"
"""A pattern that does not find itself."""
FILE = """
testbed: lab
hosts:
  h0:
    ssh: {{address: "root@{place}:{port}", key: {folder}/key, known_hosts: {folder}/known}}
    nics: {{eth0: {{interface: eth0, ip: 10.1.0.1/32, module: 100g-lr4}}}}
  h1:
    ssh: root@127.0.0.1:1
    nics: {{eth0: {{interface: eth0, ip: 10.1.0.2/32, module: 100g-lr4}}}}
jobs:
  probe:
    command: [/opt/hwd-agent/current/bin/python, {program}]
    user: root
    hosts: [h0]
    plane: free
"""
FREE = """
from hwd.model.plane import Grant, Intent, PlaneKind

class Free:
    def targets(self, job, view):
        return {}

    def on(self, event):
        return [Grant(ranks=(event.rank,))] if isinstance(event, Intent) else []

FREE = PlaneKind(make=lambda arguments: Free())
"""
"""A plane that lets everybody go."""
PROGRAM = "/root/rank.py"
RANK = """
from hwd_agents.shim import Rank
with Rank.from_environment() as rank, rank.operation("world", "barrier", within_s=5.0):
    print("rank", rank.number, "may go", flush=True)
"""
LIST = (
    "find / -xdev -not -path '/var/log/*' -not -path '/root/*' -not -path '/var/lib/systemd/*' -not "
    "-path '*/tmp/systemd-private*' | sort"
)
"""What logins and systemd write by themselves is no trace of ours."""


@dataclass(slots=True)
class Operator:
    """Runs `hwd` as a process. `ahead`: with an agent of another version, as the operator's machine has it after its
    own upgrade.
    """

    folder: Path
    environment: dict[str, str]
    births: Births
    host: Machine

    async def hwd(self, verb: str, *hosts: str, ahead: Path | None = None, broker: str | None = None) -> "Said":
        environment = self.environment if broker is None else {**self.environment, "HWD_BROKER": broker}
        if ahead is not None:
            paths = [str(ahead), *filter(None, [environment.get("PYTHONPATH")])]
            environment = {**environment, "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, "-m", "hwd.cli", "agent", verb, *(hosts or ("h0",)), "--json"]
        process = await asyncio.create_subprocess_exec(
            *command,
            "--testbed",
            str(self.folder / "lab.yaml"),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        said = err.decode()
        if "cannot be fetched" in said:
            pytest.skip(f"needs a package index: {said.strip().splitlines()[-1]}")
        assert PASSWORD not in said + out.decode()
        return Said(status=process.returncode or 0, err=said, data=json.loads(out))

    async def job(self, *words: str) -> tuple[int, str]:
        """Exit status and output of `hwd job`."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hwd.cli", "job", *words), env=self.environment, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        return process.returncode or 0, out.decode()

    async def on_host(self, command: str) -> str:
        return (await self.host.run("sh", "-c", command, within_s=400)).out.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    status: int
    err: str
    data: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        """Of the first host."""
        return self.data["hosts"][0][key]

    @property
    def red(self) -> list[tuple[str, str]]:
        return [(one["subject"], one["text"]) for one in self["findings"] if one["light"] == "red"]


@asynccontextmanager
async def operating(
    machines: Machines, folder: Path, cache: Path, *, through: tuple[str, ...] = ()
) -> AsyncIterator[Operator]:
    """A fresh host that takes the operator's key, and a broker with a password."""
    (folder / "ssh").mkdir()
    for name in ("ssh/ssh_host_ed25519_key", "key"):
        keygen = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        assert await (await asyncio.create_subprocess_exec(*keygen)).wait() == 0
    luggage = {"etc/ssh": folder / "ssh", "root/authorized_keys": folder / "key.pub"}
    host = machines.start("fresh", boot=Boot.SYSTEMD, luggage=luggage, through=through)
    broker = EmbeddedBroker(users={"hwd": PASSWORD})
    url = (await broker.start()).replace("//", f"//hwd:{PASSWORD}@")
    try:
        await host.up(within_s=400)
        place, port = host.ssh
        key = (folder / "ssh/ssh_host_ed25519_key.pub").read_text()
        (folder / "known").write_text(f"[{place}]:{port} {key}")
        (folder / "lab.yaml").write_text(FILE.format(place=place, port=port, folder=folder, program=PROGRAM))
        install_plane(folder / "planes", "free", FREE)
        environment = {
            **os.environ,
            "HWD_BROKER": url.replace("127.0.0.1", HOST_IP),
            "HWD_RUN_DIR": str(folder / "run"),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(folder / "planes"), os.environ.get("PYTHONPATH")))),
            "XDG_CACHE_HOME": str(cache),
        }
        async with serving(folder, url, environment), Births.open("lab", url) as births:
            yield Operator(folder=folder, environment=environment, births=births, host=host)
    finally:
        await broker.close()


@asynccontextmanager
async def serving(folder: Path, url: str, environment: dict[str, str]) -> AsyncIterator[None]:
    """The daemon of the testbed, which knows the broker by another address than hosts do."""
    log = os.open(folder / "serve.log", os.O_WRONLY | os.O_CREAT)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hwd.cli", "serve", str(folder / "lab.yaml"), "--data"),
        *(str(folder / "data"), "--http", "127.0.0.1:0"),
        env={**environment, "HWD_MQTT": url},
        stderr=log,
    )
    os.close(log)
    try:
        async with asyncio.timeout(60):
            while not (folder / "run/lab/daemon.json").exists():
                assert process.returncode is None, (folder / "serve.log").read_text()
                await asyncio.sleep(0.1)
        yield
    finally:
        process.terminate()
        await process.wait()


def ahead(folder: Path, number: str, **changes: tuple[str, str]) -> Path:
    """The agent of another version, as a source tree that comes first on the path: {file: (what stands
    there, what shall)}.
    """
    installed = distribution("hwd-agents")
    source = Path(__file__).parents[2] / "agents" / "hwd_agents"
    target = folder / "hwd_agents"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    info = folder / f"hwd_agents-{number}.dist-info"
    info.mkdir()
    metadata = installed.read_text("METADATA")
    assert metadata is not None
    (info / "METADATA").write_text(metadata.replace(f"\nVersion: {installed.version}\n", f"\nVersion: {number}\n"))
    (info / "entry_points.txt").write_text(installed.read_text("entry_points.txt") or "")
    for name, (old, new) in changes.items():
        path = target / "process" / f"{name}.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    return folder


@pytest.fixture
def cache(request: pytest.FixtureRequest) -> Path:
    """Wheels are kept from one run of the tests to the next."""
    assert request.config.cache is not None
    return request.config.cache.mkdir("hwd-rollout")


async def test_a_fresh_host_is_deployed_to_examined_upgraded_rolled_back_and_left_as_it_was(
    machines: Machines, tmp_path: Path, cache: Path
) -> None:
    async with operating(machines, tmp_path, cache) as operator:
        births = operator.births
        before = (await operator.on_host(LIST)).splitlines()

        walled = await operator.hwd("deploy", broker=f"mqtt://hwd:{PASSWORD}@{HOST_IP}:9")
        assert (walled.status, walled["result"]) == (4, "failed")
        assert f"h0: it cannot reach the broker at mqtt://hwd@{HOST_IP}:9" in walled["why"]
        assert (await operator.on_host(LIST)).splitlines() == before, "it was not touched"

        first = await operator.hwd("deploy", "h0", "h1")
        assert first.status == 4, "h1 is nowhere"
        assert [one["result"] for one in first.data["hosts"]] == ["done", "failed"]
        assert births.is_up("h0")
        boot = births.boot("h0")
        assert await operator.on_host("systemctl is-enabled hwd-agent") == "enabled"
        assert await operator.on_host("stat -c %a,%U /etc/hwd/agent.yaml") == "600,root"
        assert await operator.on_host(f"grep -l '{UNSAID}' /proc/[0-9]*/cmdline || true") == ""
        assert await operator.on_host(f"journalctl -o cat | grep -c '{UNSAID}' || true") == "0"

        second = await operator.hwd("deploy")
        assert (second.status, second["result"], births.boot("h0")) == (0, "already", boot), second["why"]

        doctor = await operator.hwd("doctor")
        assert (doctor.status, doctor.red) == (0, [])

        # A job whose rank runs there, and asks its plane by its agent.
        await operator.on_host(f"cat > {PROGRAM} << 'END'\n{RANK}\nEND")
        status, out = await operator.job("run", "probe", "--json")
        assert status == 0, out
        job = json.loads(out)
        assert (job["state"], job["why"]) == ("succeeded", "")
        assert await operator.job("logs", job["id"], "--rank", "0") == (0, "rank 0 may go\n")

        # An agent file whose agent is never heard of: the one before is put back.
        agent_file = await operator.on_host("sha256sum /etc/hwd/agent.yaml")
        wrong = await operator.hwd("deploy", broker=operator.environment["HWD_BROKER"].replace(PASSWORD, "other"))
        assert (wrong.status, wrong["result"]) == (1, "rolled-back"), wrong["why"]
        assert "what was deployed did not come out" in wrong["why"]
        assert await operator.on_host("sha256sum /etc/hwd/agent.yaml") == agent_file
        boot = (await births.born("h0", after=boot, within_s=60)).boot

        # Two operators at once: the second is refused.
        first, other = await asyncio.gather(operator.hwd("deploy"), operator.hwd("deploy"))
        assert sorted([first.status, other.status]) in ([0, 3], [0, 0]), (first["why"], other["why"])
        assert all(one.status == 0 or "another roll-out to it is in progress" in one["why"] for one in (first, other))

        # A loop that hangs is killed by systemd, and the agent lives again.
        await operator.on_host("kill -STOP $(systemctl show hwd-agent -p MainPID --value)")
        birth = await births.born("h0", after=boot, within_s=120)
        assert (await operator.on_host("journalctl -u hwd-agent -o cat")).count("Watchdog timeout") == 1

        # A version whose agent is never heard of: what was before runs again, and that is said.
        mute = ahead(
            tmp_path / "mute",
            "0.2.0",
            agent=(
                "async def _publish_birth(self) -> None:",
                "async def _publish_birth(self) -> None:\n        return",
            ),
        )
        failed = await operator.hwd("upgrade", ahead=mute)
        assert (failed.status, failed["result"]) == (1, "rolled-back")
        assert "the upgrade did not come out" in failed["why"]
        again = await births.born("h0", after=birth.boot, within_s=60)
        assert again.version == version("hwd-agents")
        assert (await operator.hwd("deploy"))["result"] == "already"

        good = ahead(tmp_path / "good", "0.2.0")
        upgraded = await operator.hwd("upgrade", ahead=good)
        assert (upgraded.status, upgraded["result"], upgraded["version"]) == (0, "done", "0.2.0")
        assert births.birth["h0"].version == "0.2.0"

        await operator.on_host("systemctl stop hwd-agent")
        ill = await operator.hwd("doctor")
        assert (
            ill.status,
            ("unit", "it was stopped. Start it: systemctl start hwd-agent, or hwd agent deploy h0") in ill.red,
        ) == (1, True)

        gone = await operator.hwd("remove")
        assert (gone.status, gone["result"]) == (0, "done")
        assert (await operator.on_host(LIST)).splitlines() == before
        assert await operator.on_host("systemctl list-unit-files 'hwd-agent*' --no-legend || true") == ""
        assert (await operator.hwd("remove"))["result"] == "already"


@pytest.fixture
def journalled(machine_image: Image, tmp_path: Path) -> Iterator[Machines]:
    """Machines whose disk is as that of real hosts: what its file system is survives a power cut."""
    disk = tmp_path / "disk"
    subprocess.run(["cp", "--sparse=always", machine_image.disk, disk], check=True, timeout=120)
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    subprocess.run(["tune2fs", "-j", disk], check=True, timeout=120, capture_output=True, env={"PATH": path})
    with Machines(replace(machine_image, disk=disk)) as made:
        yield made


async def test_a_host_whose_power_fails_during_the_install_is_finished_by_the_next_deploy(
    journalled: Machines, tmp_path: Path, cache: Path
) -> None:
    async with operating(
        journalled, tmp_path, cache, through=("sh", "-c", 'exec "$@" -action reboot=reset', "sh")
    ) as operator:
        cut = asyncio.create_task(operator.hwd("deploy"))
        await operator.on_host(
            "until ls /opt/hwd-agent/*/lib/python3*/site-packages/msgspec 2>/dev/null; do sleep 0.5; done"
        )
        await operator.host.spawn("sh", "-c", "echo b >/proc/sysrq-trigger", log="/dev/null")
        said = await cut
        assert (said.status, said["result"]) == (4, "failed")
        await operator.host.up(within_s=400)
        doctor = await operator.hwd("doctor")
        assert [subject for subject, _ in doctor.red][:2] == ["install", "unit"]
        again = await operator.hwd("deploy")
        assert (again.status, again["result"]) == (0, "done"), again["why"]
        assert operator.births.is_up("h0")
