"""A rack of three makes in one apply and its timeline.

A Polatis over TL1, a SONiC switch over SSH, and a composite switch of forty 1x4 and 2x2 elements.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hwd.daemon.installed_drivers import load

from .conftest import NAME, Lab

pytestmark = pytest.mark.timeout(180)

EXAMPLE = Path(__file__).parents[2] / "examples" / "mixed-rack.yaml"
BOTH_RAILS = """topology: both-rails
links: [h0.eth0 <-> h1.eth0, h0.eth1 <-> h1.eth1, h2.eth0 <-> h3.eth0, h2.eth1 <-> h3.eth1]
"""
CROSSED = """topology: crossed
links: [h0.eth0 <-> h3.eth0, h0.eth1 <-> h3.eth1, h1.eth0 <-> h2.eth0, h1.eth1 <-> h2.eth1]
"""
PLAYBOOK = """playbook: three-makes
shows: one apply over all switches of a mixed rack
steps:
  - lease: {ports: all, for_s: 300}
  - apply: {topology: both-rails.yaml}
  - wait: {for: ready, within_s: 30}
  - apply: {topology: crossed.yaml}
  - wait: {for: ready, within_s: 30}
"""


def of_lab() -> str:
    """The example under the name that the lab has, with NICs that need no time."""
    text = EXAMPLE.read_text().replace("testbed: mixed-rack", f"testbed: {NAME}")
    return text.replace("timing: opus-cx6dx", "timing: ideal")


def test_the_example_has_what_it_says() -> None:
    testbed = load(EXAMPLE).require()
    assert {switch.driver for switch in testbed.switches.values()} == {
        "polatis-tl1",
        "sonic-ocs",
        "osw",
        "thorlabs-osw",
    }
    elements = [element for switch in testbed.switches.values() for element in switch.capabilities.elements]
    assert len(elements) == 40
    assert {len(element.crossconnects) for element in elements} == {4}
    assert Counter(len(element.states) for element in elements) == {5: 32, 2: 8}, "1x4 that can be dark, and 2x2"
    assert len(testbed.composites["sel"].ports) == 32


@pytest.mark.slow
async def test_one_apply_goes_over_all_three_and_its_report_has_the_timeline(lab: Lab) -> None:
    await lab.up(text=of_lab())
    (lab.folder / "both-rails.yaml").write_text(BOTH_RAILS)
    (lab.folder / "crossed.yaml").write_text(CROSSED)
    playbook = lab.folder / "three-makes.yaml"
    playbook.write_text(PLAYBOOK)

    planned = await lab.ok("plan", str(lab.folder / "both-rails.yaml"))
    for words in (
        "sel: ",
        "element moves",
        "1A-4B through tx0:1A-1B osw0:1A-4B osw0:8A-29B",
        "ocs1: +",
        "ocs2: +",
        "osw3: -",
    ):
        assert words in planned.out, planned.out

    ran = await lab.hwd("run", str(playbook), "--json")
    assert (ran.status, ran.json["outcome"]) == (0, "succeeded"), ran
    status = await lab.get("/api/v1/status")
    assert {link["link"]: link["carrier"] for link in status["links"]} == dict.fromkeys(
        ("h0.eth0<->h3.eth0", "h0.eth1<->h3.eth1", "h1.eth0<->h2.eth0", "h1.eth1<->h2.eth1"), True
    )
    (composite,) = status["composites"]
    assert len(composite["crossconnects"]) == 16
    assert composite["away"] == []
    there = {switch["switch"]: len(switch["crossconnects"]) for switch in status["switches"]}
    assert (there["ocs1"], there["ocs2"]) == (4, 4)

    documents = await documents_of(lab, ran.json["run"])
    timelines = told_of(documents, "timeline")
    assert len(timelines) == 2
    for timeline in timelines:
        assert len(timeline["links"]) == 4
        assert all(stages(link).get("turnaround") is not None for link in timeline["links"]), timeline["links"]
    commanded = {command["switch"] for command in timelines[0]["commands"]}
    assert commanded >= {"ocs1", "ocs2", "osw0", "osw1", "osw2", "osw3"}

    page = lab.folder / "report.html"
    await lab.ok("report", ran.json["run"], "-o", str(page))
    written = page.read_text()
    assert all(words in written for words in ("h0.eth0&lt;-&gt;h1.eth0", "both-rails", "crossed"))
    carriers = [one for one in told_of(documents, "host.event") if one["type"] == "carrier"]
    assert {one["data"]["unseen"] for one in carriers} == {0}, "no change of a carrier was lost"
    ports = {(one["host"], one["port"]) for one in carriers}
    for port in ports:
        counted = [one["data"]["carrier_changes"] for one in carriers if (one["host"], one["port"]) == port]
        assert counted == list(range(counted[0], counted[0] + len(counted)))
    assert len(ports) == 8


async def documents_of(lab: Lab, run: str) -> list[dict[str, Any]]:
    said = await lab.ok("export", run, "--as", "jsonl", "-o", "-")
    return [json.loads(line) for line in said.out.splitlines()]


def told_of(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document["data"] for document in documents if document.get("kind") == kind]


def stages(link: dict[str, Any]) -> dict[str, float | None]:
    return {stage["name"]: stage["seconds"] for stage in link["stages"]}
