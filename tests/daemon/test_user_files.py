"""Every file that a user names is read through one door: a FIFO without a writer blocks none of its readers."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.cli.commands.apply import wanted_of
from hwd.client.find_token import find_token
from hwd.config.playbook.playbook import bundle_playbook, load_playbook
from hwd.config.scenario import load_scenario
from hwd.config.testbed.secrets import resolve
from hwd.config.testbed.topology_file import load_topology
from hwd.daemon.broker_choice import chosen_broker
from hwd.daemon.installed_drivers import check, load
from hwd.model.ssh import SshPlace
from hwd.model.testbed import SecretRef
from hwd.report.bundle.archive import open_bundle
from hwd.rollout.ssh.ssh_settings import SshSettings
from hwd.web.door import read_tokens
from hwd_agents.process.config import BrokerFrom, broker_url, load_config, make_config
from hwd_drivers.core.errors import HwdError
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.transports.ssh.known_hosts import KnownHosts
from hwd_drivers.transports.tls import TlsOptions, serving


def _bundle(path: Path) -> None:
    with open_bundle(path):
        pass


def _ssh_config(path: Path) -> None:
    (path.parent / ".ssh").mkdir()
    os.rename(path, path.parent / ".ssh/config")
    SshSettings.of(SshPlace.parse("root@10.0.0.1"), path.parent)


def _agent_broker(path: Path) -> None:
    config = make_config(
        {"testbed": "lab", "host": "h0", "broker": {"from": str(path)}, "ports": {"eth0": {"interface": "eth0"}}},
        where="x",
    )
    assert isinstance(config.broker, BrokerFrom)
    broker_url(config)


READERS: dict[str, Callable[[Path], object]] = {
    "testbed": lambda path: load(path).require(),
    "playbook": lambda path: load_playbook(path).require(),
    "playbook that is sent": bundle_playbook,
    "topology": lambda path: load_topology(path).require(),
    "topology of an apply": lambda path: wanted_of([str(path)]),
    "scenario": lambda path: load_scenario(path).require(),
    "secret": lambda path: resolve(SecretRef(kind="file", name=str(path)), environment={}),
    "broker": lambda path: chosen_broker(None, {"HWD_MQTT_FILE": str(path)}),
    "tokens": lambda path: read_tokens({"HWD_TOKENS_FILE": str(path)}),
    "token": lambda path: find_token(None, {"HWD_TOKEN_FILE": str(path)}),
    "bundle": _bundle,
    "agent": load_config,
    "broker of an agent": _agent_broker,
    "known hosts": lambda path: KnownHosts([path]),
    "ssh config": _ssh_config,
    "authority": lambda path: TlsOptions(tls=True, tls_ca_file=str(path)).around(MemoryDialer(MemoryNet()), "a:1"),
    "certificate of a twin": lambda path: serving(MemoryDialer(MemoryNet()), str(path)),
}


@pytest.mark.parametrize("reader", READERS)
def test_fifo_is_refused_in_a_line_by_each_reader(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    os.mkfifo(path)
    with pytest.raises(HwdError) as refusal:
        READERS[reader](path)
    assert "is no regular file, but a FIFO" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_utf_16_is_refused_in_a_line_by_each_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("testbed: lab\n", encoding="utf-16")
    for reader in ("testbed", "playbook", "topology", "scenario", "tokens", "agent"):
        with pytest.raises(HwdError, match="not UTF-8: ") as refusal:
            READERS[reader](path)
        assert "\n" not in str(refusal.value)


def test_files_of_several_kinds_are_checked_from_pipes_of_a_shell() -> None:
    """`hwd check <(...) <(...)`: each is read once."""
    host = "{twin: {}, nics: {e: {module: 100g-lr4}}}"
    testbed = f"testbed: lab\nswitches: {{}}\nhosts: {{h0: {host}, h1: {host}}}\nfibres: []\n"
    topology, playbook = "topology: t\nlinks: [h0.e <-> h9.e]\n", "playbook: p\nshows: x\nsteps: [note: x]\n"
    readers = []
    for text in (testbed, topology, playbook):
        reader, writer = os.pipe()
        readers.append(reader)
        with open(writer, "w") as file:
            file.write(text)
    try:
        problems = [str(one) for one in check([f"/dev/fd/{reader}" for reader in readers], {}) if not one.warning]
    finally:
        for reader in readers:
            os.close(reader)
    assert [one.partition("; ")[0] for one in problems] == [
        f"/dev/fd/{readers[1]}:2: links[0]: h9.e: no such NIC port in testbed lab"
    ]
