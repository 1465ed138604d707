"""A real Prometheus with our configuration on a running twin rack: every query of every board finds data."""

import asyncio
import itertools
import json
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from .conftest import STRAIGHT, Lab

ROOT = Path(__file__).parents[2]
EVERY = "500ms"
"""Between two scrapes, and two looks at the rules."""
BUILT_IN = {"$__rate_interval": "5s", "$__range": "5m"}
QUIET_S = 0.5
"""Between two looks at the boards; a query finds nothing new before the next scrape."""

WITHIN_S = 45.0
"""For all queries; a loaded machine with two cores takes a quarter of it."""

pytestmark = pytest.mark.timeout(120)

OF_SOME_HOSTS = (
    "hwd_nic_bytes_total",
    "hwd_nic_packets_total",
    "hwd_nic_pause_frames_total",
    "hwd_host_tcp_retransmissions_total",
    "hwd_selections_total",
    "hwd_wall_clock_",
    "hwd_job_efficiency_ratio",
)
"""Metrics of real hosts alone, some only where the agent's file asks for them, of hosts with switches, and of jobs that
run (`test_jobs_over_light.py` has one).
"""


class Prometheus:
    """The API of a running one."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.AsyncClient(base_url=url, timeout=10.0, trust_env=False, verify=False)

    async def ask(self, path: str, **parameters: str) -> Any:
        answer = (await self._client.get(f"/api/v1/{path}", params=parameters)).json()
        assert answer["status"] == "success", (path, parameters, answer)
        return answer["data"]

    async def query(self, expr: str) -> list[Any]:
        found: list[Any] = (await self.ask("query", query=expr))["result"]
        return found

    async def close(self) -> None:
        await self._client.aclose()


def configured(lab: Lab) -> Path:
    """Our configuration, quicker, and without a target yet."""
    folder = lab.folder / "prometheus"
    shutil.copytree(ROOT / "dashboards/prometheus", folder)
    config = yaml.safe_load((folder / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = dict.fromkeys(config["global"], EVERY)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "targets/hwd.yml").write_text("[]", encoding="utf-8")
    return folder / "prometheus.yml"


def target(lab: Lab) -> None:
    """Our file of targets, with the lab's daemon; moved into its place, since Prometheus reads it at once."""
    daemon = lab.said("daemon")
    assert daemon is not None
    targets = yaml.safe_load((ROOT / "dashboards/prometheus/targets/hwd.yml").read_text(encoding="utf-8"))
    targets[0]["targets"] = [daemon["http"].removeprefix("http://")]
    made = lab.folder / "hwd.yml"
    made.write_text(yaml.safe_dump(targets), encoding="utf-8")
    made.rename(lab.folder / "prometheus/targets/hwd.yml")


@pytest.fixture
async def prometheus(lab: Lab) -> AsyncIterator[Prometheus]:
    """On a live rack, after its first scrape."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus: apt-get install prometheus")
    running = await lab.start(
        "prometheus",
        program,
        f"--config.file={configured(lab)}",
        f"--storage.tsdb.path={lab.folder / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
        "--enable-feature=exemplar-storage",
    )
    await lab.up("--process-hosts")
    target(lab)

    async def listening() -> str | None:
        found = re.search(r'msg="Listening on" address=(\S+)', running.log.read_text())
        return f"http://{found[1]}" if found else None

    made = Prometheus(await lab.found("Prometheus listens", listening))

    async def scraped() -> bool | None:
        return bool(await made.query("hwd_build_info")) or None

    try:
        await lab.found("the daemon is scraped", scraped)
        yield made
    finally:
        await made.close()


def boards() -> Iterator[dict[str, Any]]:
    for path in sorted((ROOT / "dashboards/boards").glob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def filled(query: str) -> str:
    for name, value in BUILT_IN.items():
        query = query.replace(name, value)
    return re.sub(r"\$[a-z]+\b", ".*", query)


def queries() -> dict[str, str]:
    """By where they stand."""
    found = {}
    for board in boards():
        for panel in board["panels"]:
            for target in panel["targets"]:
                found[f"{board['title']}: {panel['title']} {target['refId']}"] = filled(target["expr"])
        for annotation in board["annotations"]["list"]:
            found[f"{board['title']}: annotation {annotation['name']}"] = filled(annotation["expr"])
    return found


def variables() -> dict[str, tuple[str, str]]:
    """The series and the label that they list, by where they stand."""
    found = {}
    for board in boards():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                match = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                assert match is not None
                found[f"{board['title']}: {variable['name']}"] = (filled(match[1]), match[2])
    return found


async def firing(prometheus: Prometheus) -> dict[str, dict[str, str]]:
    """Labels by the name of the alert."""
    alerts = (await prometheus.ask("alerts"))["alerts"]
    return {one["labels"]["alertname"]: one["labels"] for one in alerts if one["state"] == "firing"}


async def asked_until_found(prometheus: Prometheus, open: dict[str, str]) -> None:
    """Take those out that have data at some time; for ever, where one never has."""
    while open:
        for where, query in list(open.items()):
            if await prometheus.query(query):
                del open[where]
        await asyncio.sleep(QUIET_S)


async def test_every_query_of_every_board_finds_data_on_a_live_rack(lab: Lab, prometheus: Prometheus) -> None:
    without = {where: query for where, query in queries().items() if not any(name in query for name in OF_SOME_HOSTS)}

    async def denied() -> dict[str, str] | None:
        return (await firing(prometheus)).get("SwitchCommandsFail")

    try:
        async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
            group.create_task(asked_until_found(prometheus, without))
            await lab.fault("slow", seconds=0.6)  # long enough to be seen under way
            said = await lab.run(times=1)
            assert said.status == 0, said
            await lab.fault("clear")
            assert await firing(prometheus) == {}  # nobody complains of a healthy rack
            await lab.fault("deny", code="SROF", text="Mirror 3 is being calibrated")
            assert (await lab.go("apply", f"ocs1:{','.join(sorted(STRAIGHT))}")).status != 0
            assert (await lab.found("the alert fires", denied))["switch"] == "ocs1"
    except TimeoutError:
        raise AssertionError(f"no data: {json.dumps(without, indent=2)}") from None

    for where, (series, label) in variables().items():
        assert await prometheus.ask(f"label/{label}/values", **{"match[]": series}), where

    (scraped,) = [one for one in (await prometheus.ask("targets"))["activeTargets"] if one["labels"]["job"] == "hwd"]
    assert (scraped["health"], scraped["lastError"]) == ("up", "")
    failing = [
        rule["lastError"]
        for group in (await prometheus.ask("rules"))["groups"]
        for rule in group["rules"]
        if rule["health"] != "ok"
    ]
    assert failing == []

    told = (await lab.documents("reconfiguration.ended"))[0]
    window = {"start": "0", "end": "9999999999"}
    exemplars = await prometheus.ask("query_exemplars", query="hwd_stage_seconds_bucket", **window)
    labels = [exemplar["labels"] for series in exemplars for exemplar in series["exemplars"]]
    assert {"reconfiguration": told["reconfiguration"], "run": told["run"]} in labels


def test_boards_ask_for_something() -> None:
    assert len(queries()) > 30
    assert len(set(itertools.chain(variables()))) > 5
