"""The Polatis RESTCONF driver and front: what is sent, units that are otherwise, and another client in XML and JSON."""

import asyncio
from collections.abc import Awaitable, Callable
from xml.etree import ElementTree

import httpx
import pytest
from typing_extensions import override

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.errors import BugError, ConfigError, DeviceError, LinkError, LoginError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Attenuation, AttenuationMode, Crossconnect, PortOverride, PortSide
from hwd_drivers.devices.abilities import Attenuators, CrossConnects, Device, PortOverrides, PowerReadings
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.polatis.models import restconf_driver
from hwd_drivers.families.polatis.restconf.driver import PolatisRestconfSwitch, RestconfOptions
from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.transports.dial import Dialer, Listener, TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

DATA = "/api/data/optical-switch:"
OPSW = "{http://www.polatis.com/yang/optical-switch}"


def make_twin(dialer: Dialer, address: str, *, model: str = "polatis-6000", **options: Json) -> PolatisTwin:
    loop = asyncio.get_running_loop()
    clock = VirtualClock(loop, wall_start_ns=0) if isinstance(loop, VirtualLoop) else SystemClock()
    return PolatisTwin(
        "restconf",
        name="ocs1",
        capabilities=restconf_driver.capabilities(model, "8x8"),
        timing=find_timing("ideal"),
        draws=Draws(7),
        clock=clock,
        dialer=dialer,
        address=address,
        options=options,
    )


class Tap(asyncio.Protocol):
    """Stands before a server and writes down the request lines that reach it."""

    def __init__(self, inner: asyncio.Protocol, said: list[str]) -> None:
        self.inner = inner
        self.said = said

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.inner.connection_made(transport)

    @override
    def data_received(self, data: bytes) -> None:
        self.said.append(data.partition(b" HTTP/")[0].decode())
        self.inner.data_received(data)

    @override
    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.inner.connection_lost(exc)


class Tapped(MemoryDialer):
    def __init__(self, net: MemoryNet, said: list[str]) -> None:
        super().__init__(net)
        self.said = said

    @override
    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        return await super().listen(lambda: Tap(factory(), self.said), address)


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.net = MemoryNet()
        self.said: list[str] = []
        self.dialer = Tapped(self.net, self.said)

    async def open(
        self, *, driver: RestconfOptions | None = None, model: str = "polatis-6000", **options: Json
    ) -> tuple[PolatisTwin, PolatisRestconfSwitch]:
        twin = make_twin(self.dialer, "mem:ocs1", model=model, **options)
        await twin.start()
        return twin, await self.connect(driver, model=model)

    async def connect(
        self, driver: RestconfOptions | None = None, *, model: str = "polatis-6000", size: str = "8x8"
    ) -> PolatisRestconfSwitch:
        context = OpenContext(
            name="ocs1",
            address="mem:ocs1",
            dialer=self.dialer,
            clock=self.clock,
            sink=self.sink,
            user="admin",
            password="geheim",
            options=driver or RestconfOptions(),
            capabilities=restconf_driver.capabilities(model, size),
        )
        return await PolatisRestconfSwitch.open(context)

    def sink(self, document: Document) -> None:
        raise AssertionError(f"a driver reports nothing by itself: {document}")

    def changes(self) -> list[str]:
        """What was asked for but read, and forget it."""
        found = [text.replace(DATA, "") for text in self.said if not text.startswith("GET")]
        self.said.clear()
        return found

    @property
    def soon(self) -> float:
        return self.loop.time() + 5


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(World())

    return lambda: run_virtual(main())


def pairs(*texts: str) -> list[Crossconnect]:
    return [Crossconnect.parse(text) for text in texts]


def ends(*texts: str) -> list[PortSide]:
    return [PortSide.parse(text) for text in texts]


async def texts(switch: PolatisRestconfSwitch, deadline_s: float) -> list[str]:
    return [str(each.crossconnect) for each in await switch.read_crossconnects(deadline_s=deadline_s)]


