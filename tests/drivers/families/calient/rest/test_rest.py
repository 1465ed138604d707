"""The Calient REST driver and twin: partial success in the unit's own words, unit variants, and foreign clients."""

import asyncio
import json

import httpx2
import pytest

from hwd_drivers.codecs.http import HttpRequest, HttpResponse
from hwd_drivers.core.errors import DeviceError, LinkError, ProtocolError, RefusedError
from hwd_drivers.families.calient.ports import PortMap
from hwd_drivers.families.calient.unit import Wish
from hwd_drivers.transports.dial import Dialer

from ....stage import Stage, texts


def make_stage(dialer: Dialer | None = None) -> Stage:
    return Stage("calient-rest", "calient-s320", "16", login=("lab", "geheim"), dialer=dialer)


async def test_a_change_is_one_bulk_to_remove_and_one_to_add(stage: Stage) -> None:
    stage.timing = "polatis-opus"
    _, switch = await stage.start_and_open()
    first = await switch.change(add="1A-2B 2A-1B 3A-3B")
    assert (first.commands, first.before) == (1, ())
    assert first.acknowledged_ns - first.commanded_ns > 20_000_000, "it waited for light"
    second = await switch.change(remove="1A-2B 2A-1B", add="1A-1B 2A-2B")
    assert second.commands == 2
    assert texts(second.before or ()) == "1A-2B 2A-1B 3A-3B"
    assert await switch.read() == ["1A-1B tuned", "2A-2B tuned", "3A-3B tuned"]


@pytest.mark.parametrize("results", ["wrapped", "flat"])
async def test_partial_success_is_reported_with_the_text_of_each_item_and_the_rest_is_done(
    stage: Stage, results: str
) -> None:
    _, switch = await stage.start_and_open(results=results)
    await switch.change(add="4A-4B")
    with pytest.raises(DeviceError) as failed:
        await switch.change(add="1A-1B 2A-4B 3A-3B 5A-4B")
    error = failed.value
    assert str(error).startswith("ocs1: badd: the device failed 2 of 4: ADD 2A-4B: Failed: Invalid Connection")
    assert error.text.count("Port already in Connection: 1.1.4") == 2
    assert "ADD 5A-4B" in error.text
    assert (error.device, error.code) == ("ocs1", "Failed")
    assert await switch.pairs() == "1A-1B 3A-3B 4A-4B"


async def test_a_part_that_is_denied_by_a_fault_has_the_words_of_the_fault(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.partial_next = 1
    with pytest.raises(DeviceError, match="2A-2B gone"):
        await switch.change(add="1A-1B 2A-2B")
    assert stage.lit() == "1A-1B"


async def test_a_unit_whose_badd_only_enters_is_activated(stage: Stage) -> None:
    _, switch = await stage.start_and_open(rest_add="enters")
    exchange = await switch.change(add="1A-2B 2A-1B")
    assert exchange.commands == 3
    assert stage.lit() == "1A-2B 2A-1B"


async def test_a_unit_whose_list_has_no_states_is_asked_for_details(stage: Stage) -> None:
    _, switch = await stage.start_and_open(rest_list="names")
    await switch.change(add="1A-2B")
    assert await switch.read() == ["1A-2B tuned"]


async def test_half_of_a_connection_of_both_ways_is_refused(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    unit = twin.unit
    unit.enter(Wish(source="1.1.1", destination="1.1.2", two_way=True, group="LAB", name="mine"), activate=True)
    with pytest.raises(RefusedError, match="2WAY connection mine"):
        await switch.change(remove="1A-2B")
    await switch.change(remove="1A-2B 2A-1B")
    assert stage.lit() == ""


async def test_keepalive_runs_until_the_connection_is_lost(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    await asyncio.sleep(60)
    assert await switch.read() == []
    twin.faults.reset()
    assert isinstance(await switch.lost(), LinkError)
    await asyncio.sleep(60)


async def test_json_that_makes_no_sense_ends_the_connection(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.wrong_next = True
    with pytest.raises(ProtocolError, match="ocs1: "):
        await switch.read()
    assert isinstance(await switch.lost(), ProtocolError)


async def test_a_server_error_has_the_units_words(stage: Stage) -> None:
    def handle(request: HttpRequest) -> HttpResponse:
        if "ports" in request.path:
            return HttpResponse(status=200, body=b'[{"port":"1.1.1"}]')
        return HttpResponse(status=503, body=b"try later")

    await stage.serve(handle)
    switch = await stage.open()
    with pytest.raises(DeviceError, match="503 Service Unavailable: 'try later'") as failed:
        await switch.identify()
    assert (failed.value.code, failed.value.command) == ("503", "GET /rest/info/?id=softwareversion")


async def test_both_protocols_are_open_on_the_same_state(on_tcp: Stage) -> None:
    twin = await on_tcp.start(tl1="127.0.0.1:0")
    reader, writer = await asyncio.open_connection(*twin.addresses["tl1"].split(":"))
    await reader.readuntil(b"agent>")

    async def say(text: bytes) -> bytes:
        writer.write(text)
        return await asyncio.wait_for(reader.readuntil(b"agent>"), 5)

    await say(b"ACT-USER::lab:1::x;")
    assert b"COMPLD" in await say(b"ENT-CRS::1.1.1,1.1.2:2::LAB,1WAY,mine,,;")
    async with httpx2.AsyncClient(
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


async def test_a_list_with_an_unknown_port_ends_the_session(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.unit.ports = PortMap(names=("1.1.\u00b2", *twin.unit.ports.names[1:]))
    with pytest.raises(ProtocolError, match=r"ocs1: port .*: not a name such as 3\.2\.8"):
        await switch.capabilities()
    assert isinstance(await switch.lost(), ProtocolError)
