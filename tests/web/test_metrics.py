"""The metrics over HTTP: in the format that is asked for, whole, and to nobody's harm who goes away in the middle."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2
from fastapi import FastAPI
from prometheus_client.openmetrics import parser

from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd.telemetry import Budget, Metrics
from hwd.web.calls.metric_calls import METRICS, MetricCalls
from hwd.web.server import HttpServer, listen
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchPower

from ..texts import by_end


async def test_openmetrics_is_sent_to_who_asks_for_it(desk: Any) -> None:
    accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"}
    answer = await desk.call(httpx2.get, f"{desk.url}/metrics", headers=accept)
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = list(parser.text_string_to_metric_families(answer.text))  # type: ignore[no-untyped-call]
    assert "hwd_switch_up" in {family.name for family in families}


async def test_text_has_its_content_type_once_and_what_the_daemon_knows(desk: Any) -> None:
    answer = await desk.call(httpx2.get, f"{desk.url}/metrics")
    assert 'hwd_switch_up{switch="ocs1"} 1.0' in answer.text
    assert answer.headers.get_list("content-type") == ["text/plain; version=0.0.4; charset=utf-8"]


async def test_reader_that_goes_away_in_the_middle_does_no_harm() -> None:
    """It asked for far more than the sockets between them hold."""
    metrics = Metrics(Budget(switches=1, ends=100_000, hosts=1, ports=1, lanes=4), ReadyLinks(NicPorts()))
    powers: dict[str, float | None] = {f"{end}A": -1.0 for end in range(100_000)}
    metrics(Document(at_ns=0, wall_ns=0, fact=SwitchPower(switch="ocs1", power_dbm=by_end(powers))))
    app = FastAPI(openapi_url=None)
    app.include_router(METRICS.router(lambda: MetricCalls(metrics.render)))
    server = HttpServer(app, listen("127.0.0.1", 0), before_stop=lambda: None)
    place = urlsplit(await server.start())
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=1024)
    writer.write(f"GET /metrics HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.transport.abort()
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
        answer = await client.get(f"{place.geturl()}/metrics")
    assert answer.text.count("\n") > 100_000
    await server.stop()
