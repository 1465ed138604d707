"""The boards: as Grafana reads them, laid out without holes, and asking for nothing that is not there."""

import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

ROOT = Path(__file__).parents[2]
BOARDS = sorted((ROOT / "dashboards/boards").glob("*.json"))
SCHEMA = json.loads(Path(__file__).with_name("board.schema.json").read_text(encoding="utf-8"))
GOLDEN = ROOT / "tests/telemetry/metric_names.txt"
OF_TARGETS = {"instance", "job", "testbed"}
"""Labels that Prometheus puts onto what it scrapes."""
BUILT_IN = {"$__rate_interval": "1m", "$__range": "1h"}
UNITS = {"seconds": "s", "dbm": "dBm", "ratio": "percentunit", "amperes": "amp", "celsius": "celsius"}
COLUMNS = 24

Board = dict[str, Any]


def read(path: Path) -> Board:
    board: Board = json.loads(path.read_text(encoding="utf-8"))
    return board


boards = pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)


def queries(board: Board) -> Iterator[tuple[str, str]]:
    """Where it stands, and PromQL with the variables in it."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for annotation in board["annotations"]["list"]:
        yield f"annotation {annotation['name']}", annotation["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            (matcher,) = re.findall(r"^label_values\((.*), \w+\)$", variable["query"]["query"])
            yield f"variable {variable['name']}", matcher


def known(folder: Path) -> dict[str, set[str]]:
    """Labels by series."""
    alerts = {"alertname", "severity", *OF_TARGETS}
    found = {"up": OF_TARGETS, "ALERTS_FOR_STATE": alerts, "ALERTS": alerts | {"alertstate"}}
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        name, kind, *labels = line.split()
        of = OF_TARGETS | {label for label in labels for label in label.split(",")}
        for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            found[name + suffix] = of | ({"le"} if suffix == "_bucket" else set())
    for group in yaml.safe_load((folder / "prometheus/recording.yml").read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            found[rule["record"]] = set(rule["record"].split(":")[0].split("_")) | OF_TARGETS
    return found


def filled(query: str) -> str:
    for name, value in BUILT_IN.items():
        query = query.replace(name, value)
    return re.sub(r"\$\w+", ".*", query)


@boards
def test_it_is_what_grafana_reads_in_a_tidy_file(path: Path) -> None:
    board = read(path)
    jsonschema.Draft202012Validator(SCHEMA).validate(board)
    assert path.read_text(encoding="utf-8") == json.dumps(board, indent=2, ensure_ascii=False) + "\n"
    assert [panel["id"] for panel in board["panels"]] == [*range(1, len(board["panels"]) + 1)]
    for panel in board["panels"]:
        letters = [target["refId"] for target in panel["targets"]]
        assert len(letters) == len(set(letters)), panel["title"]
        assert panel["fieldConfig"]["defaults"].get("noValue"), f"{panel['title']}: without series it says no why"


@boards
def test_panels_fill_the_width_and_do_not_overlap(path: Path) -> None:
    cells: set[tuple[int, int]] = set()
    for panel in read(path)["panels"]:
        place = panel["gridPos"]
        across, down = (range(place[at], place[at] + place[size]) for at, size in (("x", "w"), ("y", "h")))
        taken = {*itertools.product(across, down)}
        assert not cells & taken, panel["title"]
        cells |= taken
    assert cells == set(itertools.product(range(COLUMNS), range(1 + max(y for _, y in cells))))


@boards
def test_queries_use_metrics_and_labels_that_are_there(path: Path, folder: Path) -> None:
    there = known(folder)
    for where, query in queries(read(path)):
        bare = re.sub(r'"[^"]*"', '""', query)
        names = set(re.findall(r"(?<![\w:$.])(?:hwd_\w+|\w+:\w+:\w+|up|ALERTS\w*)(?![\w:])", bare))
        assert names, f"{where}: asks for nothing"
        assert names <= set(there), f"{where}: {names - set(there)}"
        labels = set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", bare))
        labels |= {
            one.strip() for group in re.findall(r"\b(?:by|on|ignoring)\s*\(([^)]*)\)", bare) for one in group.split(",")
        }
        assert labels <= set.union(*(there[name] for name in names)), f"{where}: {labels}"
        assert '$rack"' in query or where == "variable rack", f"{where}: of all daemons at once"


@boards
def test_legends_name_labels_of_their_query(path: Path, folder: Path) -> None:
    there = known(folder) | {"what": {"what"}}
    for panel in read(path)["panels"]:
        for target in panel["targets"]:
            names = set(re.findall(r"[\w:]+", target["expr"])) & set(there)
            labels = set.union(*(there[name] for name in names)) | set(re.findall(r'"(\w+)", "', target["expr"]))
            assert set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))) <= labels, panel["title"]


@boards
def test_unit_of_a_panel_is_that_of_its_metrics(path: Path) -> None:
    for panel in read(path)["panels"]:
        unit = panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            (metric, *_) = re.findall(r"hwd_\w+|ALERTS\w*|\bup\b", target["expr"])
            base = re.sub(r"_(bucket|sum|count)$", "", metric)
            per_bucket = panel["type"] == "heatmap" or "histogram_quantile" in target["expr"] or ":" in target["expr"]
            counts = base != metric and not per_bucket
            expected = "none" if counts else UNITS.get(base.removesuffix("_total").rpartition("_")[2], "none")
            if re.search(r"(?<!\w)rate\(", target["expr"]) and not per_bucket:
                expected = "ops"
            assert unit == expected, f"{panel['title']}: {unit} of {metric}"


@boards
def test_variables_of_queries_are_declared_and_used(path: Path) -> None:
    board = read(path)
    declared = {variable["name"] for variable in board["templating"]["list"]}
    used = {name for _, query in queries(board) for name in re.findall(r"\$([a-z]+)\b", query)} | {"datasource"}
    assert used == declared


def test_prometheus_can_parse_every_query(promtool: str, tmp_path: Path) -> None:
    asked = [filled(query) for path in BOARDS for _, query in queries(read(path))]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(asked)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))
    said = subprocess.run(
        [promtool, "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr


def test_there_is_a_board_for_each_question_and_all_have_a_name_of_their_own() -> None:
    assert [path.stem for path in BOARDS] == ["experiment", "host", "rack", "switch"]
    assert {read(path)["uid"] for path in BOARDS} == {f"hwd-{path.stem}" for path in BOARDS}


def test_every_metric_is_on_a_board_or_in_an_alert(folder: Path) -> None:
    """What nobody looks at need not be there; `hwd_build_info` names the daemons."""
    asked = " ".join(query for path in BOARDS for _, query in queries(read(path)))
    asked += (folder / "prometheus/alerts.yml").read_text(encoding="utf-8")
    unseen = {line.split()[0] for line in GOLDEN.read_text(encoding="utf-8").splitlines()}
    unseen = {name for name in unseen if name not in asked}
    assert unseen <= {"hwd_reconfiguration_seconds", "hwd_recoveries_total"}, unseen


def test_provisioning_points_at_the_boards(folder: Path) -> None:
    dashboards = yaml.safe_load((folder / "grafana/provisioning/dashboards/hwd.yml").read_text(encoding="utf-8"))
    datasources = yaml.safe_load((folder / "grafana/provisioning/datasources/hwd.yml").read_text(encoding="utf-8"))
    assert dashboards["apiVersion"] == datasources["apiVersion"] == 1
    assert dashboards["providers"][0]["options"]["path"] == "$HWD_BOARDS"
    assert datasources["datasources"][0]["url"] == "$HWD_PROMETHEUS"
    scraped = yaml.safe_load((folder / "prometheus/prometheus.yml").read_text(encoding="utf-8"))["global"]
    assert datasources["datasources"][0]["jsonData"]["timeInterval"] == scraped["scrape_interval"]
