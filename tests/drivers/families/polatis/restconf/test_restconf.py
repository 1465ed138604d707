"""The Polatis RESTCONF driver and front: what is sent, units that are otherwise, and another client in XML and JSON."""

import asyncio
import json
import shutil

import pytest

from hwd_drivers.codecs.http import HttpRequest, HttpResponse
from hwd_drivers.core.errors import DeviceError, LinkError
from hwd_drivers.core.values import Attenuation, AttenuationMode, PortOverride, PortSide
from hwd_drivers.transports.dial import Dialer

from ....parts import pairs
from ....stage import Session, Stage, Tapped, texts

DATA = "/api/data/optical-switch:"


def make_stage(dialer: Dialer | None = None) -> Stage:
    return Stage("polatis-restconf", "polatis-6000", "8x8", login=("admin", "geheim"), dialer=dialer or Tapped())


def requested(stage: Stage) -> list[str]:
    """What was asked for since the last call."""
    assert isinstance(stage.dialer, Tapped)
    lines = [data.partition(b" HTTP/")[0].decode().replace(DATA, "") for data in stage.dialer.said]
    stage.dialer.said.clear()
    return lines


def changes(stage: Stage) -> list[str]:
    return [line for line in requested(stage) if not line.startswith("GET")]


async def canned(stage: Stage, **bodies: str) -> Session:
    """A session with a unit that always gives these answers."""

    def answer(request: HttpRequest) -> HttpResponse:
        name = request.path.removeprefix(DATA).replace("-", "_")
        body = ({"product_information": PRODUCT} | bodies).get(name) if request.method == "GET" else None
        return HttpResponse(status=204 if body is None else 200, body=(body or "").encode())

    await stage.serve(answer)
    return await stage.open()


async def test_one_pair_is_put_many_are_patched_and_the_rest_is_deleted(stage: Stage) -> None:
    _, switch = await stage.start_and_open()
    await switch.change(add="1A-2B")
    assert changes(stage) == ["PUT cross-connects/pair=1"]
    await switch.change(add="2A-1B 3A-3B")
    assert changes(stage) == ["PATCH cross-connects"]
    exchange = await switch.change(remove="1A-2B 2A-1B 3A-3B", add="1A-1B 2A-2B")
    assert changes(stage) == ["DELETE cross-connects/pair=3", "PATCH cross-connects"]
    assert exchange.commands == 2
    assert texts(exchange.before or ()) == "1A-2B 2A-1B 3A-3B"
    assert await switch.pairs() == "1A-1B 2A-2B"


async def test_a_unit_without_patch_gets_a_put_for_each_from_then_on(stage: Stage) -> None:
    _, switch = await stage.start_and_open(restconf_patch=False)
    await switch.change(add="1A-2B 2A-1B")
    assert changes(stage) == ["PATCH cross-connects", "PUT cross-connects/pair=1", "PUT cross-connects/pair=2"]
    await switch.change(add="3A-3B 4A-4B")
    assert changes(stage) == ["PUT cross-connects/pair=3", "PUT cross-connects/pair=4"]
    assert await switch.pairs() == "1A-2B 2A-1B 3A-3B 4A-4B"


async def test_a_unit_that_does_not_move_ports_in_use_has_them_freed_first(stage: Stage) -> None:
    _, switch = await stage.start_and_open(in_use="deny")
    await switch.change(add="1A-2B 2A-1B")
    await switch.change(remove="1A-2B 2A-1B", add="1A-1B 2A-2B")
    assert await switch.pairs() == "1A-1B 2A-2B"
    with pytest.raises(DeviceError, match="409 Conflict: data-exists") as refused:
        await switch.change(add="1A-2B")
    assert refused.value.code == "data-exists"


async def test_a_missing_pair_is_no_error(stage: Stage) -> None:
    _, switch = await stage.start_and_open(dark_dbm=-50)
    exchange = await switch.change(remove="1A-2B")
    assert (exchange.commands, exchange.before) == (0, ())
    switch = await stage.open(read_before=False)
    exchange = await switch.change(remove="1A-2B")
    assert (exchange.commands, exchange.before) == (1, None)


