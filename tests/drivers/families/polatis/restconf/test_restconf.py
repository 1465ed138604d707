"""The Polatis RESTCONF driver and front: what is sent, units that are otherwise, and another client in XML and JSON."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from hwd_drivers.codecs.http import HttpRequest, HttpResponse
from hwd_drivers.core.errors import DeviceError, LinkError
from hwd_drivers.core.values import Attenuation, AttenuationMode, PortOverride, PortSide
from hwd_drivers.transports.dial import TcpDialer

from ....stage import Session, Stage, Tapped, in_virtual_time, pairs, texts

DATA = "/api/data/optical-switch:"
OPSW = "{http://www.polatis.com/yang/optical-switch}"


@pytest.fixture
def stage() -> Stage:
    return Stage("polatis-restconf", "polatis-6000", "8x8", login=("admin", "geheim"), dialer=Tapped())


@pytest.fixture
async def on_tcp() -> AsyncIterator[Stage]:
    async with Stage("polatis-restconf", "polatis-6000", "8x8", dialer=TcpDialer()) as stage:
        yield stage


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


@in_virtual_time
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


@in_virtual_time
async def test_a_unit_without_patch_gets_a_put_for_each_from_then_on(stage: Stage) -> None:
    _, switch = await stage.start_and_open(restconf_patch=False)
    await switch.change(add="1A-2B 2A-1B")
    assert changes(stage) == ["PATCH cross-connects", "PUT cross-connects/pair=1", "PUT cross-connects/pair=2"]
    await switch.change(add="3A-3B 4A-4B")
    assert changes(stage) == ["PUT cross-connects/pair=3", "PUT cross-connects/pair=4"]
    assert await switch.pairs() == "1A-2B 2A-1B 3A-3B 4A-4B"


@in_virtual_time
async def test_a_unit_that_does_not_move_ports_in_use_has_them_freed_first(stage: Stage) -> None:
    _, switch = await stage.start_and_open(in_use="deny")
    await switch.change(add="1A-2B 2A-1B")
    await switch.change(remove="1A-2B 2A-1B", add="1A-1B 2A-2B")
    assert await switch.pairs() == "1A-1B 2A-2B"
    with pytest.raises(DeviceError, match="409 Conflict: data-exists") as refused:
        await switch.change(add="1A-2B")
    assert refused.value.code == "data-exists"


@in_virtual_time
async def test_a_missing_pair_is_no_error(stage: Stage) -> None:
    _, switch = await stage.start_and_open(dark_dbm=-50)
    exchange = await switch.change(remove="1A-2B")
    assert (exchange.commands, exchange.before) == (0, ())
    switch = await stage.open(read_before=False)
    exchange = await switch.change(remove="1A-2B")
    assert (exchange.commands, exchange.before) == (1, None)


@in_virtual_time
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


@in_virtual_time
async def test_on_a_single_sided_unit_a_crossconnect_is_removed_by_what_the_unit_calls_its_ingress(
    stage: Stage,
) -> None:
    connected = '{"optical-switch:cross-connects":{"pair":[{"ingress":7,"egress":3}]}}'
    stage.size = "16"
    switch = await canned(stage, cross_connects=connected)
    await switch.change(remove="3-7")
    assert changes(stage) == ["DELETE cross-connects/pair=7"]


@in_virtual_time
async def test_a_port_without_a_status_does_not_count_as_passing_light(stage: Stage) -> None:
    ports = '{"optical-switch:port-config":{"port":[{"port-id":1,"status":"ENABLED"},{"port-id":2,"label":"x"}]}}'
    powers = '{"optical-switch:opm-power":{"port":[]}}'
    stage.size = "1x1"
    switch = await canned(stage, port_config=ports, opm_power=powers)
    assert texts((await switch.capabilities()).blockable) == "1A"
    assert await switch.overrides("1A") == {"1A": PortOverride.NORMAL}
    with pytest.raises(DeviceError, match="port-config: nothing of 1B in the answer"):
        await switch.overrides("1A 1B")


@in_virtual_time
async def test_without_a_reading_before_the_state_before_is_unknown(stage: Stage) -> None:
    await stage.start()
    switch = await stage.open(read_before=False)
    changes(stage)
    exchange = await switch.change(add="1A-2B")
    assert exchange.before is None
    assert requested(stage) == ["PUT cross-connects/pair=1"]
    assert not (await switch.capabilities()).reports_before


@in_virtual_time
async def test_capabilities_are_those_of_the_unit(stage: Stage) -> None:
    stage.model = "polatis-vst"
    twin, switch = await stage.start_and_open()
    found = await switch.capabilities()
    assert texts(found.monitored) == texts(found.attenuated) == texts(f"{n}B" for n in range(1, 9))
    assert found.reports_before
    identity = await switch.identify()
    assert (identity.vendor, identity.serial) == ("Polatis", twin.unit.product.serial)


@in_virtual_time
async def test_ports_are_held_dark_and_let_go(stage: Stage) -> None:
    _, switch = await stage.start_and_open()
    await switch.change(add="1A-2B")
    await switch.override("1A", PortOverride.FORCE_BLOCKED)
    assert await switch.overrides("1A 2B") == {"1A": PortOverride.FORCE_BLOCKED, "2B": PortOverride.NORMAL}
    assert not stage.passes("1A-2B")
    await switch.override("1A", PortOverride.NORMAL)
    assert stage.passes("1A-2B")
    assert await switch.overrides("") == {}


@in_virtual_time
async def test_attenuators_are_set_and_read(stage: Stage) -> None:
    stage.model = "polatis-vst"
    _, switch = await stage.start_and_open()
    wanted = Attenuation(end=PortSide.parse("2B"), mode=AttenuationMode.ABSOLUTE, level=-5.0)
    await switch.attenuate(wanted)
    assert await switch.attenuation("2B") == (wanted,)
    with pytest.raises(DeviceError, match="nothing of 1A") as missing:
        await switch.attenuation("1A")
    assert missing.value.code == "data-missing"


@in_virtual_time
async def test_power_is_that_of_the_monitors(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    stage.light("1A", 1.0)
    await switch.change(add="1A-2B")
    await asyncio.sleep(1)
    dark, lit = await switch.power("1B 2B")
    assert dark is None
    assert lit == pytest.approx(1.0 - twin.mirror.loss_db(pairs("1A-2B")[0]), abs=0.1)


@in_virtual_time
async def test_the_connection_is_kept_alive_until_it_is_lost(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    await asyncio.sleep(60)
    assert await switch.pairs() == ""
    twin.faults.reset()
    assert isinstance(await switch.lost(), LinkError)


async def test_another_client_works_in_xml_and_json(on_tcp: Stage) -> None:
    twin = await on_tcp.start(user="admin", password="root")
    root = f"http://{on_tcp.address}"
    xml = {"content-type": "application/yang-data+xml", "accept": "application/yang-data+xml"}
    pair = '<pair xmlns="http://www.polatis.com/yang/optical-switch"><ingress>{}</ingress><egress>{}</egress></pair>'
    async with httpx.AsyncClient(base_url=root, auth=("admin", "root"), verify=False) as client:

        async def ask(method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
            """Status and JSON; `body` is JSON too."""
            path = path if path.startswith("/") else DATA + path
            answer = await client.request(method, path, json=body, **more)
            return answer.status_code, answer.json() if answer.content else None

        async def status_of(method: str, path: str, body: object = None, **more: Any) -> int:
            path = path if path.startswith("/") else DATA + path
            content = {"content": body} if isinstance(body, str | bytes) else {"json": body}
            return (await client.request(method, path, **content, **more)).status_code

        def pair_of(ingress: int, egress: int) -> dict[str, object]:
            return {"optical-switch:pair": [{"ingress": ingress, "egress": egress}]}

        assert await status_of("GET", "cross-connects", auth=("admin", "no")) == 401
        assert await ask("GET", "cross-connects") == (200, {"optical-switch:cross-connects": {}})
        assert await status_of("PUT", "cross-connects/pair=1", pair.format(1, 9), headers=xml) == 201
        assert await status_of("PUT", "cross-connects/pair=1", pair.format(1, 10), headers=xml) == 204
        read = ElementTree.fromstring((await client.get(f"{DATA}cross-connects", headers=xml)).text)
        assert [(each[0].text, each[1].text) for each in read.iter(f"{OPSW}pair")] == [("1", "10")]
        one = await client.get(f"{DATA}cross-connects/pair=1")
        assert one.headers["content-type"] == "application/yang-data+json"
        assert one.json() == pair_of(1, 10)
        for method, path, body, status, tag in (
            ("GET", "cross-connects/pair=2", None, 404, "data-missing"),
            ("PUT", "cross-connects/pair=5", pair_of(6, 13), 400, "invalid-value"),
        ):
            found, text = await ask(method, path, body)
            assert (found, text["ietf-restconf:errors"]["error"][0]["error-tag"]) == (status, tag)
        both = {"pair": [{"ingress": 2, "egress": 11}, {"ingress": 3, "egress": 12}]}
        assert await status_of("PATCH", "cross-connects", {"optical-switch:cross-connects": both}) == 204
        assert twin.unit.pairs() == [(1, 10), (2, 11), (3, 12)]
        assert await status_of("PATCH", "cross-connects/pair=4", pair_of(4, 9)) == 404
        assert await status_of("POST", "cross-connects", pair_of(2, 9)) == 409
        assert await status_of("POST", "cross-connects", pair_of(4, 9)) == 201
        bad = await client.put(f"{DATA}cross-connects/pair=5", content=pair.format(5, 99), headers=xml)
        assert bad.status_code == 400
        assert "Invalid OXC port: 99" in bad.text
        assert bad.text.startswith('<errors xmlns="urn:ietf:params:xml:ns:yang:ietf-restconf">')
        assert await status_of("DELETE", "cross-connects/pair=1") == 204
        assert await status_of("DELETE", "cross-connects/pair=1") == 404
        only = {"optical-switch:cross-connects": {"pair": [{"ingress": 5, "egress": 13}]}}
        assert await status_of("PUT", "cross-connects", only) in (201, 204)
        assert twin.unit.pairs() == [(5, 13)]
        assert await status_of("DELETE", "cross-connects") == 204
        assert twin.unit.pairs() == []
        _, product = await ask("GET", "product-information")
        assert product["optical-switch:product-information"]["serial-number"] == twin.unit.product.serial
        dark = {"port-id": 9, "power": "-60.00"}
        assert await ask("GET", "opm-power/port=9") == (200, {"optical-switch:port": [dark]})
        labelled = {"optical-switch:port": [{"port-id": 1, "label": "h0"}]}
        assert await status_of("PATCH", "port-config/port=1", labelled) == 204
        assert await ask("GET", "port-config/port=1/label") == (200, {"optical-switch:label": "h0"})
        label = {"optical-switch:port-label": "h1"}
        assert await status_of("PUT", "ports/port=1/port-label", label) == 204
        assert await status_of("PUT", "cross-connects/pair=1/egress", {"optical-switch:egress": 9}) == 201
        assert await status_of("PUT", "cross-connects/pair=1/egress", {"optical-switch:egress": 10}) == 204
        for path, leaf, value in (
            ("ports/port=1/port-label", "port-label", "h1"),
            ("ports/port=2/port-label", "port-label", ""),
            ("ports/port=9/opm/power", "power", "-60.00"),
            ("cross-connects/pair=1/egress", "egress", 10),
            ("ports/port=10/peer-port", "peer-port", ""),
        ):
            assert await ask("GET", path) == (200, {f"optical-switch:{leaf}": value}), path
        state = "/api/operations/optical-switch:port-set-state"
        assert await status_of("POST", state, {"input": {"port-disab": [1]}}) == 204
        xml_input = '<input xmlns="http://www.polatis.com/yang/optical-switch"><port-disab>2</port-disab></input>'
        assert await status_of("POST", state, xml_input, headers=xml) == 204
        assert [twin.unit.state(port) for port in (1, 2, 3)] == ["disabled", "disabled", "enabled"]
        for method, path, content, status in (
            ("POST", state, b'{"input":{"port-disab":[99]}}', 400),
            ("PUT", "cross-connects/pair=1", b"{", 400),
            ("PUT", "cross-connects/pair", b'{"optical-switch:pair":[]}', 400),
            ("PUT", "product-information", b'{"optical-switch:product-information":{}}', 400),
            ("TRACE", "cross-connects", b"", 405),
            ("GET", "/elsewhere", b"", 404),
            ("HEAD", "cross-connects", b"", 200),
        ):
            assert await status_of(method, path, content) == status, path
