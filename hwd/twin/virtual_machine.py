"""The arguments of QEMU for a virtual machine of a rack: taps, its monitor and its agent's configuration."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import yaml

from hwd.config.run_files.places import DaemonPlace, RackPlace
from hwd.model.testbed import Testbed
from hwd.twin.agent_config import agent_config
from hwd.twin.kernel import SWITCH
from hwd.twin.kernelside import NIC_PREFIX
from hwd_agents.bus.mqtt import BrokerUrl
from hwd_agents.process.config import KernelConfig, SourcesConfig, TwinConfig
from hwd_agents.sources.kernel.sockets import KeeperRequest, Verb, ask_for_descriptor
from hwd_drivers.core.errors import ConfigError, LinkError, RefusedError
from hwd_drivers.core.structs import to_plain

CONFIG_NAME: Final = "opt/hwd/agent.yaml"
"""The name of the agent's configuration in the machine: /sys/firmware/qemu_fw_cfg/by_name/<this>/raw."""
LOOPBACK: Final = ("127.", "localhost", "::1", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class QemuStart:
    """A start of QEMU with `arguments`, which must get the `descriptors` (of taps) under their numbers. `nics`: by
    port, the hardware address.
    """

    arguments: tuple[str, ...]
    descriptors: tuple[int, ...]
    nics: Mapping[str, str]


def prepare_machine(
    testbed: Testbed, host: str, *, rack: RackPlace | None, daemon: DaemonPlace | None, run_dir: Path, nic: str
) -> QemuStart:
    """Open the taps of a virtual machine, whose NICs are of the kind `nic`, and write its agent's configuration.

    Raises ConfigError, LinkError, RefusedError.
    """
    if host not in testbed.hosts:
        raise ConfigError(f"{host}: testbed {testbed.name} has no such host. It has {', '.join(testbed.hosts)}")
    twin = testbed.hosts[host].twin
    if twin is None or twin.machine is None:
        raise RefusedError(
            f"{host}: is no virtual machine in testbed {testbed.name}. Write twin: {{machine: ADDRESS}} there"
        )
    if rack is None:
        raise LinkError(f"testbed {testbed.name}: no twin rack of it is up. Start it with `hwd twin up TESTBED`")
    if daemon is None:
        raise LinkError(
            f"testbed {testbed.name}: no daemon of it is ready, and the agent of {host} needs its broker. "
            "Start it with `hwd serve TESTBED`"
        )
    entry: Mapping[str, Any] = rack.hosts[host]
    if not entry.get("machine"):
        raise RefusedError(f"{host}: is no virtual machine in the running rack (pid {rack.pid}). Restart that")
    config = run_dir / f"agent-{host}.yaml"
    config.touch(mode=0o600)  # the broker's password is in it
    config.chmod(0o600)
    config.write_text(_agent(testbed, host, twin.machine, rack.addresses[host], daemon.agents.get(host, daemon.mqtt)))
    arguments = [
        "-chardev",
        f"socket,id=hwd,path={entry['machine']['monitor']},server=on,wait=off",
        "-mon",
        "chardev=hwd,mode=control",
    ]
    arguments += ["-fw_cfg", f"name={CONFIG_NAME},file={config}"]
    descriptors: list[int] = []
    for port, plug in entry["machine"]["nics"].items():
        descriptor = _tap(Path(entry["keeper"]), plug["tap"], host)
        descriptors.append(descriptor)
        arguments += ["-netdev", f"tap,id={NIC_PREFIX}{port}-tap,fd={descriptor}"]
        arguments += ["-device", f"{nic},id={NIC_PREFIX}{port},netdev={NIC_PREFIX}{port}-tap,mac={plug['address']}"]
    nics = {port: str(plug["address"]) for port, plug in entry["machine"]["nics"].items()}
    return QemuStart(arguments=tuple(arguments), descriptors=tuple(descriptors), nics=nics)


def _agent(testbed: Testbed, host: str, here: str, twin: str, broker: str) -> str:
    """The configuration as YAML; `here` is the address of this machine as the virtual machine sees it."""
    config = agent_config(
        testbed,
        host,
        broker=_seen_from(here, broker),
        sources=SourcesConfig(
            kernel=KernelConfig(), twin=TwinConfig(address=f"{_bracketed(here)}:{twin.rpartition(':')[2]}")
        ),
        shift_clock=False,
    )
    return yaml.safe_dump(to_plain(config), sort_keys=False)


def _seen_from(here: str, url: str) -> str:
    """The URL for the machine: one on this machine's loopback is replaced by `here`."""
    broker = BrokerUrl.parse(url)
    if broker.transport == "unix":
        raise RefusedError(f"broker {broker}: a virtual machine cannot reach a Unix socket. Take mqtt://host:port")
    if not broker.host.startswith(LOOPBACK):
        return url
    user = (
        ""
        if broker.user is None
        else quote(broker.user, safe="") + (f":{quote(broker.password, safe='')}" if broker.password else "") + "@"
    )
    return f"{'mqtts' if broker.tls else 'mqtt'}://{user}{_bracketed(here)}:{broker.port}"


def _bracketed(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def _tap(keeper: Path, name: str, host: str) -> int:
    """Open a tap device so that it is inherited by QEMU."""
    try:
        descriptor = ask_for_descriptor(keeper, KeeperRequest(verb=Verb.TAP, ns=SWITCH, name=name, value="0"))
    except OSError as error:
        raise LinkError(f"{host}: cannot get its tap device {name}: {error.strerror or error}") from error
    os.set_inheritable(descriptor, True)
    return descriptor
