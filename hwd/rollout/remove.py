"""Removal: removes an agent and all that belongs to it from hosts and from the broker."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hwd.model.testbed import Host, Testbed
from hwd.rollout.births import Births
from hwd.rollout.host_report import HostReport, Progress, Result, in_turn
from hwd.rollout.layout import Layout
from hwd.rollout.remote import RemoteHost
from hwd_drivers.core.errors import HwdError, LinkError


@dataclass(slots=True, kw_only=True)
class Removal:
    """The removal of agents; `keep_spool`: leave events that the daemon has not acknowledged. `leave_settings`: leave
    settings that runs have made. `broker`: None: leave the broker alone.
    """

    testbed: Testbed
    broker: str | None
    layout: Layout
    progress: Progress
    keep_spool: bool = False
    leave_settings: bool = False
    home: Path | None = None

    async def run(self, hosts: Sequence[Host]) -> tuple[tuple[HostReport, ...], HwdError | None]:
        """A report for each host, and the error that stopped it."""
        return await in_turn(hosts, "remove", self._host)

    async def _host(self, host: Host) -> HostReport:
        async with RemoteHost.open(host, self.layout, self.progress, home=self.home) as remote, remote.exclude_others():
            done = await remote.do("remove", keep_spool=self.keep_spool, leave_settings=self.leave_settings)
        changed = [f"restored {one}" for one in done["back"]] + [f"removed {path}" for path in done["removed"]]
        if self.broker is not None:
            try:
                async with Births.open(self.testbed.name, self.broker) as births:
                    if host.name in births.birth or host.name in births.state:
                        await births.forget(host.name)
                        changed.append("cleared its birth at the broker")
            except LinkError as error:
                done_there = f": {', '.join(changed)}" if changed else ""
                raise LinkError(
                    f"{host.name}: nothing is left there{done_there}. "
                    f"The broker's retained messages of it remain: {error} "
                    f"Then: hwd agent remove {host.name}"
                ) from error
        return HostReport(host=host.name, result=Result.DONE if changed else Result.ALREADY, changed=tuple(changed))
