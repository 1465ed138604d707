"""The systemd unit of the agent on one host: the agent's own, with what this host needs."""

from collections.abc import Collection
from importlib.resources import files
from typing import Final

from hwd.rollout.layout import Layout

TOOL_CAPABILITIES: Final = "CAP_SYS_RAWIO CAP_SYS_ADMIN"
"""`mlxlink` and `mstlink` map the registers of the NIC."""
PCI: Final = "/sys/devices"
"""The place of these registers as files, `config` and `resource0` of the PCI device: /sys is otherwise read-only."""


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
