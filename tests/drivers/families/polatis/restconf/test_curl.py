"""A judge from outside: curl sends the twin what published programs for real units send."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hwd_drivers.transports.dial import TcpDialer

from ....stage import Stage, in_virtual_time

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

CROSSCONNECTS = "/api/data/optical-switch:cross-connects"
JSON = ("-H", "Accept: application/yang-data+json", "-H", "Content-Type: application/yang-data+json")
Curl = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    logins = {"logins": "usual"}
    async with Stage("polatis-restconf", "polatis-6000", "8x8", dialer=TcpDialer(), options={**logins}) as stage:
        yield stage


@pytest.fixture
def curl(stage: Stage) -> Curl:
    """`curl(path, *words)` is the status and the body of the answer of a twin, which the first call starts."""

    async def curl(path: str, *words: str) -> tuple[int, str]:
        if stage.twin is None:
            await stage.start()
        process = await asyncio.create_subprocess_exec(
            *("curl", "-q", "-sS", "--max-time", "20", "-u", "admin:root", "-w", "\n%{http_code}", *words),
            f"http://{stage.address}{path}",
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        body, _, status = said.decode().rpartition("\n")
        return int(status), body

    return curl


def error_of(body: str) -> Any:
    return json.loads(body)["ietf-restconf:errors"]["error"][0]


async def test_a_pair_is_put_in_xml_without_namespace_and_the_container_in_json(stage: Stage, curl: Curl) -> None:
    twin = await stage.start()
    xml = ("-H", "Content-Type: application/yang-data+xml")
    pair = "<pair><ingress>1</ingress><egress>13</egress></pair>"
    assert (await curl(f"{CROSSCONNECTS}/pair=1", "-X", "PUT", *xml, "-d", pair))[0] == 201
    assert (await curl(f"{CROSSCONNECTS}/pair=1", "-X", "PUT", *xml, "-d", pair))[0] == 204
    body = json.dumps(
        {"optical-switch:cross-connects": {"pair": [{"ingress": 1, "egress": 13}, {"ingress": 5, "egress": 9}]}}
    )
    assert (await curl(CROSSCONNECTS, "-X", "PUT", *JSON, "-d", body))[0] == 204
    assert twin.unit.pairs() == [(1, 13), (5, 9)]
    assert (await curl(CROSSCONNECTS, "-X", "DELETE"))[0] == 204
    assert twin.unit.pairs() == []


async def test_a_request_line_may_have_an_absolute_uri(stage: Stage, curl: Curl) -> None:
    twin = await stage.start()
    target = f"http://{twin.addresses['restconf']}/api/data/optical-switch:product-information"
    status, body = await curl("/", "--request-target", target)
    assert status == 200
    assert json.loads(body)["optical-switch:product-information"]["serial-number"] == twin.unit.product.serial


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ("pair", {"pair": [{"ingress": 1, "egress": 9}, {"ingress": 2, "egress": 10}]}),
        ("pair/egress", {"pair": [{"egress": 9}, {"egress": 10}]}),
        ("pair(egress;ingress)", {"pair": [{"ingress": 1, "egress": 9}, {"ingress": 2, "egress": 10}]}),
        ("optical-switch:pair(ingress)", {"pair": [{"ingress": 1}, {"ingress": 2}]}),
        ("nothing", {}),
    ],
)
async def test_fields_select(stage: Stage, curl: Curl, fields: str, found: dict[str, object]) -> None:
    twin = await stage.start()
    twin.unit.connect([(1, 9), (2, 10)])
    status, body = await curl(CROSSCONNECTS, "-G", "--data-urlencode", f"fields={fields}")
    assert (status, json.loads(body)) == (200, {"optical-switch:cross-connects": found})


async def test_fields_that_are_none_are_refused(curl: Curl) -> None:
    for fields in ("", "pair(", "pair)", "a;", "/a", "a b", "pair(ingress", ";", "a" * 600, "(" * 300):
        status, body = await curl(CROSSCONNECTS, "-G", "--data-urlencode", f"fields={fields}")
        assert status == 400, fields
        assert "fields" in error_of(body)["error-message"]


@pytest.mark.parametrize("name", ["cross-connects", "other:cross-connects", "ports/port=1", "optical-switch:nothing"])
async def test_an_unknown_module_is_not_found(curl: Curl, name: str) -> None:
    others = [("-X", "DELETE"), ("-X", "PUT", *JSON, "-d", "{}")]
    for words in [(), *(() if name.startswith("optical-switch:") else others)]:
        status, body = await curl(f"/api/data/{name}", *words)
        assert (status, error_of(body)["error-tag"]) == (404, "data-missing")


async def test_invalid_json_is_reported_as_text(curl: Curl) -> None:
    status, body = await curl(CROSSCONNECTS, "-X", "PUT", *JSON, "-d", '{"pair": [é}')
    message = error_of(body)["error-message"]
    assert status == 400
    assert message.startswith("""'{"pair": [é}' is no JSON: """)


async def test_groups_are_read_and_connected_as_one_published_page_does(stage: Stage, curl: Curl) -> None:
    twin = await stage.start()
    path = "/api/data/optical-switch:groups"
    assert await curl(path) == (200, '{"optical-switch:groups":{}}')
    made = [
        {"group-name": "PSU_01_SRC", "ingress": [1], "egress": [9]},
        {"group-name": "CCU_01_DST", "ingress": [2], "egress": [10]},
    ]
    body = json.dumps({"optical-switch:groups": {"group": made}})
    assert (await curl(path, "-X", "PUT", *JSON, "-d", body))[0] in (201, 204)
    one = json.dumps({"optical-switch:group": [{"group-name": "X", "ingress": [3], "egress": []}]})
    assert (await curl(f"{path}/group=X", "-X", "PUT", *JSON, "-d", one))[0] == 201
    join = json.dumps({"input": {"group-name-from": "CCU_01_DST", "group-name-to": "PSU_01_SRC"}})
    operation = "/api/operations/polatis-switch:add-group-cross-connect"
    assert (await curl(operation, *JSON, "-d", join)) == (204, "")
    assert sorted(twin.unit.pairs()) == [(1, 10), (2, 9)]
    _, body = await curl(path)
    assert json.loads(body)["optical-switch:groups"]["group"] == [
        {"group-name": "CCU_01_DST", "ingress": [2], "egress": [10], "connected-group": "PSU_01_SRC"},
        {"group-name": "PSU_01_SRC", "ingress": [1], "egress": [9], "connected-group": "CCU_01_DST"},
        {"group-name": "X", "ingress": [3], "connected-group": ""},
    ]
    other = json.dumps({"input": {"group-name-from": "X", "group-name-to": "PSU_01_SRC"}})
    status, body = await curl(operation, *JSON, "-d", other)
    assert status == 400
    assert "do not have as many inputs as outputs" in body
    leave = json.dumps({"input": {"group-name": "PSU_01_SRC"}})
    assert (await curl("/api/operations/polatis-switch:delete-group-cross-connect", *JSON, "-d", leave))[0] == 204
    assert twin.unit.pairs() == []
    assert (await curl(f"{path}/group=X", "-X", "DELETE"))[0] == 204
    assert (await curl(f"{path}/group=X"))[0] == 404


async def test_identity_follows_the_options(stage: Stage, curl: Curl) -> None:
    told = {
        "vendor": "HUBER+SUHNER",
        "product_code": "N-VST-8x8-LA1-DMHNV-701",
        "serial": "NS1234",
        "firmware": "6.7.3.9",
    }
    await stage.start(**told)
    _, body = await curl("/api/data/optical-switch:product-information")
    assert json.loads(body)["optical-switch:product-information"] == {
        "manufacturer": "HUBER+SUHNER",
        "model-name": "N-VST-8x8-LA1-DMHNV-701",
        "serial-number": "NS1234",
        "software-version": "6.7.3.9",
    }


@in_virtual_time
async def test_a_posted_pair_does_not_last_with_that_option() -> None:
    async with Stage("polatis-restconf", "polatis-6000", "8x8") as stage:
        twin = await stage.start(restconf_post_lasts_s=5.0)
        client = await stage.connect()
        for method, path, ingress in (("POST", "", 1), ("PUT", "/pair=2", 2)):
            body = json.dumps({"optical-switch:pair": [{"ingress": ingress, "egress": ingress + 8}]})
            head = f"{method} {CROSSCONNECTS}{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n"
            kind = f"Content-Type: application/yang-data+json\r\nContent-Length: {len(body)}\r\n\r\n"
            assert "201" in await client.ask(head + kind + body, within_s=0.001)
        assert twin.unit.pairs() == [(1, 9), (2, 10)]
        await asyncio.sleep(4.9)
        assert twin.unit.pairs() == [(1, 9), (2, 10)]
        await asyncio.sleep(0.2)
        assert twin.unit.pairs() == [(2, 10)]
