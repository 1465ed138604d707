"""The daemon's own alerts against those of Prometheus: the same names, severities, hold times and limits."""

import re
from pathlib import Path
from typing import Any

import yaml

from hwd.telemetry.alert_rules import PROMETHEUS_ALONE, RULES, Rule

FILE = Path(__file__).parents[2] / "dashboards" / "prometheus" / "alerts.yml"
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
RECORDED_S = {"switch:hwd_switch_commands:failed_10m": 600.0}
"""Windows of recording rules that an alert is about."""


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)([smh])", text).groups()  # type: ignore[union-attr]
    return float(number) * SECONDS[unit]


def rule_of(alert: dict[str, Any]) -> Rule:
    """What alerts.yml says, as the daemon has it."""
    subject = alert["expr"].split("unless")[0]  # what follows excludes something
    windows = [seconds(one) for one in re.findall(r"increase\([^\[]*\[(\w+)(?::\w*)?\]\)", subject)]
    windows += [window_s for name, window_s in RECORDED_S.items() if name in subject]
    limit = re.search(r'le="([\d.]+)"', subject) or re.search(r"[<>] (\S+)\s*$", subject)  # a bucket, or a value
    return Rule(
        severity=alert["labels"]["severity"],
        for_s=seconds(alert.get("for", "0s")),
        within_s=windows[0] if windows else None,
        limit=0.0 if limit is None else float(limit[1]),
    )


ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}


def test_every_alert_is_decided_by_the_daemon_or_it_says_why_it_cannot() -> None:
    assert set(ALERTS) == {*RULES, *PROMETHEUS_ALONE}
    assert not RULES.keys() & PROMETHEUS_ALONE.keys()
    assert all(PROMETHEUS_ALONE.values())


def test_rules_are_those_of_prometheus() -> None:
    assert {name: rule_of(ALERTS[name]) for name in RULES} == RULES


def test_windows_of_recording_rules_are_those_of_their_file() -> None:
    groups = yaml.safe_load(FILE.with_name("recording.yml").read_text(encoding="utf-8"))["groups"]
    recorded = {rule["record"]: rule["expr"] for group in groups for rule in group["rules"]}
    for name, window_s in RECORDED_S.items():
        assert [seconds(one) for one in re.findall(r"\[(\w+)\]", recorded[name])] == [window_s]
