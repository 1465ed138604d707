"""Documents of Bluesky's event model, judged by the package event-model: its schemas, its router, its counting."""

import contextlib
import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import event_model
import msgspec
import numpy as np
import pytest

from hwd.cli.recorded_runs import recorded as records_of
from hwd.config.run_files.places import records_path
from hwd.daemon.installed_drivers import load
from hwd.model.recorded_run import RunOutcome
from hwd.model.run import RunState
from hwd.model.run_facts import RunStep
from hwd.report.export import COLUMNS, bluesky, rows
from hwd.sim.world import World
from hwd.timeline import StageName
from hwd_drivers.core.errors import FailedError
from hwd_drivers.devices.facts import SwitchPower
from hwd_drivers.twins.virtual_time import run_virtual

from ..conftest import Recorded

TWO_HOSTS = Path(__file__).parents[3] / "examples" / "two-hosts.yaml"
SWEPT = """
playbook: swept
shows: a sweep, a reconfiguration that keeps its links, and at last a step that fails
steps:
  - lease: {ports: all, for_s: 300}
  - sweep: {dwell_s: [0.5, 2.0]}
    steps:
      - apply: {pairs: "ocs1:1A-3B,3A-1B,2A-4B,4A-2B"}
      - wait: {for: ready, within_s: 30}
      - apply: {pairs: "ocs1:1A-3B,3A-1B,2A-4B,4A-2B"}
      - wait: {for_s: "{{ dwell_s }}"}
      - apply: {pairs: "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"}
      - wait: {for: ready, within_s: 30}
  - assert: 1 > 2
"""
EMPTY = """
playbook: empty
shows: nothing moves
steps:
  - note: "nothing is done"
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    """A run of a playbook in virtual time, read back from its records."""

    def made(playbook: str) -> Recorded:
        folder = tmp_path_factory.mktemp("records")

        async def run() -> None:
            url = f"sqlite:///{records_path(folder)}"
            async with World(load(TWO_HOSTS).require(), TWO_HOSTS.read_text(), seed=3, records_url=url) as world:
                with contextlib.suppress(FailedError):
                    await world.run_playbook(playbook, file="playbook.yaml")

        run_virtual(run(), seed=3)
        with records_of(None, str(folder)) as source:
            [summary] = source.runs(1)
            return source.run(summary.id), tuple(source.stream(summary.id))

    return made


@pytest.fixture(scope="module")
def swept(simulated: Callable[[str], Recorded]) -> Recorded:
    return simulated(SWEPT)


@pytest.fixture(params=["recorded", "broken off", "aborted", "crashed", "swept and failed", "empty", "no documents"])
def any_run(
    request: pytest.FixtureRequest,
    recorded: Recorded,
    broken_off: Recorded,
    simulated: Callable[[str], Recorded],
    swept: Recorded,
) -> Recorded:
    run, documents = broken_off
    unended = msgspec.structs.replace(run, outcome=None, ended_wall_ns=None)
    made: dict[str, Callable[[], Recorded]] = {
        "recorded": lambda: recorded,
        "broken off": lambda: (unended, documents),
        "aborted": lambda: (msgspec.structs.replace(run, outcome=RunOutcome.ABORTED, why="by mia"), documents),
        "crashed": lambda: (msgspec.structs.replace(unended, outcome=RunOutcome.CRASHED), documents),
        "swept and failed": lambda: swept,
        "empty": lambda: simulated(EMPTY),
        "no documents": lambda: (unended, ()),
    }
    return made[request.param]()


@dataclass
class Read:
    """The documents of a file, as a reader takes them."""

    start: dict[str, Any] = field(default_factory=dict)
    stop: dict[str, Any] = field(default_factory=dict)
    descriptors: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def data(self, stream: str) -> list[dict[str, Any]]:
        return [event["data"] for event in self.events.get(stream, [])]


def written(recorded: Recorded) -> bytes:
    to = io.BytesIO()
    bluesky(*recorded, to)
    return to.getvalue()


def read(recorded: Recorded) -> Read:
    """Read as databroker does, with event-model's schemas, and by its router, which needs each run to be in order."""
    found, seen = Read(), []

    class Reader(event_model.SingleRunDocumentRouter):
        def start(self, doc: Any) -> None:
            seen.append("start")
            found.start = doc

        def descriptor(self, doc: Any) -> None:
            seen.append("descriptor")
            assert doc["name"] not in found.descriptors
            found.descriptors[doc["name"]] = doc

        def event(self, doc: Any) -> Any:
            seen.append("event")
            descriptor = self.get_descriptor(doc)
            assert doc["data"].keys() == doc["timestamps"].keys() == descriptor["data_keys"].keys()
            found.events.setdefault(descriptor["name"], []).append(doc)
            return doc

        def stop(self, doc: Any) -> None:
            seen.append("stop")
            found.stop = doc

    reader = Reader()
    for line in written(recorded).splitlines():
        name, document = json.loads(line, parse_constant=pytest.fail)
        event_model.schema_validators[event_model.DocumentNames[name]].validate(document)
        reader(name, document)
    assert seen[0] == "start"
    assert "stop" not in seen[:-1]
    return found


