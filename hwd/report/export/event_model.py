"""A run as documents of Bluesky's event model, a line each: `["start", {...}]`, descriptors, events, `["stop", {...}]`.

suitcase-jsonl writes such lines, databroker reads them.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO
from uuid import UUID, uuid5

from msgspec import UNSET

from hwd.model.recorded_run import Run, RunOutcome
from hwd.model.run_facts import RunStep
from hwd.report.export.event_streams import (
    LINKS,
    POWER,
    PRIMARY,
    STEPS,
    SWITCH_COMMANDS,
    Stream,
    ends_ns,
    of_link,
    of_switch,
)
from hwd.report.export.json_lines import json_line
from hwd.report.export.rows import Row, link_rows, switch_rows
from hwd.report.reconfigurations import Reassembly, RecordedReconfiguration
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchPower

_NAMESPACE = UUID("5d4f6f36-6a55-5d4f-9a3c-0a7f0a6c1a5e")
"""The namespace of the ids of all documents: the same run has the same ids wherever it is exported."""
_EXIT_STATUS = {
    RunOutcome.SUCCEEDED: "success",
    RunOutcome.ABORTED: "abort",
    RunOutcome.FAILED: "fail",
    RunOutcome.CRASHED: "fail",
}
_NO_END = "its end is not recorded: the daemon ended during the run, or it is under way"
_NS_IN_S = 1e9


def bluesky(run: Run, documents: Iterable[Document], to: BinaryIO) -> None:
    """Times are unix seconds by the daemon's wall clock. A stream without events has no descriptor.

    A run that the daemon says is under way has no stop document yet.
    """
    _Story(run, to).tell(documents)


class _Story:
    def __init__(self, run: Run, to: BinaryIO) -> None:
        self._run = run
        self._to = to
        self._reassembly = Reassembly(run)
        self._counts: dict[str, int] = {}
        self._last_wall_ns = run.started_wall_ns

    def tell(self, documents: Iterable[Document]) -> None:
        self._write("start", _start(self._run, uid=self._uid("start")))
        for document in documents:
            self._last_wall_ns = document.wall_ns
            match document.fact:
                case RunStep() as step:
                    self._step(step)
                case SwitchPower() as power:
                    self._power(power)
            if (one := self._reassembly.take(document)) is not None:
                self._reconfigured(one)
        for one in self._reassembly.rest():
            self._reconfigured(one)
        if self._run.outcome is not None or self._run.state is UNSET:
            self._write("stop", self._stop())

    def _step(self, step: RunStep) -> None:
        values = {
            "step": step.step,
            "branch": step.branch or None,
            "what": step.what,
            "state": step.state,
            "done": step.done,
            "total": step.total,
            "expected_s": step.expected_s,
            "sweep": json.dumps(step.sweep, ensure_ascii=False) if step.sweep else None,
        }
        self._event(STEPS, values)

    def _power(self, power: SwitchPower) -> None:
        for port, power_dbm in power.power_dbm.items():
            values = {"switch": power.switch, "port": port, "lit": power_dbm is not None, "power_dbm": power_dbm}
            self._event(POWER, values)

    def _reconfigured(self, one: RecordedReconfiguration) -> None:
        """Its events have the time at which its record was complete; each duration has that of its stage's end."""
        for row in switch_rows(self._run, one):
            self._event(SWITCH_COMMANDS, of_switch(row), _ended((row,), one))
        for rows in link_rows(self._run, one):
            self._event(LINKS, of_link(rows), _ended(rows, one))

    def _event(self, stream: Stream, values: Mapping[str, object], ended_s: Mapping[str, float] | None = None) -> None:
        """`ended_s`: when the fields with a prefix were known, where that is not the time of the event."""
        time_s = self._last_wall_ns / _NS_IN_S
        descriptor = self._uid("descriptor", stream.name)
        number = self._counts.get(stream.name, 0) + 1
        if number == 1:
            self._write("descriptor", self._descriptor(stream, uid=descriptor, time_s=time_s))
        self._counts[stream.name] = number
        times = ended_s or {}
        stamps = {
            key.name: next((at_s for prefix, at_s in times.items() if key.name.startswith(prefix)), time_s)
            for key in stream.keys
        }
        event = {
            "uid": self._uid("event", stream.name, str(number)),
            "time": time_s,
            "data": {key.name: key.value(values[key.name]) for key in stream.keys},
            "timestamps": stamps,
            "seq_num": number,
            "filled": {},
            "descriptor": descriptor,
        }
        self._write("event", event)

    def _descriptor(self, stream: Stream, *, uid: str, time_s: float) -> dict[str, Any]:
        return {
            "uid": uid,
            "time": time_s,
            "run_start": self._uid("start"),
            "name": stream.name,
            "description": stream.means,
            "data_keys": {key.name: {**key.to_data(), "object_name": stream.name} for key in stream.keys},
            "object_keys": {stream.name: [key.name for key in stream.keys]},
            "hints": {stream.name: {"fields": [*stream.shown]}},
            "configuration": {},
        }

    def _stop(self) -> dict[str, Any]:
        run = self._run
        ended_ns = self._last_wall_ns if run.ended_wall_ns is None else run.ended_wall_ns
        return {
            "uid": self._uid("stop"),
            "time": ended_ns / _NS_IN_S,
            "run_start": self._uid("start"),
            "exit_status": "fail" if run.outcome is None else _EXIT_STATUS[run.outcome],
            "reason": run.why if run.outcome is not None else _NO_END,
            "num_events": self._counts,
            "outcome": None if run.outcome is None else str(run.outcome),
            "safe_state": run.safe_state,
        }

    def _uid(self, *place: str) -> str:
        return str(uuid5(_NAMESPACE, "/".join((self._run.id, *place)).encode("utf-8", "backslashreplace").decode()))

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        self._to.write(json_line([name, document]))


def _start(run: Run, *, uid: str) -> dict[str, Any]:
    return {
        "uid": uid,
        "time": run.started_wall_ns / _NS_IN_S,
        "run": run.id,
        "plan_name": run.playbook,
        "testbed": run.testbed,
        "virtual_time": run.virtual_time,
        "parameters": _with_legal_keys(run.parameters),
        "inventory": _with_legal_keys(run.inventory),
        "versions": {"hwd": run.version, "hwd_commit": run.commit},
        "playbook_text": run.playbook_text,
        "testbed_text": run.testbed_text,
        "hints": {"dimensions": [[["time"], PRIMARY]]},
    }


def _with_legal_keys(value: Any) -> Any:
    """The schema of a start document has no `.` and no `/` in keys: they are percent-encoded, and `%` with them."""
    match value:
        case dict():
            return {_legal(str(key)): _with_legal_keys(part) for key, part in value.items()}
        case list():
            return [_with_legal_keys(part) for part in value]
    return value


def _legal(key: str) -> str:
    return key.replace("%", "%25").replace(".", "%2E").replace("/", "%2F") or "%"


def _ended(rows: Iterable[Row], one: RecordedReconfiguration) -> dict[str, float]:
    """When each stage ended, by the prefix of its fields; a stage whose end was not seen is missing."""
    found = ((prefix, at_ns) for prefix, at_ns in map(ends_ns, rows) if at_ns is not None)
    return {prefix: (at_ns + one.wall_offset_ns) / _NS_IN_S for prefix, at_ns in found}