@in_world
async def test_one_pair_is_put_many_are_patched_and_the_rest_is_deleted(world: World) -> None:
    twin, switch = await world.open()
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    assert world.changes() == ["PUT cross-connects/pair=1"]
    await switch.change_crossconnects(remove=(), add=pairs("2A-1B", "3A-3B"), deadline_s=world.soon)
    assert world.changes() == ["PATCH cross-connects"]
    exchange = await switch.change_crossconnects(
        remove=pairs("1A-2B", "2A-1B", "3A-3B"), add=pairs("1A-1B", "2A-2B"), deadline_s=world.soon
    )
    assert world.changes() == ["DELETE cross-connects/pair=3", "PATCH cross-connects"]
    assert exchange.commands == 2
    assert exchange.before == tuple(pairs("1A-2B", "2A-1B", "3A-3B"))
    assert await texts(switch, world.soon) == ["1A-1B", "2A-2B"]
    await switch.close()
    await twin.close()


@in_world
async def test_a_unit_without_patch_gets_a_put_for_each_from_then_on(world: World) -> None:
    twin, switch = await world.open(restconf_patch=False)
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B", "2A-1B"), deadline_s=world.soon)
    assert world.changes() == ["PATCH cross-connects", "PUT cross-connects/pair=1", "PUT cross-connects/pair=2"]
    await switch.change_crossconnects(remove=(), add=pairs("3A-3B", "4A-4B"), deadline_s=world.soon)
    assert world.changes() == ["PUT cross-connects/pair=3", "PUT cross-connects/pair=4"]
    assert await texts(switch, world.soon) == ["1A-2B", "2A-1B", "3A-3B", "4A-4B"]
    await switch.close()
    await twin.close()


@in_world
async def test_a_unit_that_does_not_move_ports_in_use_has_them_freed_first(world: World) -> None:
    twin, switch = await world.open(in_use="deny")
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B", "2A-1B"), deadline_s=world.soon)
    await switch.change_crossconnects(
        remove=pairs("1A-2B", "2A-1B"), add=pairs("1A-1B", "2A-2B"), deadline_s=world.soon
    )
    assert await texts(switch, world.soon) == ["1A-1B", "2A-2B"]
    with pytest.raises(DeviceError, match="409 Conflict: data-exists") as refused:
        await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    assert refused.value.code == "data-exists"
    await switch.close()
    await twin.close()


@in_world
async def test_a_missing_pair_is_no_error(world: World) -> None:
    twin, switch = await world.open(dark_dbm=-50)
    exchange = await switch.change_crossconnects(remove=pairs("1A-2B"), add=(), deadline_s=world.soon)
    assert (exchange.commands, exchange.before) == (0, ())
    await switch.close()
    switch = await world.connect(RestconfOptions(read_before=False))
    exchange = await switch.change_crossconnects(remove=pairs("1A-2B"), add=(), deadline_s=world.soon)
    assert (exchange.commands, exchange.before) == (1, None)
    await switch.close()
    await twin.close()


@in_world
async def test_a_pair_that_another_client_made_meanwhile_is_not_removed(world: World) -> None:
    twin, switch = await world.open()
    twin.faults.panel((), pairs("1A-5B"))
    world.said.clear()
    exchange = await switch.change_crossconnects(remove=pairs("1A-2B"), add=pairs("3A-3B"), deadline_s=world.soon)
    assert exchange.before == tuple(pairs("1A-5B"))
    assert world.changes() == ["PUT cross-connects/pair=3"]
    assert [str(pair) for pair in twin.mirror.crossconnects()] == ["1A-5B", "3A-3B"]
    await switch.close()
    await twin.close()


class Canned(asyncio.Protocol):
    """A unit that always gives the same answers."""

    def __init__(self, bodies: dict[str, str], said: list[str]) -> None:
        self.bodies = bodies
        self.said = said

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        request = data.partition(b" HTTP/")[0].decode()
        self.said.append(request)
        body = self.bodies.get(request.removeprefix(f"GET {DATA}"))
        head = "204 No Content\r\n" if body is None else f"200 OK\r\nContent-Length: {len(body)}\r\n"
        self.transport.write(f"HTTP/1.1 {head}\r\n{body or ''}".encode())


PRODUCT = (
    '{"optical-switch:product-information":{"manufacturer":"P","model-name":"M","serial-number":"1",'
    '"software-version":"6"}}'
)


