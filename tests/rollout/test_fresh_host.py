"""`hwd agent` on a fresh host: the whole circle, as a new operator would."""

import asyncio
import json
import shutil
from importlib.metadata import distribution, version
from pathlib import Path

import pytest

from ..machines.door import HOST_IP
from ..machines.fixtures import Machines
from .fresh_host import PASSWORD, PROGRAM, operating

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(1500)]

UNSAID = f"[{PASSWORD[0]}]{PASSWORD[1:]}"
"""A pattern that does not find itself."""
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


async def test_a_fresh_host_is_deployed_to_examined_upgraded_rolled_back_and_left_as_it_was(
    machines: Machines, tmp_path: Path, cache: Path
) -> None:
    async with operating(machines.contain, tmp_path, cache) as operator:
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