async def test_a_pair_that_another_client_made_meanwhile_is_not_removed(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.panel((), pairs("1A-5B"))
    changes(stage)
    exchange = await switch.change(remove="1A-2B", add="3A-3B")
    assert texts(exchange.before or ()) == "1A-5B"
    assert changes(stage) == ["PUT cross-connects/pair=3"]
    assert stage.lit() == "1A-5B 3A-3B"


PRODUCT = (
    '{"optical-switch:product-information":{"manufacturer":"P","model-name":"M","serial-number":"1",'
    '"software-version":"6"}}'
)


async def test_on_a_single_sided_unit_a_crossconnect_is_removed_by_what_the_unit_calls_its_ingress(
    stage: Stage,
) -> None:
    connected = '{"optical-switch:cross-connects":{"pair":[{"ingress":7,"egress":3}]}}'
    stage.size = "16"
    switch = await canned(stage, cross_connects=connected)
    await switch.change(remove="3-7")
    assert changes(stage) == ["DELETE cross-connects/pair=7"]


async def test_a_port_without_a_status_does_not_count_as_passing_light(stage: Stage) -> None:
    ports = '{"optical-switch:port-config":{"port":[{"port-id":1,"status":"ENABLED"},{"port-id":2,"label":"x"}]}}'
    powers = '{"optical-switch:opm-power":{"port":[]}}'
    stage.size = "1x1"
    switch = await canned(stage, port_config=ports, opm_power=powers)
    assert texts((await switch.capabilities()).blockable) == "1A"
    assert await switch.overrides("1A") == {"1A": PortOverride.NORMAL}
    with pytest.raises(DeviceError, match="port-config: nothing of 1B in the answer"):
        await switch.overrides("1A 1B")


async def test_without_a_reading_before_the_state_before_is_unknown(stage: Stage) -> None:
    await stage.start()
    switch = await stage.open(read_before=False)
    changes(stage)
    exchange = await switch.change(add="1A-2B")
    assert exchange.before is None
    assert requested(stage) == ["PUT cross-connects/pair=1"]
    assert not (await switch.capabilities()).reports_before


async def test_attenuators_are_set_and_read(stage: Stage) -> None:
    stage.model = "polatis-vst"
    _, switch = await stage.start_and_open()
    wanted = Attenuation(end=PortSide.parse("2B"), mode=AttenuationMode.ABSOLUTE, level=-5.0)
    await switch.attenuate(wanted)
    assert await switch.attenuation("2B") == (wanted,)
    with pytest.raises(DeviceError, match="nothing of 1A") as missing:
        await switch.attenuation("1A")
    assert missing.value.code == "data-missing"


async def test_the_connection_is_kept_alive_until_it_is_lost(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    await asyncio.sleep(60)
    assert await switch.pairs() == ""
    twin.faults.reset()
    assert isinstance(await switch.lost(), LinkError)


async def test_a_posted_pair_does_not_last_with_that_option(stage: Stage) -> None:
    twin = await stage.start(restconf_post_lasts_s=5.0)
    client = await stage.connect()
    for method, path, ingress in (("POST", "", 1), ("PUT", "/pair=2", 2)):
        body = json.dumps({"optical-switch:pair": [{"ingress": ingress, "egress": ingress + 8}]})
        head = f"{method} {DATA}cross-connects{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n"
        kind = f"Content-Type: application/yang-data+json\r\nContent-Length: {len(body)}\r\n\r\n"
        assert "201" in await client.ask(head + kind + body, within_s=0.001)
    await asyncio.sleep(4.9)
    assert twin.unit.pairs() == [(1, 9), (2, 10)]
    await asyncio.sleep(0.2)
    assert twin.unit.pairs() == [(2, 10)]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_is_answered_by_an_absolute_uri_too(on_tcp: Stage) -> None:
    """A judge from outside."""
    twin = await on_tcp.start()
    target = f"http://{on_tcp.address}{DATA}product-information"
    process = await asyncio.create_subprocess_exec(
        *("curl", "-q", "-sS", "--max-time", "20", "-u", "admin:root", "--request-target", target),
        f"http://{on_tcp.address}/",
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert json.loads(said)["optical-switch:product-information"]["serial-number"] == twin.unit.product.serial
