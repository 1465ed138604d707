"""Scrape configuration, recording and alert rules: promtool checks them, and runs every one on made-up series."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from hwd.cli.command_table import make_program
from hwd.model.kinds import KINDS

CASES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("rule_cases.yml").read_text(encoding="utf-8"))
SEVERITIES = {"critical", "warning", "info"}


def rules(folder: Path) -> Iterator[dict[str, Any]]:
    for name in ("alerts.yml", "recording.yml"):
        for group in yaml.safe_load((folder / "prometheus" / name).read_text(encoding="utf-8"))["groups"]:
            yield from group["rules"]


@pytest.fixture
def alerts(folder: Path) -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules(folder) if "alert" in rule}


def run(*command: str, cwd: Path) -> str:
    said = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def filled(text: str, labels: dict[str, str]) -> str:
    """As Prometheus fills an annotation in: only labels stand in ours."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)


def alert_test(case: dict[str, Any], alerts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    fires = case["fires"]
    rule = alerts[fires["alert"]]
    told = {
        "exp_labels": {**fires["labels"], **rule["labels"]},
        "exp_annotations": {name: filled(text, fires["labels"]) for name, text in rule["annotations"].items()},
    }
    return {
        "interval": "5s",
        "input_series": [{"series": name, "values": values} for name, values in case["series"].items()],
        "alert_rule_test": [
            {"alertname": fires["alert"], "eval_time": case["silent"], "exp_alerts": []},
            {"alertname": fires["alert"], "eval_time": fires["at"], "exp_alerts": [told]},
        ],
    }


def recorded_test(case: dict[str, Any]) -> dict[str, Any]:
    labels = ",".join(f'{name}="{value}"' for name, value in case["labels"].items())
    return {
        "interval": "5s",
        "input_series": [{"series": name, "values": values} for name, values in case["series"].items()],
        "promql_expr_test": [
            {
                "expr": f"round({case['query']}, 0.000001)",
                "eval_time": case["at"],
                "exp_samples": [{"labels": f"{{{labels}}}", "value": case["value"]}],
            }
        ],
    }


def test_configuration_and_rules_are_valid(promtool: str, folder: Path) -> None:
    """With the rules that it names."""
    run(promtool, "check", "config", "prometheus.yml", cwd=folder / "prometheus")
    said = run(promtool, "check", "rules", "alerts.yml", "recording.yml", cwd=folder / "prometheus")
    assert "duplicate" not in said


def test_every_rule_does_on_made_up_series_what_its_case_says(
    promtool: str, folder: Path, alerts: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    test = {
        "rule_files": [str(folder / "prometheus" / name) for name in ("recording.yml", "alerts.yml")],
        "evaluation_interval": "5s",
        "tests": [alert_test(case, alerts) for case in CASES["alerts"]]
        + [recorded_test(case) for case in CASES["recorded"]],
    }
    (tmp_path / "rules_test.yml").write_text(yaml.safe_dump(test), encoding="utf-8")
    run(promtool, "test", "rules", "rules_test.yml", cwd=tmp_path)


def test_every_rule_has_a_case(folder: Path, alerts: dict[str, dict[str, Any]]) -> None:
    assert {case["fires"]["alert"] for case in CASES["alerts"]} == set(alerts)
    assert {case["query"] for case in CASES["recorded"]} == {
        rule["record"] for rule in rules(folder) if "record" in rule
    }


def test_every_alert_says_what_is_wrong_and_what_to_do_next(alerts: dict[str, dict[str, Any]]) -> None:
    for name, rule in alerts.items():
        assert rule["labels"].keys() == {"severity"}, name
        assert rule["labels"]["severity"] in SEVERITIES, name
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}, name
        assert "$labels" in rule["annotations"]["summary"], f"{name}: says not where"


def test_every_command_of_a_runbook_is_there(alerts: dict[str, dict[str, Any]]) -> None:
    there = getattr(get_command(make_program()), "commands")  # noqa: B009 - typer's group is not typed as one
    for name, rule in alerts.items():
        for line in re.findall(r"`hwd ([^`]+)`", rule["annotations"]["runbook"]):
            command, *options = line.split()
            assert command in there, f"{name}: hwd {command}"
            known = {option for each in there[command].params for option in each.opts}
            assert {option for option in options if option.startswith("-")} <= known, f"{name}: {line}"
            assert {kind for kind in options if "." in kind} <= set(KINDS), f"{name}: {line}"