@in_world
async def test_on_a_single_sided_unit_a_crossconnect_is_removed_by_what_the_unit_calls_its_ingress(
    world: World,
) -> None:
    connected = '{"optical-switch:cross-connects":{"pair":[{"ingress":7,"egress":3}]}}'
    bodies = {"product-information": PRODUCT, "cross-connects": connected}
    listener = await MemoryDialer(world.net).listen(lambda: Canned(bodies, world.said), "mem:ocs1")
    switch = await world.connect(size="16")
    await switch.change_crossconnects(remove=pairs("3-7"), add=(), deadline_s=world.soon)
    assert world.changes() == ["DELETE cross-connects/pair=7"]
    await switch.close()
    await listener.close()


@in_world
async def test_a_port_without_a_status_does_not_count_as_passing_light(world: World) -> None:
    ports = '{"optical-switch:port-config":{"port":[{"port-id":1,"status":"ENABLED"},{"port-id":2,"label":"x"}]}}'
    powers = '{"optical-switch:opm-power":{"port":[]}}'
    bodies = {"product-information": PRODUCT, "port-config": ports, "opm-power": powers}
    listener = await MemoryDialer(world.net).listen(lambda: Canned(bodies, world.said), "mem:ocs1")
    switch = await world.connect(size="1x1")
    one, two = PortSide.parse("1A"), PortSide.parse("1B")
    assert (await switch.capabilities(deadline_s=world.soon)).blockable == (one,)
    assert await switch.read_overrides([one], deadline_s=world.soon) == {one: PortOverride.NORMAL}
    with pytest.raises(DeviceError, match="port-config: nothing of 1B in the answer"):
        await switch.read_overrides([one, two], deadline_s=world.soon)
    await switch.close()
    await listener.close()


@in_world
async def test_without_a_reading_before_the_state_before_is_unknown(world: World) -> None:
    twin, switch = await world.open(driver=RestconfOptions(read_before=False))
    world.said.clear()
    exchange = await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    assert exchange.before is None
    assert len(world.said) == 1
    assert not (await switch.capabilities(deadline_s=world.soon)).reports_before
    await switch.close()
    await twin.close()


@in_world
async def test_capabilities_are_those_of_the_unit(world: World) -> None:
    twin, switch = await world.open(model="polatis-vst")
    found = await switch.capabilities(deadline_s=world.soon)
    assert found.monitored == found.attenuated == tuple(ends(*(f"{n}B" for n in range(1, 9))))
    assert found.reports_before
    for ability in (Device, CrossConnects, PowerReadings, PortOverrides, Attenuators):
        assert isinstance(switch, ability)
    identity = await switch.identify(deadline_s=world.soon)
    assert (identity.vendor, identity.serial) == ("Polatis", twin.unit.product.serial)
    await switch.close()
    await twin.close()


@in_world
async def test_another_size_than_the_testbed_says_is_a_config_error(world: World) -> None:
    twin, first = await world.open()
    switch = await world.connect(size="16x16")
    with pytest.raises(ConfigError, match="the switch has 16 ports, the testbed says 16x16"):
        await switch.capabilities(deadline_s=world.soon)
    await switch.close()
    await first.close()
    await twin.close()


@in_world
async def test_ports_are_held_dark_and_let_go(world: World) -> None:
    twin, switch = await world.open()
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    await switch.override(ends("1A"), PortOverride.FORCE_BLOCKED, deadline_s=world.soon)
    found = await switch.read_overrides(ends("1A", "2B"), deadline_s=world.soon)
    assert found == {ends("1A")[0]: PortOverride.FORCE_BLOCKED, ends("2B")[0]: PortOverride.NORMAL}
    assert not twin.mirror.passes(pairs("1A-2B")[0], world.clock.monotonic_ns())
    await switch.override(ends("1A"), PortOverride.NORMAL, deadline_s=world.soon)
    assert twin.mirror.passes(pairs("1A-2B")[0], world.clock.monotonic_ns())
    assert await switch.read_overrides([], deadline_s=world.soon) == {}
    await switch.close()
    await twin.close()


