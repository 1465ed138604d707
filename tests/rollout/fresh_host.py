"""Fresh hosts with a real systemd, without pip, venv or a way to the internet, and the operator of one."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hwd.bus.broker import EmbeddedBroker
from hwd.rollout.births import Births

from ..machines.container import Container
from ..machines.door import HOST_IP
from ..system.job_rack import install_plane

PASSWORD = "geheim42"
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


@dataclass(slots=True)
class Operator:
    """Runs `hwd` as a process. `ahead`: with an agent of another version, as the operator's machine has it after its
    own upgrade.
    """

    folder: Path
    environment: dict[str, str]
    births: Births
    host: Container

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
async def operating(start: Callable[..., Container], folder: Path, cache: Path) -> AsyncIterator[Operator]:
    """A fresh host that takes the operator's key, and a broker with a password."""
    (folder / "ssh").mkdir()
    for name in ("ssh/ssh_host_ed25519_key", "key"):
        keygen = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        assert await (await asyncio.create_subprocess_exec(*keygen)).wait() == 0
    luggage = {"etc/ssh": folder / "ssh", "root/authorized_keys": folder / "key.pub"}
    host = start("fresh", luggage=luggage)
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
