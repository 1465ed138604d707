"""The agent's configuration: what is wrong with it is said by file and place."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hwd_agents.process.config import broker_url, load_config, make_config
from hwd_agents.process.serve import broker_addresses
from hwd_drivers.core.errors import ConfigError, LinkError

from ...answers import check_answers

GOOD = """
testbed: opus
host: h0
broker: mqtt://127.0.0.1:1883
spool: {directory: /tmp/spool, limit_bytes: 1000000}
ports:
  eth0: {interface: eth0, ip: 10.1.0.1, rdma: mlx5_0}
sources:
  kernel: {keeper: /run/keeper.sock, namespace: h0}
  twin: {address: "unix:/run/h0.sock"}
clock: {offset_s: 5, drift_ppm: 50}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(text)
    return path


def test_a_good_file_is_read(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, GOOD))
    assert config.host == "h0"
    assert config.ports["eth0"].ip == config.ports["eth0"].ip_address == "10.1.0.1"
    assert config.clock is not None
    assert config.clock.drift_ppm == 50
    assert config.probe.packets_per_s == 1000
    as_in_testbed = load_config(written(tmp_path, GOOD.replace("10.1.0.1", "10.1.0.1/32")))
    assert as_in_testbed.ports["eth0"].ip_address == "10.1.0.1"


def test_the_origin_follows_from_the_sources() -> None:
    data = {"testbed": "t", "host": "h", "broker": "mqtt://b", "ports": {"e": {"interface": "e"}}}
    kernel: dict[str, Any] = {"kernel": {}}
    twin = {"twin": {"address": "mem:h0"}}
    shaped = {"kernel": {"keeper": "/run/keeper.sock", "namespace": "h0"}, **twin}
    found = [make_config({**data, "sources": sources}, where="x").origin for sources in (kernel, twin, shaped)]
    assert found == ["measured", "twin", "kernel"]


def test_what_is_wrong_is_said_with_file_and_place(tmp_path: Path) -> None:
    def refused(change: str) -> str:
        old, new = change.split("\n=>\n")
        assert old in GOOD
        with pytest.raises(ConfigError) as caught:
            load_config(written(tmp_path, GOOD.replace(old, new)))
        assert str(caught.value).startswith(f"{tmp_path}/agent.yaml")
        return str(caught.value).replace(f"{tmp_path}/", "")

    check_answers(Path(__file__).with_name("config_refusals.txt"), {"instead of a part of the file": refused})


def test_a_broker_url_in_a_file_is_read_again_each_time(tmp_path: Path) -> None:
    place = tmp_path / "daemon.json"
    config = load_config(written(tmp_path, GOOD.replace("mqtt://127.0.0.1:1883", f"{{from: {place}}}")))
    with pytest.raises(LinkError, match="Is the daemon up"):
        broker_url(config)
    place.write_text("{}")
    with pytest.raises(LinkError, match="no text under the key mqtt"):
        broker_url(config)
    place.write_text('{"mqtt": "mqtt://127.0.0.1:4000", "http": "x"}')
    assert broker_url(config) == "mqtt://127.0.0.1:4000"
    place.write_text('{"mqtt": "mqtt://lab:a@b", "agents": {"h0": "mqtt://lab.h0:b@b", "h1": "mqtt://lab.h1:c@b"}}')
    assert broker_url(config) == "mqtt://lab.h0:b@b", "its own login, not the daemon's"


async def test_addresses_of_the_broker_are_those_of_its_url_and_a_unix_socket_has_none() -> None:
    data = {"testbed": "t", "host": "h", "ports": {"e": {"interface": "e"}}, "sources": {"kernel": {}}}

    async def addresses(broker: str) -> Sequence[str]:
        return await broker_addresses(make_config({**data, "broker": broker}, where="x"))

    assert await addresses("mqtt://10.0.0.9:1883") == ("10.0.0.9",)
    assert await addresses("mqtts://[2001:db8::7]") == ("2001:db8::7",)
    assert await addresses("unix:/run/broker.sock") == ()
    assert "127.0.0.1" in await addresses("mqtt://localhost")
    with pytest.raises(LinkError, match=r"no\.such\.invalid: cannot find the address .* Write its address into"):
        await addresses("mqtt://no.such.invalid")