@in_world
async def test_attenuators_are_set_and_read(world: World) -> None:
    twin, switch = await world.open(model="polatis-vst")
    wanted = Attenuation(end=ends("2B")[0], mode=AttenuationMode.ABSOLUTE, level=-5.0)
    await switch.attenuate([wanted], deadline_s=world.soon)
    assert await switch.read_attenuation(ends("2B"), deadline_s=world.soon) == (wanted,)
    with pytest.raises(DeviceError, match="nothing of 1A") as missing:
        await switch.read_attenuation(ends("1A"), deadline_s=world.soon)
    assert missing.value.code == "data-missing"
    await switch.close()
    await twin.close()


@in_world
async def test_power_is_that_of_the_monitors(world: World) -> None:
    twin, switch = await world.open()
    twin.mirror.set_input(ends("1A")[0], 1.0)
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    await asyncio.sleep(1)
    found = await switch.read_power(ends("1B", "2B"), deadline_s=world.soon)
    assert found[0].power_dbm is None
    assert found[1].power_dbm == pytest.approx(1.0 - twin.mirror.loss_db(pairs("1A-2B")[0]), abs=0.1)
    await switch.close()
    await twin.close()


@in_world
async def test_a_wrong_port_is_refused_before_anything_is_sent(world: World) -> None:
    twin, switch = await world.open()
    world.said.clear()
    with pytest.raises(ConfigError, match="8x8"):
        await switch.change_crossconnects(remove=(), add=pairs("9A-1B"), deadline_s=world.soon)
    with pytest.raises(BugError, match="no crossconnect"):
        await switch.change_crossconnects(remove=(), add=(), deadline_s=world.soon)
    assert world.said == []
    await switch.close()
    await twin.close()


@in_world
async def test_a_wrong_password_is_a_login_error_without_the_password(world: World) -> None:
    with pytest.raises(LoginError, match="401 Unauthorized: access-denied") as refused:
        await world.open(user="admin", password="other")
    assert "geheim" not in str(refused.value)


@in_world
async def test_the_connection_is_kept_alive_until_it_is_lost(world: World) -> None:
    twin, switch = await world.open()
    await asyncio.sleep(60)
    assert await texts(switch, world.soon) == []
    twin.faults.reset()
    assert isinstance(await switch.lost(), LinkError)
    await switch.close()
    await twin.close()


