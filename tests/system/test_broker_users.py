"""Users of the broker in whole racks: restarts lock nobody out, no password leaks, Mosquitto has the same rules."""

import json
import signal
from pathlib import Path

import aiomqtt
import pytest

from .conftest import CROSSED, STRAIGHT, TESTBED, Lab, Mosquitto

pytestmark = pytest.mark.timeout(180)


def passwords(lab: Lab) -> list[str]:
    """Of the daemon and of the hosts, as daemon.json has them."""
    daemon = lab.said("daemon")
    assert daemon is not None
    return [url.partition("@")[0].rpartition(":")[2] for url in (daemon["mqtt"], *daemon["agents"].values())]


def others_can_read(lab: Lab) -> str:
    """Command lines and environments of all that runs here, what it logged, and the files of the agents."""
    own = [place for place in Path("/proc").glob("[0-9]*") if _runs_in(lab, place)]
    said = [(place / name).read_bytes().decode(errors="replace") for place in own for name in ("cmdline", "environ")]
    files = [*lab.folder.rglob("*.log"), *lab.folder.rglob("agent-*.yaml")]
    return "\n".join([*said, *(file.read_text(errors="replace") for file in files)])


def _runs_in(lab: Lab, place: Path) -> bool:
    try:
        return str(lab.folder) in (place / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return False  # it has ended, or is another user's


@pytest.mark.slow
async def test_a_restart_of_daemon_or_rack_locks_nobody_out_and_loses_no_event(lab: Lab) -> None:
    daemon = await lab.up()
    before = passwords(lab)
    assert len(set(before)) == 3
    seen = others_can_read(lab)
    assert "hwd-agent" in seen or "hwd_agents" in seen
    assert not [password for password in before if password in seen]
    await daemon.end(signal.SIGTERM)
    await lab.patch(CROSSED)  # while nobody listens
    await lab.patch(STRAIGHT)
    await lab.serve()
    await lab.settled()
    await lab.nothing_lost()
    assert passwords(lab) == before
    boots = {host["host"]: host["boot"] for host in (await lab.get("/api/v1/status"))["hosts"]}
    rack = lab.programs[0]
    await rack.end(signal.SIGTERM)
    await lab.until("both hosts are down", lambda now: not any(host["up"] for host in now["hosts"]))
    await lab.hwd_process("rack", "twin", "up", str(lab.testbed))
    await lab.until(
        "both hosts are up with a new life",
        lambda now: all(host["up"] and host["clock"] and host["boot"] != boots[host["host"]] for host in now["hosts"]),
    )
    await lab.no_gap()


@pytest.mark.slow
async def test_a_mosquitto_with_the_files_of_the_command_lets_in_daemon_and_agents_by_their_own_users_and_nobody_else(
    lab: Lab, mosquitto: Mosquitto
) -> None:
    await mosquitto.kill()
    lab.testbed.write_text(TESTBED.format(nic="ideal", switch="polatis-opus"))
    out = lab.folder / "mosquitto"
    said = await lab.ok("broker", "acl", str(lab.testbed), "--data", str(lab.data), "--out", str(out), "--json")
    assert json.loads(said.out)["users"] == ["lab", "lab.h0", "lab.h1"]
    assert {file.name: file.stat().st_mode & 0o777 for file in out.iterdir()} == dict.fromkeys(
        ("acl", "hwd.conf", "passwords"), 0o600
    )
    mosquitto.rules = f"include_dir {out}\n"
    await mosquitto.start()
    await lab.up(mqtt=mosquitto.url)
    await lab.nothing_lost()
    with pytest.raises(aiomqtt.MqttError):
        async with aiomqtt.Client("127.0.0.1", mosquitto.port, identifier="stranger"):
            pass
    assert not [password for password in passwords(lab) if password in others_can_read(lab)]
