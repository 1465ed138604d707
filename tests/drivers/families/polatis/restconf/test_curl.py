"""A judge from outside: curl sends the twin what published programs for real units send."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.ids import Draws
from hwd_drivers.families.polatis.models import restconf_driver
from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

JSON = ("-H", "Accept: application/yang-data+json", "-H", "Content-Type: application/yang-data+json")
Curl = Callable[..., Awaitable[tuple[int, str]]]


@asynccontextmanager
async def unit(**options: Json) -> AsyncIterator[tuple[PolatisTwin, Curl]]:
    """A twin, and curl as its client: `curl(path, *words)` is the status and the body of the answer."""
    twin = PolatisTwin(
        "restconf",
        name="ocs1",
        capabilities=restconf_driver.capabilities("polatis-6000", "8x8"),
        timing=find_timing("ideal"),
        draws=Draws(7),
        clock=SystemClock(),
        dialer=TcpDialer(),
        address="127.0.0.1:0",
        options={"logins": "usual"} | options,
    )
    address = await twin.start()

    async def curl(path: str, *words: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *("curl", "-q", "-sS", "--max-time", "20", "-u", "admin:root", "-w", "\n%{http_code}", *words),
            f"http://{address}{path}",
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        body, _, status = said.decode().rpartition("\n")
        return int(status), body

    try:
        yield twin, curl
    finally:
        await twin.close()


async def test_a_pair_is_put_in_xml_without_namespace_and_the_container_in_json() -> None:
    async with unit() as (twin, curl):
        path = "/api/data/optical-switch:cross-connects"
        xml = ("-H", "Content-Type: application/yang-data+xml")
        pair = "<pair><ingress>1</ingress><egress>13</egress></pair>"
        assert (await curl(f"{path}/pair=1", "-X", "PUT", *xml, "-d", pair))[0] == 201
        assert (await curl(f"{path}/pair=1", "-X", "PUT", *xml, "-d", pair))[0] == 204
        body = json.dumps(
            {"optical-switch:cross-connects": {"pair": [{"ingress": 1, "egress": 13}, {"ingress": 5, "egress": 9}]}}
        )
        assert (await curl(path, "-X", "PUT", *JSON, "-d", body))[0] == 204
        assert twin.unit.pairs() == [(1, 13), (5, 9)]
        assert (await curl(path, "-X", "DELETE"))[0] == 204
        assert twin.unit.pairs() == []


async def test_a_request_line_may_have_an_absolute_uri() -> None:
    async with unit() as (twin, curl):
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
async def test_fields_select(fields: str, found: dict[str, object]) -> None:
    async with unit() as (twin, curl):
        twin.unit.connect([(1, 9), (2, 10)])
        status, body = await curl(
            "/api/data/optical-switch:cross-connects", "-G", "--data-urlencode", f"fields={fields}"
        )
        assert (status, json.loads(body)) == (200, {"optical-switch:cross-connects": found})


@pytest.mark.parametrize("fields", ["", "pair(", "pair)", "a;", "/a", "a b", "pair(ingress", ";", "a" * 600, "(" * 300])
async def test_fields_that_are_none_are_refused(fields: str) -> None:
    async with unit() as (_, curl):
        status, body = await curl(
            "/api/data/optical-switch:cross-connects", "-G", "--data-urlencode", f"fields={fields}"
        )
        assert status == 400
        assert "fields" in json.loads(body)["ietf-restconf:errors"]["error"][0]["error-message"]


@pytest.mark.parametrize("name", ["cross-connects", "other:cross-connects", "ports/port=1", "optical-switch:nothing"])
async def test_an_unknown_module_is_not_found(name: str) -> None:
    async with unit() as (_, curl):
        for words in ((), ("-X", "DELETE"), ("-X", "PUT", *JSON, "-d", "{}")):
            if name.startswith("optical-switch:") and words:
                continue
            status, body = await curl(f"/api/data/{name}", *words)
            assert (status, json.loads(body)["ietf-restconf:errors"]["error"][0]["error-tag"]) == (404, "data-missing")


async def test_invalid_json_is_reported_as_text() -> None:
    async with unit() as (_, curl):
        path = "/api/data/optical-switch:cross-connects"
        status, body = await curl(path, "-X", "PUT", *JSON, "-d", '{"pair": [é}')
        message = json.loads(body)["ietf-restconf:errors"]["error"][0]["error-message"]
        assert status == 400
        assert message.startswith("""'{"pair": [é}' is no JSON: """)


async def test_groups_are_read_and_connected_as_one_published_page_does() -> None:
    async with unit() as (twin, curl):
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


async def test_identity_follows_the_options() -> None:
    told = {
        "vendor": "HUBER+SUHNER",
        "product_code": "N-VST-8x8-LA1-DMHNV-701",
        "serial": "NS1234",
        "firmware": "6.7.3.9",
    }
    async with unit(**told) as (_, curl):
        _, body = await curl("/api/data/optical-switch:product-information")
        assert json.loads(body)["optical-switch:product-information"] == {
            "manufacturer": "HUBER+SUHNER",
            "model-name": "N-VST-8x8-LA1-DMHNV-701",
            "serial-number": "NS1234",
            "software-version": "6.7.3.9",
        }


def test_a_posted_pair_does_not_last_with_that_option() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        twin = PolatisTwin(
            "restconf",
            name="ocs1",
            capabilities=restconf_driver.capabilities("polatis-6000", "8x8"),
            timing=find_timing("ideal"),
            draws=Draws(7),
            clock=VirtualClock(loop, wall_start_ns=0),
            dialer=TcpDialer(),
            address="127.0.0.1:0",
            options={"restconf_post_lasts_s": 5.0},
        )
        address = await twin.start()
        reader, writer = await asyncio.open_connection(*address.split(":"))
        for method, path, ingress in (("POST", "", 1), ("PUT", "/pair=2", 2)):
            body = json.dumps({"optical-switch:pair": [{"ingress": ingress, "egress": ingress + 8}]})
            head = (
                f"{method} /api/data/optical-switch:cross-connects{path} HTTP/1.1\r\nHost: a\r\n"
                "Authorization: Basic YTpi\r\n"
            )
            writer.write(
                f"{head}Content-Type: application/yang-data+json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            assert b"201" in await reader.readuntil(b"\r\n\r\n")
        assert twin.unit.pairs() == [(1, 9), (2, 10)]
        await asyncio.sleep(4.9)
        assert twin.unit.pairs() == [(1, 9), (2, 10)]
        await asyncio.sleep(0.2)
        assert twin.unit.pairs() == [(2, 10)]
        writer.close()
        await twin.close()

    run_virtual(main())