async def test_another_client_works_in_xml_and_json() -> None:
    twin = make_twin(TcpDialer(), "127.0.0.1:0", user="admin", password="root")
    address = await twin.start()
    base = f"http://{address}{DATA}"
    xml = {"content-type": "application/yang-data+xml", "accept": "application/yang-data+xml"}
    pair = '<pair xmlns="http://www.polatis.com/yang/optical-switch"><ingress>{}</ingress><egress>{}</egress></pair>'
    async with httpx.AsyncClient(auth=("admin", "root"), verify=False) as client:
        assert (await client.get(f"{base}cross-connects", auth=("admin", "no"))).status_code == 401
        assert (await client.get(f"{base}cross-connects")).json() == {"optical-switch:cross-connects": {}}
        assert (
            await client.put(f"{base}cross-connects/pair=1", content=pair.format(1, 9), headers=xml)
        ).status_code == 201
        assert (
            await client.put(f"{base}cross-connects/pair=1", content=pair.format(1, 10), headers=xml)
        ).status_code == 204
        read = ElementTree.fromstring((await client.get(f"{base}cross-connects", headers=xml)).text)
        assert [(each[0].text, each[1].text) for each in read.iter(f"{OPSW}pair")] == [("1", "10")]
        one = await client.get(f"{base}cross-connects/pair=1")
        assert one.headers["content-type"] == "application/yang-data+json"
        assert one.json() == {"optical-switch:pair": [{"ingress": 1, "egress": 10}]}
        missing = await client.get(f"{base}cross-connects/pair=2")
        assert (missing.status_code, missing.json()["ietf-restconf:errors"]["error"][0]["error-tag"]) == (
            404,
            "data-missing",
        )
        merged = {
            "optical-switch:cross-connects": {"pair": [{"ingress": 2, "egress": 11}, {"ingress": 3, "egress": 12}]}
        }
        assert (await client.patch(f"{base}cross-connects", json=merged)).status_code == 204
        assert twin.unit.pairs() == [(1, 10), (2, 11), (3, 12)]
        assert (
            await client.patch(
                f"{base}cross-connects/pair=4", json={"optical-switch:pair": [{"ingress": 4, "egress": 9}]}
            )
        ).status_code == 404
        assert (
            await client.post(f"{base}cross-connects", json={"optical-switch:pair": [{"ingress": 2, "egress": 9}]})
        ).status_code == 409
        assert (
            await client.post(f"{base}cross-connects", json={"optical-switch:pair": [{"ingress": 4, "egress": 9}]})
        ).status_code == 201
        wrong = await client.put(
            f"{base}cross-connects/pair=5", json={"optical-switch:pair": [{"ingress": 6, "egress": 13}]}
        )
        assert (wrong.status_code, wrong.json()["ietf-restconf:errors"]["error"][0]["error-tag"]) == (
            400,
            "invalid-value",
        )
        bad = await client.put(f"{base}cross-connects/pair=5", content=pair.format(5, 99), headers=xml)
        assert bad.status_code == 400
        assert "Invalid OXC port: 99" in bad.text
        assert bad.text.startswith('<errors xmlns="urn:ietf:params:xml:ns:yang:ietf-restconf">')
        assert (await client.delete(f"{base}cross-connects/pair=1")).status_code == 204
        assert (await client.delete(f"{base}cross-connects/pair=1")).status_code == 404
        only = {"optical-switch:cross-connects": {"pair": [{"ingress": 5, "egress": 13}]}}
        assert (await client.put(f"{base}cross-connects", json=only)).status_code in (201, 204)
        assert twin.unit.pairs() == [(5, 13)]
        assert (await client.delete(f"{base}cross-connects")).status_code == 204
        assert twin.unit.pairs() == []
        product = (await client.get(f"{base}product-information")).json()["optical-switch:product-information"]
        assert product["serial-number"] == twin.unit.product.serial
        power = (await client.get(f"{base}opm-power/port=9")).json()
        assert power == {"optical-switch:port": [{"port-id": 9, "power": "-60.00"}]}
        labelled = await client.patch(
            f"{base}port-config/port=1", json={"optical-switch:port": [{"port-id": 1, "label": "h0"}]}
        )
        assert labelled.status_code == 204
        assert (await client.get(f"{base}port-config/port=1/label")).json() == {"optical-switch:label": "h0"}
        label = {"optical-switch:port-label": "h1"}
        assert (await client.put(f"{base}ports/port=1/port-label", json=label)).status_code == 204
        assert (await client.get(f"{base}ports/port=1/port-label")).json() == label
        assert (await client.get(f"{base}ports/port=2/port-label")).json() == {"optical-switch:port-label": ""}
        assert (await client.get(f"{base}ports/port=9/opm/power")).json() == {"optical-switch:power": "-60.00"}
        assert (
            await client.put(f"{base}cross-connects/pair=1/egress", json={"optical-switch:egress": 9})
        ).status_code == 201
        assert (
            await client.put(f"{base}cross-connects/pair=1/egress", json={"optical-switch:egress": 10})
        ).status_code == 204
        assert (await client.get(f"{base}cross-connects/pair=1/egress")).json() == {"optical-switch:egress": 10}
        assert (await client.get(f"{base}ports/port=10/peer-port")).json() == {"optical-switch:peer-port": ""}
        state = f"http://{address}/api/operations/optical-switch:port-set-state"
        assert (await client.post(state, json={"input": {"port-disab": [1]}})).status_code == 204
        xml_input = '<input xmlns="http://www.polatis.com/yang/optical-switch"><port-disab>2</port-disab></input>'
        assert (await client.post(state, content=xml_input, headers=xml)).status_code == 204
        assert [twin.unit.state(port) for port in (1, 2, 3)] == ["disabled", "disabled", "enabled"]
        assert (await client.post(state, json={"input": {"port-disab": [99]}})).status_code == 400
        for path, body, status in (
            ("cross-connects/pair=1", b"{", 400),
            ("cross-connects/pair", b'{"optical-switch:pair":[]}', 400),
            ("product-information", b'{"optical-switch:product-information":{}}', 400),
        ):
            assert (await client.put(base + path, content=body)).status_code == status, path
        assert (await client.request("TRACE", f"{base}cross-connects")).status_code == 405
        assert (await client.get(f"http://{address}/elsewhere")).status_code == 404
        assert (await client.head(f"{base}cross-connects")).status_code == 200
    await twin.close()
