"""The files of the agent on one host: the agent file, made from the testbed, and its systemd unit."""

from collections.abc import Collection
from importlib.resources import files
from typing import Any, Final

import yaml

from hwd.bus.module_timings import declared_timings
from hwd.fabric.host_ports import ports_behind
from hwd.model.testbed import Host, Switch, Testbed
from hwd.rollout.layout import Layout
from hwd_agents.process.config import make_config
from hwd_agents.transfers import SOCKET
from hwd_drivers.core.errors import ConfigError

HEAD: Final = "# Made by `hwd agent` from the testbed {testbed}: the next `hwd agent deploy` overwrites changes.\n"
TOOL_CAPABILITIES: Final = "CAP_SYS_RAWIO CAP_SYS_ADMIN"
"""`mlxlink` and `mstlink` map the registers of the NIC."""
PCI: Final = "/sys/devices"
"""The place of these registers as files, `config` and `resource0` of the PCI device: /sys is otherwise read-only."""


def make_agent_file(testbed: Testbed, host: Host, *, broker: str, layout: Layout) -> bytes:
    """Raises ConfigError where the testbed lacks what an agent needs."""
    if not host.ports:
        raise ConfigError(f"{host.name}: has no NIC ports in testbed {testbed.name}: there is nothing to watch")
    ports: dict[str, Any] = {}
    for port in host.ports:
        ports[port.id.port] = entry = {"interface": port.interface, "lanes": port.module.lanes}
        entry |= {"dark_dbm": round(port.module.los_assert_dbm, 2)}
        entry |= {key: value for key, value in (("ip", port.ip), ("rdma", port.rdma)) if value is not None}
    data: dict[str, Any] = {"testbed": testbed.name, "host": host.name, "broker": broker, "ports": ports}
    if timings := declared_timings(host):
        data["modules"] = {
            part: {
                key: value for key, value in (("los_s", one.los_s), ("monitor_s", one.monitor_s)) if value is not None
            }
            for part, one in timings.items()
        }
    if owned := owned_switches(testbed, host):
        data["switches"] = {switch.name: _switch(testbed, host, switch) for switch in owned}
        if host.jobs is not None:
            data["selection"] = {"group": host.jobs}
    data["transfers"] = {"socket": f"unix:{SOCKET}"}
    if host.jobs is not None:
        data["transfers"]["group"] = host.jobs
    if layout.prefix:
        data["spool"] = {"directory": layout.state}
    make_config(data, where=f"agent file of {host.name}")
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return (HEAD.format(testbed=testbed.name) + text).encode()


def make_unit(layout: Layout, *, tools: Collection[str], sets_group: bool) -> bytes:
    """`tools`: those of the NIC's vendor that are installed there. `sets_group`: whether the agent gives its sockets to
    the group of the host's jobs.
    """
    standard = Layout()
    text = files("hwd_agents").joinpath("hwd-agent.service").read_text(encoding="utf-8")
    if layout.prefix:
        text = text.replace("StateDirectory=hwd-agent\nStateDirectoryMode=0750", f"ReadWritePaths={layout.state}")
        text = text.replace(standard.root, layout.root).replace(standard.config, layout.config)
    if tools:
        bounds = "CAP_SYS_NICE CAP_IPC_LOCK"
        text = text.replace(bounds, f"{bounds} {TOOL_CAPABILITIES}").replace("@privileged @resources", "@resources")
        text = text.replace("ProtectKernelTunables=yes", f"ProtectKernelTunables=yes\nReadWritePaths={PCI}")
    if sets_group:
        bounds = "CAP_SYS_NICE CAP_IPC_LOCK"
        text = text.replace(bounds, f"{bounds} CAP_CHOWN").replace(
            "SystemCallFilter=adjtimex", "SystemCallFilter=@chown adjtimex"
        )
    return text.encode()


def owned_switches(testbed: Testbed, host: Host) -> tuple[Switch, ...]:
    """Switches that only this host drives."""
    return tuple(switch for switch in testbed.switches.values() if switch.owner == host.name)


def sets_group(testbed: Testbed, host: Host) -> bool:
    """Whether its agent gives a socket to the group of its jobs."""
    return host.jobs is not None or bool(owned_switches(testbed, host))


def _switch(testbed: Testbed, host: Host, switch: Switch) -> dict[str, Any]:
    if switch.address is None:
        raise ConfigError(f"{switch.name}: is owned by {host.name} and has no address: write where its lines are")
    data: dict[str, Any] = {"driver": switch.driver, "model": switch.model, "address": switch.address}
    data["ports"] = [*ports_behind(testbed, host.name)[switch.name]]
    if switch.size is not None:
        data["size"] = switch.size
    if switch.options:
        data["options"] = dict(switch.options)
    if switch.login_user is not None:
        data["user"] = switch.login_user
    if (secret := switch.login_password) is not None:
        if secret.kind != "file":
            raise ConfigError(
                f"{switch.name}: its password is in {secret} of this machine, and {host.name} drives it. "
                "Put it in a file there, and write password: {{file: PATH}}"
            )
        data["password_file"] = secret.name
    return data
