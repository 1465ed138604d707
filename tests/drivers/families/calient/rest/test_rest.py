"""The Calient REST driver and twin: partial success in the unit's own words, unit variants, and foreign clients."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import httpx
import pytest

from hwd_drivers.codecs.http import HttpRequest, HttpResponse
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.errors import ConfigError, DeviceError, LinkError, LoginError, ProtocolError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortSide
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.calient.models import rest_driver
from hwd_drivers.families.calient.ports import PortMap
from hwd_drivers.families.calient.rest.driver import CalientRestOptions, CalientRestSwitch
from hwd_drivers.families.calient.twin import CalientTwin
from hwd_drivers.families.calient.unit import Wish
from hwd_drivers.transports.dial import Dialer, TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.http_session import HttpSession
from hwd_drivers.twins.server import TwinServer
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


def make_twin(dialer: Dialer, address: str, *, timing: str = "ideal", **options: Json) -> CalientTwin:
    loop = asyncio.get_running_loop()
    clock = VirtualClock(loop, wall_start_ns=0) if isinstance(loop, VirtualLoop) else SystemClock()
    return CalientTwin(
        "rest",
        name="ocs1",
        capabilities=rest_driver.capabilities("calient-s320", "16"),
        timing=find_timing(timing),
        draws=Draws(7),
        clock=clock,
        dialer=dialer,
        address=address,
        options=options,
    )


class World:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.clock = VirtualClock(loop, wall_start_ns=0)
        self.dialer = MemoryDialer(MemoryNet())

    async def open(
        self, *, timing: str = "ideal", driver: CalientRestOptions | None = None, **options: Json
    ) -> tuple[CalientTwin, CalientRestSwitch]:
        twin = make_twin(self.dialer, "mem:ocs1", timing=timing, **options)
        await twin.start()
        return twin, await self.connect(driver)

    async def connect(self, driver: CalientRestOptions | None = None, size: str = "16") -> CalientRestSwitch:
        context = OpenContext(
            name="ocs1",
            address="mem:ocs1",
            dialer=self.dialer,
            clock=self.clock,
            sink=self.sink,
            user="lab",
            password="geheim",
            options=driver or CalientRestOptions(),
            capabilities=rest_driver.capabilities("calient-s320", size),
        )
        return await CalientRestSwitch.open(context)

    def sink(self, document: Document) -> None:
        raise AssertionError(f"a driver reports nothing by itself: {document}")

    @property
    def soon(self) -> float:
        return self.loop.time() + 5


def in_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        await test(World())

    return lambda: run_virtual(main())


def pairs(*texts: str) -> list[Crossconnect]:
    return [Crossconnect.parse(text) for text in texts]


@in_world
async def test_a_change_is_one_bulk_to_remove_and_one_to_add(world: World) -> None:
    twin, switch = await world.open(timing="polatis-opus")
    first = await switch.change_crossconnects(remove=(), add=pairs("1A-2B", "2A-1B", "3A-3B"), deadline_s=world.soon)
    assert (first.commands, first.before) == (1, ())
    assert first.acknowledged_ns - first.commanded_ns > 20_000_000, "it waited for light"
    second = await switch.change_crossconnects(
        remove=pairs("1A-2B", "2A-1B"), add=pairs("1A-1B", "2A-2B"), deadline_s=world.soon
    )
    assert second.commands == 2
    assert second.before == tuple(pairs("1A-2B", "2A-1B", "3A-3B"))
    found = await switch.read_crossconnects(deadline_s=world.soon)
    assert [(str(each.crossconnect), each.state) for each in found] == [
        (text, CrossconnectState.TUNED) for text in ("1A-1B", "2A-2B", "3A-3B")
    ]
    await switch.close()
    await twin.close()


@pytest.mark.parametrize("results", ["wrapped", "flat"])
def test_partial_success_is_reported_with_the_text_of_each_item_and_the_rest_is_done(results: str) -> None:
    async def story(world: World) -> None:
        twin, switch = await world.open(results=results)
        await switch.change_crossconnects(remove=(), add=pairs("4A-4B"), deadline_s=world.soon)
        with pytest.raises(DeviceError) as failed:
            await switch.change_crossconnects(
                remove=(), add=pairs("1A-1B", "2A-4B", "3A-3B", "5A-4B"), deadline_s=world.soon
            )
        error = failed.value
        assert str(error).startswith("ocs1: badd: the device failed 2 of 4: ADD 2A-4B: Failed: Invalid Connection")
        assert error.text.count("Port already in Connection: 1.1.4") == 2
        assert "ADD 5A-4B" in error.text
        assert (error.device, error.code) == ("ocs1", "Failed")
        there = [str(each.crossconnect) for each in await switch.read_crossconnects(deadline_s=world.soon)]
        assert there == ["1A-1B", "3A-3B", "4A-4B"]
        await switch.close()
        await twin.close()

    in_world(story)()


@in_world
async def test_a_part_that_is_denied_by_a_fault_has_the_words_of_the_fault(world: World) -> None:
    twin, switch = await world.open()
    twin.faults.partial_next = 1
    with pytest.raises(DeviceError, match="2A-2B gone"):
        await switch.change_crossconnects(remove=(), add=pairs("1A-1B", "2A-2B"), deadline_s=world.soon)
    assert [str(each) for each in twin.mirror.crossconnects()] == ["1A-1B"]
    await switch.close()
    await twin.close()


@in_world
async def test_a_unit_whose_badd_only_enters_is_activated(world: World) -> None:
    twin, switch = await world.open(rest_add="enters")
    exchange = await switch.change_crossconnects(remove=(), add=pairs("1A-2B", "2A-1B"), deadline_s=world.soon)
    assert exchange.commands == 3
    assert [str(each) for each in twin.mirror.crossconnects()] == ["1A-2B", "2A-1B"]
    await switch.close()
    await twin.close()


@in_world
async def test_a_unit_whose_list_has_no_states_is_asked_for_details(world: World) -> None:
    twin, switch = await world.open(rest_list="names")
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    (reading,) = await switch.read_crossconnects(deadline_s=world.soon)
    assert reading.state is CrossconnectState.TUNED
    await switch.close()
    await twin.close()


@in_world
async def test_half_of_a_connection_of_both_ways_is_refused(world: World) -> None:
    twin, switch = await world.open()
    unit = twin.unit
    unit.enter(Wish(source="1.1.1", destination="1.1.2", two_way=True, group="LAB", name="mine"), activate=True)
    with pytest.raises(RefusedError, match="2WAY connection mine"):
        await switch.change_crossconnects(remove=pairs("1A-2B"), add=(), deadline_s=world.soon)
    await switch.change_crossconnects(remove=pairs("1A-2B", "2A-1B"), add=(), deadline_s=world.soon)
    assert twin.mirror.crossconnects() == []
    await switch.close()
    await twin.close()


@in_world
async def test_power_is_asked_for_once_a_port(world: World) -> None:
    twin, switch = await world.open()
    twin.mirror.set_input(PortSide.parse("1A"), 1.0)
    await switch.change_crossconnects(remove=(), add=pairs("1A-2B"), deadline_s=world.soon)
    found = await switch.read_power([PortSide.parse(text) for text in ("1A", "1B", "2B")], deadline_s=world.soon)
    assert [each.power_dbm is None for each in found] == [False, True, False]
    assert found[0].power_dbm == pytest.approx(1.0, abs=0.11)
    await switch.close()
    await twin.close()


@in_world
async def test_keepalive_runs_until_the_connection_is_lost(world: World) -> None:
    twin, switch = await world.open()
    await asyncio.sleep(60)
    assert await switch.read_crossconnects(deadline_s=world.soon) == ()
    twin.faults.reset()
    assert isinstance(await switch.lost(), LinkError)
    await asyncio.sleep(60)
    await switch.close()
    await twin.close()


@in_world
async def test_a_wrong_password_is_a_login_error_without_the_password(world: World) -> None:
    with pytest.raises(LoginError, match=r"ocs1: GET /rest/ports/\?id=summary: the device answered 401") as refused:
        await world.open(user="lab", password="other")
    assert "geheim" not in str(refused.value)
    assert refused.value.code == "401"


@in_world
async def test_another_number_of_ports_is_a_config_error(world: World) -> None:
    twin, switch = await world.open()
    await switch.close()
    switch = await world.connect(size="32")
    with pytest.raises(ConfigError, match="16 ports, the testbed says 32"):
        await switch.capabilities(deadline_s=world.soon)
    await switch.close()
    await twin.close()


@in_world
async def test_json_that_makes_no_sense_ends_the_connection(world: World) -> None:
    twin, switch = await world.open()
    twin.faults.wrong_next = True
    with pytest.raises(ProtocolError, match="ocs1: "):
        await switch.read_crossconnects(deadline_s=world.soon)
    assert isinstance(await switch.lost(), ProtocolError)
    await switch.close()
    await twin.close()


@in_world
async def test_a_server_error_has_the_units_words(world: World) -> None:
    twin = make_twin(world.dialer, "mem:other")

    def handle(request: HttpRequest) -> HttpResponse:
        if "ports" in request.path:
            return HttpResponse(status=200, body=b'[{"port":"1.1.1"}]')
        return HttpResponse(status=503, body=b"try later")

    server = TwinServer(
        mirror=twin.mirror,
        clock=world.clock,
        dialer=world.dialer,
        address="mem:ocs1",
        make_session=lambda each: HttpSession(each, handle),
    )
    await server.start()
    switch = await world.connect()
    with pytest.raises(DeviceError, match="503 Service Unavailable: 'try later'") as failed:
        await switch.identify(deadline_s=world.soon)
    assert (failed.value.code, failed.value.command) == ("503", "GET /rest/info/?id=softwareversion")
    await switch.close()
    await server.close()


async def test_another_client_works_with_a_cookie_a_form_and_json() -> None:
    twin = make_twin(TcpDialer(), "127.0.0.1:0", tl1="127.0.0.1:0")
    address = await twin.start()
    async with httpx.AsyncClient(base_url=f"http://{address}/rest/", verify=False) as client:
        assert (await client.get("info/?id=restversion")).status_code == 401
        first = await client.get("info/?id=softwareversion", auth=("admin", "pw"))
        assert first.json() == {"version": "6.0-3"}
        assert client.cookies
        form = await client.post("crossconnects/", data={"id": "add", "in": "1.1.1", "out": "1.1.2", "dir": "uni"})
        assert form.json()[0]["status"] == "1", "the cookie is the login"
        bulk = await client.post(
            "crossconnects/?id=badd",
            json=[{"in": "1.1.3", "out": "1.1.4", "dir": "bi"}, {"in": "1.1.1", "out": "1.1.5", "dir": "uni"}],
        )
        assert [each["response"]["status"] for each in bulk.json()] == ["1", "0"]
        rows = (await client.get("crossconnects/?id=list")).json()
        assert [row["half1"]["conn"] for row in rows] == ["1.1.1>1.1.2", "1.1.3>1.1.4"]
        assert rows[1]["half2"]["conn"] == "1.1.4>1.1.3"
        port = (await client.get("ports/?id=detail&port=1.1.1")).json()[0]
        assert (port["incircuit"], port["outcircuit"], port["inas"]) == ("1.1.1>1.1.2", "", "IS")
        assert (await client.post("ports/?id=config", json={"port": "1.1.1", "inalias": "h0"})).json()[0][
            "status"
        ] == "1"
        assert (await client.get("ports/?id=summary")).json()[0]["inalias"] == "h0"
        detail = (await client.get("crossconnects/", params={"id": "detail", "conn": "1.1.1>1.1.2"})).json()
        assert (len(detail), detail[0]["half1"]["os"], "half2" in detail[0]) == (1, "IS", False)
        two_way = (await client.get("crossconnects/", params={"id": "detail", "conn": "1.1.3-1.1.4"})).json()
        assert two_way[0]["half2"]["conn"] == "1.1.4>1.1.3"
        assert (await client.post("crossconnects/?id=deactivate&conn=1.1.1%3E1.1.2")).json()[0]["status"] == "1"
        assert (await client.post("crossconnects/?id=activate&conn=1.1.1%3E1.1.2")).json()[0]["status"] == "1"
        assert (await client.delete("crossconnects/", params={"conn": "1.1.1>1.1.2"})).json()[0]["status"] == "1"
        assert (await client.delete("crossconnects/", params={"conn": "1.1.1>1.1.2"})).json()[0]["status"] == "0"
        assert (await client.post("crossconnects/?id=deleteall")).status_code == 200
        assert (await client.get("crossconnects/?id=list")).json() == []
        for path, status in (
            ("nothing/", 404),
            ("ports/?id=detail&port=9.9.9", 400),
            ("node/?id=summary&detail=X", 404),
        ):
            assert (await client.get(path)).status_code == status
        assert (await client.post("crossconnects/?id=badd", content=b"[[")).status_code == 400
        kinds: dict[str, type] = {"info/?id=softwareversion": dict, "info/?id=restversion": dict}
        kinds |= {"node/?id=summary&detail=HARDWARE": dict, "node/?id=summary&detail=SYSCFG": dict}
        kinds |= {"node/?id=summary&detail=SOFTWARE": list, "ports/?id=summary": list}
        for route, kind in kinds.items():
            assert isinstance((await client.get(route)).json(), kind), route
        node = (await client.get("node/?id=summary&detail=HARDWARE")).json()["nodeSysConfigInfo"]
        assert node["serialnumber"] == twin.unit.serial
    await twin.close()


async def test_both_protocols_are_open_on_the_same_state() -> None:
    twin = make_twin(TcpDialer(), "127.0.0.1:0", tl1="127.0.0.1:0")
    await twin.start()
    reader, writer = await asyncio.open_connection(*twin.addresses["tl1"].split(":"))
    await reader.readuntil(b"agent>")

    async def say(text: bytes) -> bytes:
        writer.write(text)
        return await asyncio.wait_for(reader.readuntil(b"agent>"), 5)

    await say(b"ACT-USER::lab:1::x;")
    assert b"COMPLD" in await say(b"ENT-CRS::1.1.1,1.1.2:2::LAB,1WAY,mine,,;")
    async with httpx.AsyncClient(
        base_url=f"http://{twin.addresses['rest']}/rest/", auth=("lab", "x"), verify=False
    ) as client:
        (row,) = (await client.get("crossconnects/?id=list")).json()
        assert (row["name"], row["group"], row["half1"]["as"]) == ("mine", "LAB", "UMA")
        refused = await client.post("crossconnects/?id=add", content=json.dumps({"in": "1.1.1", "out": "1.1.3"}))
        assert refused.json()[0]["status"] == "0"
        assert b"COMPLD" in await say(b"ACT-CRS::::mine;")
        (row,) = (await client.get("crossconnects/?id=list")).json()
        assert (row["half1"]["as"], row["half1"]["os"]) == ("IS", "IS")
        await client.post("crossconnects/?id=bdel", content=json.dumps([{"conn": "mine"}]))
    assert b'"' not in await say(b"RTRV-CRS::,:3;")
    twin.faults.reset()
    assert await reader.read() == b""
    writer.close()
    await twin.close()


@in_world
async def test_a_list_with_an_unknown_port_ends_the_session(world: World) -> None:
    twin, switch = await world.open()
    twin.unit.ports = PortMap(names=("1.1.\u00b2", *twin.unit.ports.names[1:]))
    with pytest.raises(ProtocolError, match=r"ocs1: port .*: not a name such as 3\.2\.8"):
        await switch.capabilities(deadline_s=world.soon)
    assert isinstance(await switch.lost(), ProtocolError)
    await switch.close()
    await twin.close()
