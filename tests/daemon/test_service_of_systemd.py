"""The daemon as a service of systemd that is process 1, in a container; its switch is a twin of this machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Capabilities
from hwd_drivers.devices import registry
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.registry import Twin, twin_of
from hwd_drivers.twins.timing import find_timing

from ..machines.agent import missing_for_agent, pack_daemon
from ..machines.door import HOST_IP, Guest
from ..machines.fixtures import Machines

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(900)]

TESTBED = """\
testbed: lab
switches:
  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, address: "{address}",
         login: {{user: admin, password: {{env: OCS1_PASSWORD}}}}}}
hosts: {{}}
fibres: []
"""
PROGRAM = """\
#!/bin/sh
PYTHONPATH=/mnt/hwd exec /usr/bin/python3 -m hwd.cli "$@"
"""
START_WITHIN_S = 60.0
CONFIRM_S = 15


class Host:
    """The machine with the service."""

    def __init__(self, machine: Guest, twin: Twin) -> None:
        self.machine = machine
        self._twin = twin

    @property
    def light(self) -> list[str]:
        """The crossconnects that the mirrors of the twin really have."""
        readings = self._twin.mirror.readings(SystemClock().monotonic_ns())
        return [str(one.crossconnect) for one in readings]

    async def run(self, command: str, *, status: int | None = 0) -> str:
        said = await self.machine.run("sh", "-c", f"exec 2>&1; {command}", within_s=START_WITHIN_S, status=status)
        return said.out

    async def hwd(self, command: str) -> str:
        reach = "HWD_URL=http://127.0.0.1:8642 HWD_TOKEN_FILE=/var/lib/hwd/lab/token"
        return await self.run(f"{reach} hwd {command}")

    async def show(self, property: str) -> str:
        return (await self.run(f"systemctl show hwd-lab --value -p {property}")).strip()

    async def until_restarted(self, main: str) -> str:
        """Until another process than `main` is ready; returns its pid."""
        await self.run(
            f"until p=$(systemctl show hwd-lab --value -p MainPID) && [ $p != {main} ] && [ $p != 0 ] && "
            "systemctl is-active -q hwd-lab; do sleep 0.5; done"
        )
        return await self.show("MainPID")

    async def journal(self) -> str:
        return await self.run("journalctl -u hwd-lab -o cat --no-pager")


@asynccontextmanager
async def operating(machines: Machines, folder: Path) -> AsyncIterator[Host]:
    clock = SystemClock()
    spec = registry.find("polatis-tl1")
    twin = twin_of(spec).make(
        name="ocs1",
        capabilities=_capabilities(),
        timing=find_timing("ideal"),
        draws=Draws(1),
        clock=clock,
        dialer=TcpDialer(),
        address="127.0.0.1:0",
        options={},
    )
    address = await twin.start()
    try:
        machine = machines.contain("service", luggage={"hwd": pack_daemon(folder / "packed")})
        await machine.up(within_s=400)
        await machine.write("/usr/local/bin/hwd", PROGRAM.encode())
        await machine.run("chmod", "755", "/usr/local/bin/hwd")
        await machine.write("/etc/hwd/lab.env", b"OCS1_PASSWORD=secret\n")
        await machine.write("/etc/hwd/lab.yaml", TESTBED.format(address=address.replace("127.0.0.1", HOST_IP)).encode())
        yield Host(machine, twin)
    finally:
        await twin.close()


def _capabilities() -> Capabilities:
    from hwd.daemon.installed_drivers import load_text

    bed = load_text(TESTBED.format(address="10.0.0.1:3082"), file="lab.yaml").require()
    return bed.switches["ocs1"].capabilities


async def test_a_service_is_ready_reloads_comes_back_and_leaves_a_wait_for_a_confirm(
    machines: Machines, tmp_path: Path
) -> None:
    if why := missing_for_agent():
        pytest.skip(why)
    async with operating(machines, tmp_path) as host:
        said = await host.run("hwd install-service /etc/hwd/lab.yaml")
        assert "next: systemctl daemon-reload && systemctl enable --now hwd-lab" in said
        await host.run("systemctl daemon-reload && systemctl enable --now hwd-lab")
        assert await host.show("ActiveState") == "active"
        await host.run("until systemctl show hwd-lab -p StatusText | grep -q 'testbed lab: ready'; do sleep 0.2; done")
        main = await host.show("MainPID")
        assert (await host.run(f"stat -c %u /proc/{main}")).strip() != "0"
        assert "CapEff:\t0000000000000000" in await host.run(f"cat /proc/{main}/status")

        # A changed file is taken; one with errors is not, and the service goes on.
        await host.run("echo 'ports: {ocs1.3: {state: maintenance, why: dirty}}' >>/etc/hwd/lab.yaml")
        await host.run("systemctl reload hwd-lab")
        assert "reloaded: state of port ocs1.3 added: maintenance: dirty" in await host.journal()
        await host.run("cp /etc/hwd/lab.yaml /etc/hwd/good; echo 'switchs: {}' >>/etc/hwd/lab.yaml")
        await host.run("systemctl kill -s HUP --kill-who=main hwd-lab")
        await host.run("until journalctl -u hwd-lab -o cat | grep -q 'reload by SIGHUP'; do sleep 0.2; done")
        assert "switchs: unknown key" in await host.journal()
        await host.run("mv /etc/hwd/good /etc/hwd/lab.yaml")
        assert (await host.show("MainPID"), await host.show("ActiveState")) == (main, "active")

        # A loop that hangs is killed by the watchdog, and one that died comes back too.
        await host.run(f"kill -STOP {main}")
        second = await host.until_restarted(main)
        assert "Watchdog timeout" in await host.journal()
        await host.run(f"kill -KILL {second}")
        await host.until_restarted(second)

        # The end of the service leaves a wait for a confirm, and the next start carries it out.
        await host.hwd(f"apply ocs1:1A-2B --no-ready --confirm-within {CONFIRM_S}")
        assert host.light == ["1A-2B"]
        await host.run("systemctl stop hwd-lab")
        assert (host.light, await host.show("Result")) == (["1A-2B"], "success")
        await host.run("systemctl start hwd-lab")
        async with asyncio.timeout(2 * CONFIRM_S):
            while host.light:  # noqa: ASYNC110 - a mirror sets no event
                await asyncio.sleep(0.2)
