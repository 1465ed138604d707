"""The bytes of answers about runs, documents, probes, demands and devices: names, order and form of the fields."""

import json
import re
from pathlib import Path

from hwd_drivers.twins.server import Denial

from ..answers import check_golden
from .conftest import Desk, ended_run

ANSWERS = Path(__file__).with_name("answers.txt")
PLAYBOOK = """\
playbook: one
shows: one pair
parameters: {within_s: 3}
steps:
  - apply: {pairs: "ocs1:1A-2B"}
"""
LATE = {"text": PLAYBOOK, "file": "/one.yaml", "due_wall_ns": 2**62}
BLOCK = {"switch": "ocs1", "ends": ["3A..4A"], "to": "force-blocked"}
MASKS = (
    (r'(?<="inventory":){.*?}(?=,"(?:commit|virtual_time)")', "INVENTORY"),
    (r'(?<="commit":)("\w*"|null)', "COMMIT"),
    (r'(?<=_ns":)\d{18,}', "TIME"),
    (r"(?<=session )\d+", "N"),
)
"""What differs from run to run."""


async def test_answers_are_what_they_were_to_the_byte(desk: Desk) -> None:
    """To take over what is said now: delete the file and run this twice."""
    text, names = "", dict[str, str]()

    async def note(method: str, path: str, body: object = None) -> bytes:
        nonlocal text
        answer = await desk.ask(method, path, body)
        said = answer.content.decode()
        for pattern, mask in MASKS:
            said = re.sub(pattern, mask, said)
        lines = f"{method} {path}\n{answer.status_code} {answer.headers['content-type']}\n{said}\n\n"
        for id, name in names.items():
            lines = lines.replace(id, name)
        text += lines
        return answer.content

    await note("GET", "/healthz")
    await note("GET", "/readyz")
    late = json.loads((await desk.ask("POST", "/api/v1/runs", LATE)).content)["run"]
    names[late] = "LATE"
    await note("GET", f"/api/v1/runs/{late}/state")
    await note("POST", f"/api/v1/runs/{late}/abort", {"by": "ädä"})
    run = await ended_run(desk, PLAYBOOK, "/ö.yaml")
    names[run] = "RUN"
    await note("GET", f"/api/v1/runs/{run}")
    await note("GET", "/api/v1/runs?limit=1")
    await note("POST", "/api/v1/overrides", BLOCK)
    await note("POST", "/api/v1/overrides", BLOCK | {"to": "normal"})
    desk.twin.faults.deny_next = Denial(code="SROF", text="Equipment failure")
    await note("POST", "/api/v1/reconfigurations", {"what": "ocs1:3A-4B", "id": "mine0001"})
    check_golden(ANSWERS, text)


async def test_start_of_a_run_says_after_which_event_its_own_come(desk: Desk) -> None:
    after = desk.events.last_id
    answer = await desk.ask("POST", "/api/v1/runs", LATE)
    started = {"run": answer.json()["run"], "playbook": "one", "steps": 1, "state": "queued", "due_wall_ns": 2**62}
    expected = started | {"waits_for": ["its due time"], "after": after}
    assert answer.content == json.dumps(expected, separators=(",", ":")).encode()


async def test_documents_of_a_run_and_of_the_event_stream(desk: Desk) -> None:
    run = await ended_run(desk, PLAYBOOK, "/one.yaml")
    answer = await desk.ask("GET", f"/api/v1/runs/{run}/documents")
    documents = answer.json()
    assert {"run.step", "reconfiguration.started", "switch.command"} <= {one["kind"] for one in documents}
    assert all([*one] == ["kind", "at_ns", "wall_ns", "data"] for one in documents)
    assert answer.content == json.dumps(documents, separators=(",", ":")).encode()
    answer = await desk.ask("GET", "/api/v1/documents?after=boot1.0&kind=run.")
    kept = [one for one in documents if one["kind"].startswith("run.")]
    assert kept
    assert answer.json() == {"last": desk.events.last_id, "missed": 0, "documents": kept}
    answer = await desk.ask("GET", "/api/v1/documents")
    assert answer.json() == {"last": desk.events.last_id, "missed": 0, "documents": []}