def test_documents_are_what_event_model_takes(any_run: Recorded) -> None:
    found = read(any_run)
    run, documents = any_run
    assert found.stop["num_events"] == {name: len(events) for name, events in found.events.items()}
    assert found.descriptors.keys() == found.events.keys(), "databroker cannot read a stream without events"
    for of_stream in found.events.values():
        assert [event["seq_num"] for event in of_stream] == [*range(1, len(of_stream) + 1)]
    events = [event for of_stream in found.events.values() for event in of_stream]
    uids = [one["uid"] for one in (found.start, found.stop, *found.descriptors.values(), *events)]
    assert len(uids) == len(set(uids))
    steps = [one.fact for one in documents if isinstance(one.fact, RunStep)]
    assert [(one["step"], one["state"]) for one in found.data("steps")] == [(one.step, one.state) for one in steps]
    assert found.start["time"] == run.started_wall_ns / 1e9


def test_values_have_the_types_that_their_descriptors_state(any_run: Recorded) -> None:
    types: dict[str, type | tuple[type, ...]] = {"string": str, "number": (int, float), "boolean": bool, "integer": int}
    found = read(any_run)
    for name, descriptor in found.descriptors.items():
        for key, of_key in descriptor["data_keys"].items():
            values = [one[key] for one in found.data(name)]
            known = [value for value in values if value is not None]
            assert of_key["dtype"] == "number" or len(known) == len(values), "a reader makes a bool of None false"
            assert all(isinstance(value, types[of_key["dtype"]]) for value in known)
            assert of_key["dtype"] in ("boolean", "string") or not any(isinstance(value, bool) for value in known)
            assert not of_key.get("choices") or {*known} <= {*of_key["choices"]}
            assert of_key["description"]
            if of_key["dtype"] == "number":
                assert of_key["units"] in ("s", "dBm")
                column = np.array(values).astype(of_key["dtype_numpy"])
                assert np.isnan(column).tolist() == [value is None for value in values], "as databroker reads it"


def test_values_are_those_of_the_table(any_run: Recorded) -> None:
    run, documents = any_run
    names = [column.name for column in COLUMNS]
    table = [dict(zip(names, row, strict=True)) for row in rows(run, documents)]
    found = read(any_run)
    event_of = {(one["data"]["reconfiguration"], one["data"]["link"]): one for one in found.events.get("primary", [])}
    links = {key: event["data"] for key, event in event_of.items()}
    offset_ns = documents[0].wall_ns - documents[0].at_ns if documents else 0
    switches = {(one["reconfiguration"], one["switch"]): one for one in found.data("switch_commands")}
    compared = Counter[str]()
    for row in table:
        of_link = row["subject"] == "link"
        event = (
            links[row["reconfiguration"], row["link"]] if of_link else switches[row["reconfiguration"], row["switches"]]
        )
        stage = row["stage"]
        for column, value in row.items():
            key = {"seconds": f"{stage}_s", "switches": "switches" if of_link else "switch"}.get(column, column)
            if column in ("knowledge", "error_s", "least_s", "most_s", "origin", "why"):
                key = f"{stage}_{column}"
            if key in event:
                assert event[key] == value or (value is None and event[key] == ""), (key, value)
                compared[key] += 1
        if of_link and stage:
            at = event_of[row["reconfiguration"], row["link"]]
            seen_ns = row["end_best_ns"] if row["knowledge"] == "seen" else None
            told_s = (seen_ns + offset_ns) / 1e9 if isinstance(seen_ns, int) else at["time"]
            assert at["timestamps"][f"{stage}_s"] == told_s
        wall_ns = row["commanded_wall_ns"]
        assert event["commanded_s"] == (None if not isinstance(wall_ns, int) else wall_ns / 1e9)
    unchecked = {"commanded_s", "control_s"} if not table else {"commanded_s"}
    for events in (links.values(), switches.values()):
        for event in events:
            assert event.keys() <= {*compared} | unchecked
    assert len(links) * len(StageName) + len(switches) == len(table)


