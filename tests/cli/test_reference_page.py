"""What docs/reference/command-line.md says of exit statuses and of --json is what the program does."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from docs.generate.command_line import leaves
from docs.generate.json_shapes import SHAPES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"


def unknown() -> list[tuple[str, int]]:
    """The commands of the table of names and ids that are not there, with the exit status that it states."""
    section = (
        PAGE.read_text(encoding="utf-8").partition("### Names and ids that are not there")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| .* \| (\d) \| (.*) \|$", section, re.MULTILINE)
    return [(command, int(status)) for status, commands in rows for command in re.findall(r"`hwd ([^`]+)`", commands)]


def test_the_table_of_what_is_not_there_is_read() -> None:
    assert {"show n0thing9", "confirm n0thing9", "lease grant ocs9"} <= {command for command, _ in unknown()}


@pytest.mark.parametrize(("command", "status"), unknown(), ids=[command for command, _ in unknown()])
def test_what_is_not_there_has_the_exit_status_of_the_page(hwd, daemon: int, command: str, status: int) -> None:  # type: ignore[no-untyped-def]
    words = shlex.split(command)
    said = hwd(*words, "--json")
    assert said.status == status, said.err
    if words[0] != "check":  # its findings are its document
        assert said.json["error"]["exit_status"] == status
    assert re.search(r"n0thing9|ocs9|h9|m9|d9|none|0123456789ab", said.err), "it is named"


@pytest.mark.parametrize("kind", ["testbed", "playbook", "document", "message"])
def test_schema_that_is_printed_is_the_one_beside_the_page(hwd, kind: str) -> None:  # type: ignore[no-untyped-def]
    said = hwd("schema", kind)
    assert (said.status, said.out) == (0, PAGE.with_name(f"{kind}.schema.json").read_text())


def test_every_command_with_json_has_its_shape_on_the_page() -> None:
    """A command that is new needs its shape in docs/generate/json_shapes.py."""
    assert {name for name, command in leaves() if any(one.name == "json" for one in command.params)} == set(SHAPES)


def keys(command: str, number: int = 0) -> set[str]:
    return set(SHAPES[command][number].keys)


def agrees(printed: Any, command: str, number: int = 0) -> None:
    """A field that does not apply may be left out; one that the page does not have may not be printed."""
    shape = SHAPES[command][number]
    assert isinstance(printed, list) == shape.listed
    for one in printed if shape.listed else [printed]:
        assert set(one) <= set(shape.keys), command
        assert next(iter(shape.keys)) in one
    assert printed != [], "an empty list shows nothing"


def test_what_commands_print_has_the_keys_of_the_page(hwd, daemon: int, testbed: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Those that one switch without hosts can do; a reload, a run and agents have tests of their own."""
    pair = ("ocs1:5A-6B", "--no-ready")
    agrees(hwd("plan", *pair, "--json").json, "plan")
    agrees(hwd("apply", *pair, "--confirm-within", "5m", "--json").json, "apply")
    agrees(hwd("confirm", "--json").json, "confirm")
    agrees(hwd("apply", "ocs1:none", "--no-ready", "--confirm-within", "5m", "--json").json, "apply")
    agrees(hwd("rollback", "--json").json, "rollback")
    agrees(hwd("restore", "--no-ready", "--json").json, "restore", 0)
    agrees(hwd("restore", "--no-ready", "--dry-run", "--json").json, "restore", 0)
    agrees(hwd("history", "--json").json, "history")
    agrees(hwd("status", "--json").json, "status")
    assert set(hwd("status", "--json").json) == keys("status"), "of the status, all"
    agrees(hwd("watch", "--since", "1h", "--count", "1", "--json").json, "watch")
    agrees(hwd("token", "--json").json, "token")
    lease = hwd("lease", "take", "ocs1.5", "ocs1.6", "--for", "5m", "--json").json
    agrees(lease, "lease take")
    agrees(hwd("lease", "list", "--json").json, "lease list")
    for verb in ("renew", "heartbeat"):
        agrees(hwd("lease", verb, lease["lease"], "--json").json, f"lease {verb}")
    made = hwd("prepare", "day=ocs1:5A-6B", "night=ocs1:5A-none", "--lease", lease["lease"], "--json").json
    agrees(made, "prepare")
    agrees(hwd("sets", "--json").json, "sets")
    agrees(hwd("switch", made["prepared_set"], "night", "--json").json, "switch")
    agrees(hwd("release", made["prepared_set"], "--json").json, "release")
    agrees(hwd("lease", "kick", lease["lease"], "--json").json, "lease kick")
    driven = hwd("apply", "ocs1:7A-8B", "--no-ready", "--json").json
    agrees(driven, "apply")
    agrees(hwd("rollback", "--to", driven["reconfiguration"], "--no-ready", "--json").json, "restore", 1)
    agrees(hwd("check", str(testbed), "smoke", "--json").json or [dict.fromkeys(keys("check"))], "check")
    agrees(hwd("driver", "list", "--json").json, "driver list")
    agrees(hwd("driver", "new", "acme-x1", str(tmp_path / "acme"), "--json").json, "driver new")
    agrees(hwd("twin", "settings", "polatis-6000", "--json").json, "twin settings")
    agrees(hwd("sim", "--seed", "2", "--json").json, "sim")


def test_what_commands_on_runs_print_has_the_keys_of_the_page(hwd, daemon: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    playbook = tmp_path / "pair.yaml"
    playbook.write_text("playbook: pair\nshows: x\nsteps:\n  - apply: {pairs: 'ocs1:5A-6B'}\n")
    ended = hwd("run", str(playbook), "--json").json
    assert set(ended) == keys("run")
    queued = hwd("run", str(playbook), "--in", "1h", "--detach", "--json").json
    agrees(queued, "run", 1)
    agrees(hwd("queue", "--json").json, "queue")
    assert set(hwd("abort", queued["run"], "--json").json) == keys("abort")
    assert all(set(one) == keys("runs") - {"trial"} for one in hwd("runs", "--json").json)
    assert set(hwd("show", ended["run"], "--json").json) == keys("show") - {"trial"}
    report = hwd("report", ended["run"], "-o", str(tmp_path / "report.html"), "--json").json
    assert set(report) == keys("report")
    bundle = str(tmp_path / "run.zip")
    assert set(hwd("export", ended["run"], "--as", "bundle", "-o", bundle, "--json").json) == keys("export")
    assert set(hwd("verify", bundle, "--json").json) == keys("verify")


def test_a_way_back_that_is_refused_is_one_document(hwd, daemon: int) -> None:  # type: ignore[no-untyped-def]
    """Its plan, with the refusal in it, and the exit status."""
    words = ("apply", "ocs1:1A-8B", "--no-ready", "--override", "forbidden-pair=a test", "--json")
    assert hwd(*words).status == 0
    gone = hwd("apply", "ocs1:1A-none", "--no-ready", "--json").json["reconfiguration"]
    said = hwd("rollback", "--to", gone, "--no-ready", "--dry-run", "--json")
    assert said.status == 3
    assert said.json["interlocks"]
    assert said.err.splitlines()[-1].startswith("refused: ")
