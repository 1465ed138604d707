"""A rack in a process of its own, for tests that kill it or run it as somebody else. Prints one JSON object.

python rack_process.py FOLDER (check | stay)
"""

import asyncio
import json
import sys
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from hwd.twin.kernel import Crossbar, HostNetwork, Keeper, Light, NamespacesUnavailableError
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.kernel.udp import InterfaceDatagrams
from hwd_agents.sources.link_source import LinkReading
from hwd_drivers.core.clock import SystemClock


async def main(folder: Path, what: str) -> dict[str, object]:
    clock = SystemClock()
    async with asyncio.timeout(20), Keeper() as keeper:
        try:
            await keeper.start(["h0", "h1"], folder)
        except NamespacesUnavailableError as error:
            return {"unavailable": str(error)}
        crossbar = Crossbar(keeper, clock)
        for host in ("h0", "h1"):
            crossbar.plug(f"{host}.eth0", host=host, interface="eth0")
            crossbar.carrier(f"{host}.eth0", True)
        if what == "stay":
            say({"keeper": keeper.pid, "path": str(keeper.path)})
            await keeper.died()
        readings = await flap(keeper, crossbar, clock)
        arrived = await send_both_ways(keeper, crossbar, clock)
        crossbar.close()
        changes = readings[-1].changes_since(readings[0])
        return {"privilege": keeper.privilege, "changes": changes, "carrier": readings[-1].carrier, "arrived": arrived}


async def flap(keeper: Keeper, crossbar: Crossbar, clock: SystemClock) -> list[LinkReading]:
    """Take the carrier of h0 and give it back, each once it was seen."""
    seen: asyncio.Queue[LinkReading] = asyncio.Queue()
    links = RtnetlinkLinks(keeper.sockets("h0"), clock)
    await links.open(lambda reading: seen.put_nowait(reading) if reading.interface == "eth0" else None)
    readings = [await seen.get()]
    for up in (False, True):
        crossbar.carrier("h0.eth0", up)
        while readings[-1].carrier is not up:
            readings.append(await seen.get())
    await links.close()
    return readings


async def send_both_ways(keeper: Keeper, crossbar: Crossbar, clock: SystemClock) -> list[str]:
    """Light from h0 to h1 only; who heard something, when h1 sent and then h0."""
    crossbar.apply([Light(from_port="h0.eth0", to_ports=("h1.eth0",))])
    ips = {"h0": "10.1.0.1", "h1": "10.1.0.2"}
    arrived: asyncio.Queue[str] = asyncio.Queue()
    ports = {}
    for host, other in (("h0", "h1"), ("h1", "h0")):
        network, plug = HostNetwork(keeper, host), crossbar.plugs[f"{host}.eth0"]
        network.prepare()
        network.add_address(plug, IPv4Interface(f"{ips[host]}/32"))
        far = IPv4Address(ips[other])
        network.know(plug, {far: crossbar.plugs[f"{other}.eth0"].address})
        network.route({far: (plug, None)})
        network.close()
        source = InterfaceDatagrams(keeper.sockets(host), clock)
        ports[host] = await source.open("eth0", ips[host], 7000, lambda *_, host=host: arrived.put_nowait(host))
    for host, other in (("h1", "h0"), ("h0", "h1")):
        assert ports[host].send(b"x", (ips[other], 7000)), ports[host].last_failure
    heard = [await arrived.get()]
    for port in ports.values():
        port.close()
    while not arrived.empty():
        heard.append(arrived.get_nowait())
    return heard


def say(what: dict[str, object]) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    say(asyncio.run(main(Path(sys.argv[1]), sys.argv[2])))
