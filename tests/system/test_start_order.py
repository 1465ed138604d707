"""Broker, daemon and agents started in any order, while the light moves: nothing is lost, and nothing comes twice."""

import itertools
import sys
from pathlib import Path

import pytest
import yaml

from .conftest import CROSSED, STRAIGHT, TESTBED, Lab, Mosquitto

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

HOSTS = ("h0", "h1")


class Starts:
    """Starts the parts of one lab. The light moves only while agents run: no agent counts earlier changes."""

    def __init__(self, lab: Lab, broker: Mosquitto | None) -> None:
        self._lab = lab
        self._broker = broker
        self._moves = 0

    async def rack(self) -> None:
        """Switch and hosts; no agents yet."""
        self._lab.testbed.write_text(TESTBED.format(nic="ideal", switch="polatis-opus"))
        await self._lab.hwd_process("rack", "twin", "up", str(self._lab.testbed), "--no-agents")

        async def there() -> bool | None:
            return self._lab.said("rack") is not None or None

        await self._lab.found("the rack is up", there)

    async def start(self, part: str) -> None:
        match part:
            case "broker":
                assert self._broker is not None
                await self._broker.start()
            case "daemon":
                await self._lab.serve(mqtt="embedded" if self._broker is None else self._broker.url)
            case _:
                for host in HOSTS:
                    await self._agent(host)

    async def _agent(self, host: str) -> None:
        folder, rack = self._lab.folder / "run" / "lab", self._lab.rack
        config = {
            "testbed": "lab",
            "host": host,
            "broker": {"from": str(folder / "daemon.json")} if self._broker is None else self._broker.url,
            "ports": {port: {"interface": port} for port in ("eth0", "eth1")},
            "sources": {
                "kernel": {"keeper": rack["hosts"][host]["keeper"], "namespace": host},
                "twin": {"address": rack["addresses"][host]},
            },
            "spool": {"directory": str(folder / "spool" / host)},
            "realtime": False,
        }
        path = folder / f"{host}.yaml"
        path.write_text(yaml.safe_dump(config))
        hwd_agent = Path(sys.executable).with_name("hwd-agent")
        await self._lab.start(f"agent-{host}", str(hwd_agent), "--config", str(path))

        async def watches() -> bool | None:
            events = folder / "spool" / host / "events"
            marks = events.read_bytes() if events.exists() else b""
            return all(b"link:" + port in marks for port in (b"eth0", b"eth1")) or None

        await self._lab.found("the agent has seen its ports", watches)

    async def move(self) -> None:
        await self._lab.move((STRAIGHT, CROSSED)[self._moves % 2])
        self._moves += 1


async def check(lab: Lab, broker: Mosquitto | None, order: tuple[str, ...]) -> None:
    starts = Starts(lab, broker)
    await starts.rack()
    for number, part in enumerate(order):
        await starts.start(part)
        if "agents" in order[: number + 1]:
            await starts.move()
            await starts.move()
    await lab.settled()
    await starts.move()
    await lab.nothing_lost()
    lost = await lab.documents("host.lost")
    assert {each["why"] for each in lost} <= {"flaps that nobody saw one by one"}
    boots = {(event["host"], event["boot"]) for event in await lab.documents("host.event")}
    assert len(boots) == len(HOSTS), "each agent lived once"


@pytest.mark.parametrize("order", [*itertools.permutations(("broker", "daemon", "agents"))], ids=" ".join)
async def test_order_of_broker_daemon_and_agents_does_not_matter(
    lab: Lab, mosquitto: Mosquitto, order: tuple[str, ...]
) -> None:
    await mosquitto.kill()  # it comes back on the port that it had
    await check(lab, mosquitto, order)


@pytest.mark.parametrize("order", [*itertools.permutations(("daemon", "agents"))], ids=" ".join)
async def test_order_of_daemon_and_agents_does_not_matter_with_the_broker_inside(
    lab: Lab, order: tuple[str, ...]
) -> None:
    await check(lab, None, order)
