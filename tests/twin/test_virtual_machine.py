"""What a virtual machine of a rack is started with, and why it is not."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hwd.config.run_files.places import DaemonPlace, RackPlace
from hwd.config.testbed.testbed import load_testbed
from hwd.model.testbed import Testbed
from hwd.twin.kernel import SWITCH, Keeper
from hwd.twin.virtual_machine import prepare_machine
from hwd_agents.process.config import load_config
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import HwdError

from .conftest import specs

FILE = """testbed: lab
switches: {ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal}}}
hosts:
  h0: {twin: {machine: 10.0.2.2}, nics: {data0: {interface: eth0, rdma: rxe0, ip: 10.1.0.1/24, module: 100g-lr4}}}
  h1: {twin: {}, nics: {eth0: {module: 100g-lr4}}}
"""
DAEMON = DaemonPlace(testbed="lab", pid=1, http="http://127.0.0.1:1", mqtt="mqtt://u:p%40@127.0.0.1:1883", data_dir="d")


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    path = tmp_path / "testbed.yaml"
    path.write_text(FILE)
    return load_testbed(path, specs()).require()


@pytest.fixture
def rack(tmp_path: Path) -> RackPlace:
    nics: dict[str, Json] = {"data0": {"tap": "fibre1", "address": "02:00:00:00:00:01"}}
    entry: dict[str, Json] = {
        "keeper": str(tmp_path / "run/keeper"),
        "machine": {"monitor": str(tmp_path / "h0.monitor"), "nics": nics},
    }
    return RackPlace(testbed="lab", pid=7, addresses={"h0": "127.0.0.1:40001"}, hosts={"h0": entry})


@pytest.mark.kernel
@pytest.mark.skipif(not os.access("/dev/net/tun", os.R_OK | os.W_OK), reason="needs /dev/net/tun")
async def test_qemu_gets_taps_a_monitor_and_the_agents_configuration(
    testbed: Testbed, rack: RackPlace, tmp_path: Path
) -> None:
    async with Keeper() as keeper:
        await keeper.start([], tmp_path / "run")
        os.close(keeper.tap(SWITCH, "fibre1", 1_000_001))
        joining = prepare_machine(testbed, "h0", rack=rack, daemon=DAEMON, run_dir=tmp_path, nic="e1000e")
    (tap,) = joining.descriptors
    assert os.get_inheritable(tap)
    os.close(tap)
    config = tmp_path / "agent-h0.yaml"
    assert joining.arguments == (
        "-chardev",
        f"socket,id=hwd,path={tmp_path}/h0.monitor,server=on,wait=off",
        "-mon",
        "chardev=hwd,mode=control",
        "-fw_cfg",
        f"name=opt/hwd/agent.yaml,file={config}",
        "-netdev",
        f"tap,id=hwd-data0-tap,fd={tap}",
        "-device",
        "e1000e,id=hwd-data0,netdev=hwd-data0-tap,mac=02:00:00:00:00:01",
    )
    assert config.stat().st_mode & 0o077 == 0
    agent = load_config(config)
    assert agent.broker == "mqtt://u:p%40@10.0.2.2:1883"
    assert agent.sources.kernel is not None
    assert agent.sources.kernel.keeper is None
    assert agent.sources.twin is not None
    assert agent.sources.twin.address == "10.0.2.2:40001"
    assert agent.clock is None
    assert (agent.ports["data0"].interface, agent.ports["data0"].rdma) == ("eth0", "rxe0")


@pytest.mark.parametrize(
    ("host", "change", "words"),
    [
        ("h7", "", "h7: testbed lab has no such host. It has h0, h1"),
        ("h1", "", r"h1: is no virtual machine in testbed lab. Write twin: \{machine: ADDRESS\} there"),
        ("h0", "rack", "testbed lab: no twin rack of it is up. Start it with `hwd twin up TESTBED`"),
        ("h0", "daemon", "and the agent of h0 needs its broker. Start it with `hwd serve TESTBED`"),
        ("h0", "old", r"h0: is no virtual machine in the running rack \(pid 7\). Restart that"),
        ("h0", "unix", "broker unix:/run/b: a virtual machine cannot reach a Unix socket. Take mqtt://host:port"),
        ("h0", "", "h0: cannot get its tap device fibre1: "),
    ],
)
def test_what_is_missing_is_said(
    testbed: Testbed, rack: RackPlace, tmp_path: Path, host: str, change: str, words: str
) -> None:
    daemon: DaemonPlace | None = DAEMON
    up: RackPlace | None = rack
    match change:
        case "rack":
            up = None
        case "daemon":
            daemon = None
        case "old":
            up = replace(rack, hosts={"h0": {"kernel": True, "keeper": None, "machine": None}})
        case "unix":
            daemon = replace(DAEMON, mqtt="unix:/run/b")
    with pytest.raises(HwdError, match=words):
        prepare_machine(testbed, host, rack=up, daemon=daemon, run_dir=tmp_path, nic="virtio-net-pci")


def test_the_url_of_a_remote_broker_is_passed_unchanged(testbed: Testbed, rack: RackPlace, tmp_path: Path) -> None:
    daemon = replace(DAEMON, mqtt="mqtts://broker.lab:8883")
    with pytest.raises(HwdError, match="cannot get its tap device"):
        prepare_machine(testbed, "h0", rack=rack, daemon=daemon, run_dir=tmp_path, nic="virtio-net-pci")
    assert load_config(tmp_path / "agent-h0.yaml").broker == "mqtts://broker.lab:8883"
