"""`hwd agent deploy`, `doctor`, `upgrade`, `remove` over a real SSH server, into a folder of this machine, and the
agent that was put there.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hwd.bus.broker import EmbeddedBroker
from hwd.rollout.births import Births

from .conftest import make_key
from .fresh_host import Said

FILE = """
testbed: lab
hosts:
  h0:
    ssh: {{address: "{place}", key: {key}, known_hosts: {known}}}
    nics: {{eth0: {{interface: {interface}, ip: 10.1.0.1/32, module: 100g-lr4}}}}
"""


@dataclass(slots=True)
class Lab:
    """A testbed whose host h0 is this machine, as an operator without any other rights sees it."""

    folder: Path
    server: Any
    environment: dict[str, str]

    @property
    def prefix(self) -> Path:
        return self.folder / "host"

    @property
    def testbed(self) -> Path:
        return self.folder / "lab.yaml"

    def write(self, *, interface: str = "lo") -> None:
        ssh = self.server.home / ".ssh"
        self.testbed.write_text(
            FILE.format(place=self.server.place, key=ssh / "id_ed25519", known=ssh / "known_hosts", interface=interface)
        )

    def command(self, verb: str, *more: str) -> list[str]:
        where = ["--testbed", str(self.testbed), "--prefix", str(self.prefix), "--no-start", "--json"]
        return [sys.executable, "-m", "hwd.cli", "agent", verb, "h0", *where, *more]

    def hwd(self, verb: str, *more: str) -> Said:
        done = subprocess.run(
            self.command(verb, *more), env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        if "cannot be fetched" in done.stderr:
            pytest.skip(f"needs a package index: {done.stderr.strip().splitlines()[-1]}")
        return Said(status=done.returncode, err=done.stderr, data=json.loads(done.stdout))

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*"))


@pytest.fixture
def lab(sshd: Any, tmp_path: Path, cache: Path) -> Lab:
    environment = {
        **os.environ,
        "HWD_BROKER": "mqtt://hwd:geheim@127.0.0.1:1",
        "HWD_RUN_DIR": str(tmp_path / "run"),
        "XDG_CACHE_HOME": str(cache),
    }
    lab = Lab(folder=tmp_path, server=sshd, environment=environment)
    lab.prefix.mkdir()
    lab.write()
    return lab


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_agent_is_deployed_examined_found_changed_and_removed_to_the_last_file(lab: Lab) -> None:
    before = lab.files()
    first = lab.hwd("deploy")
    assert (first.status, first["result"], first["changed"]) == (0, "done", ["agent file", "environment"])
    assert "geheim" not in first.err
    agent_file = lab.prefix / "etc/hwd/agent.yaml"
    assert agent_file.stat().st_mode & 0o777 == 0o600

    asyncio.run(_runs_and_is_born(lab))

    made = lab.files()
    second = lab.hwd("deploy")
    assert (second.status, second["result"], second["changed"]) == (0, "already", [])
    assert lab.files() == made

    lab.write(interface="ens9")
    ill = lab.hwd("doctor")
    findings = {one["subject"]: (one["light"], one["text"]) for one in ill["findings"]}
    assert ill.status == 1
    assert findings["agent file"] == ("red", f"{agent_file} is not what the testbed file says now: hwd agent deploy h0")
    assert findings["install"][0] == "green"
    assert findings["broker"][0] == "red"
    third = lab.hwd("deploy")
    assert (third.status, third["changed"]) == (0, ["agent file"])
    assert "has no interface ens9 now" in third.err

    gone = lab.hwd("remove")
    assert (gone.status, gone["result"]) == (0, "done")
    assert lab.files() == before
    assert lab.hwd("remove")["result"] == "already"


async def _runs_and_is_born(lab: Lab) -> None:
    """The agent that was put there, started by hand: with the environment's own Python, and nothing of this
    source tree.
    """
    broker = EmbeddedBroker()
    url = await broker.start()
    config = lab.folder / "by-hand.yaml"
    text = (lab.prefix / "etc/hwd/agent.yaml").read_text()
    config.write_text(text.replace("mqtt://hwd:geheim@127.0.0.1:1", url))
    program = lab.prefix / "opt/hwd-agent/current/bin/hwd-agent"
    try:
        async with Births.open("lab", url) as births:
            process = await asyncio.create_subprocess_exec(program, "--config", config, "--log", "error", cwd="/")
            try:
                birth = await births.born("h0", after=None, within_s=30)
                assert birth.ports["eth0"].present
                assert birth.ports["eth0"].sources["link"].sees == ["carrier", "interface"]
            finally:
                process.send_signal(signal.SIGTERM)
                await process.wait()
            assert process.returncode == 0
            await births.forget("h0")
        async with Births.open("lab", url) as later:
            assert (later.birth, later.state) == ({}, {})
    finally:
        await broker.close()


def test_a_host_whose_key_has_changed_is_not_touched(lab: Lab) -> None:
    known = lab.server.home / ".ssh" / "known_hosts"
    make_key(lab.folder / "other")
    key = " ".join((lab.folder / "other.pub").read_text().split()[:2])
    known.write_text(lab.server.known.replace(lab.server.host_key, key))
    refused = lab.hwd("deploy")
    assert (refused.status, refused["result"]) == (2, "failed")
    assert "Either the host was reinstalled, or another machine answers in its place" in refused.err
    assert lab.files() == []


@pytest.mark.slow
def test_an_upgrade_of_nothing_and_a_deploy_over_another_version_are_refused_with_the_remedy(lab: Lab) -> None:
    refused = lab.hwd("upgrade")
    assert (refused.status, refused["why"]) == (3, "h0: has no agent that could be upgraded: hwd agent deploy h0")
    assert lab.files() == []


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("words", ["copied", "making the environment", "installing the wheels"])
def test_a_deploy_that_was_cut_off_is_finished_by_the_next(lab: Lab, words: str) -> None:
    """The operator's machine dies, and the host with all that it was doing."""
    process = subprocess.Popen(lab.command("deploy"), env=lab.environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            break
    else:
        pytest.skip("needs a package index")
    lab.server.hang_up()
    process.kill()
    process.communicate()
    again = lab.hwd("deploy")
    assert (again.status, again["result"]) == (0, "done")
    (environment,) = [path for path in (lab.prefix / "opt/hwd-agent").iterdir() if not path.is_symlink()]
    assert (environment / "complete.json").exists()
    said = subprocess.run([environment / "bin/hwd-agent", "--help"], capture_output=True, text=True, timeout=30)
    assert said.returncode == 0