def test_powers_are_those_of_their_documents_and_dark_is_not_a_number(recorded: Recorded) -> None:
    read_powers = [
        (one.fact.switch, port, power_dbm is not None, power_dbm)
        for one in recorded[1]
        if isinstance(one.fact, SwitchPower)
        for port, power_dbm in one.fact.power_dbm.items()
    ]
    assert any(power_dbm is None for *_, power_dbm in read_powers)
    found = [(one["switch"], one["port"], one["lit"], one["power_dbm"]) for one in read(recorded).data("power")]
    assert found == read_powers


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (RunOutcome.SUCCEEDED, "success"),
        (RunOutcome.ABORTED, "abort"),
        (RunOutcome.FAILED, "fail"),
        (RunOutcome.CRASHED, "fail"),
    ],
)
def test_stop_says_how_the_run_ended(recorded: Recorded, outcome: RunOutcome, status: str) -> None:
    run, documents = recorded
    stop = read((msgspec.structs.replace(run, outcome=outcome, why="so it was"), documents)).stop
    assert (stop["exit_status"], stop["reason"], stop["outcome"]) == (status, "so it was", str(outcome))
    assert run.ended_wall_ns is not None
    assert stop["time"] == run.ended_wall_ns / 1e9


def test_failed_run_says_which_step_failed(swept: Recorded) -> None:
    found = read(swept)
    assert any(one["kept"] for one in found.data("primary")), "kept links have events too"
    assert {json.loads(one["sweep"])["dwell_s"] for one in found.data("primary")} == {0.5, 2.0}
    assert found.stop["exit_status"] == "fail"
    assert "1 > 2" in found.stop["reason"]
    assert found.data("steps")[-1]["state"] == "failed"


def test_run_that_broke_off_stops_with_what_was_recorded_until_then(broken_off: Recorded) -> None:
    run, documents = broken_off
    run = msgspec.structs.replace(run, outcome=None, ended_wall_ns=None)
    found = read((run, documents))
    assert (found.stop["exit_status"], found.stop["outcome"]) == ("fail", None)
    assert "its end is not recorded" in found.stop["reason"]
    assert found.stop["time"] == documents[-1].wall_ns / 1e9
    last = found.data("primary")[-1]
    assert (last["whole"], last["outcome"], last["turnaround_s"]) == (False, "", None)
    assert last["turnaround_why"]


def test_run_that_is_under_way_has_no_stop_yet(broken_off: Recorded) -> None:
    run, documents = broken_off
    run = msgspec.structs.replace(run, outcome=None, ended_wall_ns=None, state=RunState.RUNNING)
    assert read((run, documents)).stop == {}


def test_start_has_the_conditions_of_the_run_and_keys_and_texts_that_the_schema_takes(
    recorded: Recorded, changed: Callable[[str, str], Recorded]
) -> None:
    found = read(changed("ocs1:1A-3B", 'a\n"b\udc80 \u202e'))
    assert found.data("primary")[0]["topology"].startswith('a\n"b\udc80 \u202e')
    run, documents = recorded
    inventory = {"hosts": {"h0.lab/1": {"50%": 1, "": 2}}, "list": [{"a.b": [{"c/d": None}]}]}
    run = msgspec.structs.replace(run, parameters={"a.b": 0.5}, inventory=inventory)
    start = read((run, documents)).start
    assert start["parameters"] == {"a%2Eb": 0.5}
    assert start["inventory"]["hosts"] == {"h0%2Elab%2F1": {"50%25": 1, "%": 2}}
    assert start["inventory"]["list"] == [{"a%2Eb": [{"c%2Fd": None}]}]
    assert (start["run"], start["plan_name"], start["testbed"]) == (run.id, run.playbook, run.testbed)
    assert start["virtual_time"] is True
    assert start["versions"] == {"hwd": run.version, "hwd_commit": run.commit}
