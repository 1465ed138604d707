"""Pages of docs/ against the code that they repeat, and against the tree."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from hwd.cli.program import program
from hwd.config.modules import MODULE_TYPES
from hwd.model.instant import InstantName, Knowledge, Origin
from hwd.model.kinds import KINDS
from hwd.playbook.runner import SafeState
from hwd.records.run import RunOutcome
from hwd.timeline.stage import StageName
from hwd.twin.timing import NIC_TIMINGS
from hwd.web.problem import problem_data
from hwd_agents import wire
from hwd_drivers.kit import errors
from hwd_drivers.kit.timing import SWITCH_TIMINGS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("*/*.md")])
TREE = ("docs", "examples", "playbooks", "drivers", "agents", "hwd", "tests", "bench", "dashboards")
"""Where a path in backticks begins that means a file of this tree."""


def kinds_of_error() -> list[type[errors.HwdError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.HwdError)]


def rows(page: str) -> dict[str, str]:
    """Table rows of a page by each name in backticks of their first cell."""
    found = {}
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                found[name] = line
    return found


def commands(group: object, before: str) -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        below = list(commands(command, f"{before} {name}"))
        yield from below or [f"{before} {name}"]


def test_every_command_has_an_example() -> None:
    shown = list(rows("reference/command-line.md"))
    for command in commands(get_command(program), "hwd"):
        assert any(f"{line} ".startswith(f"{command} ") for line in shown), command
    assert any(line.startswith("hwd-agent --config") for line in shown)


def test_every_exit_status_is_explained() -> None:
    text = (DOCS / "reference/command-line.md").read_text(encoding="utf-8")
    statuses = {0, 130} | {kind.exit_status for kind in kinds_of_error()}
    assert {int(status) for status in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)} == statuses


def test_every_error_of_http_is_explained_with_its_status() -> None:
    text = (DOCS / "reference/http-and-events.md").read_text(encoding="utf-8")
    lines = {int(line.split()[1]): line for line in text.splitlines() if re.match(r"\| \d+ \|", line)}
    for kind in kinds_of_error():
        if kind is errors.HwdError:
            continue
        if issubclass(kind, errors.DeviceError):
            error: errors.HwdError = kind("no", device="ocs1", command="", code="IIAC", text="")
        else:
            error = kind("no")
        data = problem_data(error)
        assert f"`{data['title']}`" in lines[data["status"]]


def test_every_kind_of_document_is_listed_with_its_fields() -> None:
    listed = rows("reference/http-and-events.md")
    for kind, fields in KINDS.items():
        assert set(re.findall(r"`(\w+)`", listed[kind].split(" | ")[1])) == fields, kind


def test_every_metric_is_listed_with_its_type_and_labels() -> None:
    listed = {name: line for name, line in rows("reference/metrics.md").items() if name.startswith("hwd_")}
    golden = (ROOT / "tests/telemetry/metric_names.txt").read_text(encoding="utf-8").splitlines()
    told = {}
    for name, line in listed.items():
        _, _, kind, labels, *_ = (cell.strip() for cell in line.split("|"))
        told[name] = " ".join([name, kind, ",".join(sorted(re.findall(r"\w+", labels)))]).strip()
    assert sorted(told.values()) == sorted(golden)


@pytest.mark.parametrize("page", ["reference/testbed-file.md", "explanations/facts.md"])
def test_every_timing_is_there(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in (*SWITCH_TIMINGS, *NIC_TIMINGS):
        assert f"`{name}`" in text


def test_every_module_type_is_there_with_its_powers() -> None:
    listed = rows("reference/testbed-file.md")
    for name, module in MODULE_TYPES.items():
        _, lanes, parallel, tx, rx, _ = (cell.strip(" |") for cell in listed[name].split(" | "))
        assert (int(lanes), parallel == "yes") == (module.lanes, module.parallel)
        assert [float(power) for power in tx.split(" to ")] == [module.tx_min_dbm, module.tx_max_dbm]
        assert [float(power) for power in rx.split(" to ")] == [module.rx_min_dbm, module.rx_max_dbm]


def test_instants_stages_and_origins_are_all_explained() -> None:
    listed = rows("explanations/timeline.md")
    text = (DOCS / "explanations/timeline.md").read_text(encoding="utf-8")
    assert {*InstantName, *StageName, *Origin} == set(listed)
    assert all(f"**{knowledge.replace('-', ' ')}**" in text for knowledge in Knowledge)


def test_outcomes_and_safe_states_are_all_explained() -> None:
    listed = rows("reference/playbooks.md")
    assert {*RunOutcome, *SafeState} <= set(listed)


def test_messages_on_mqtt_are_all_listed() -> None:
    text = (DOCS / "reference/mqtt.md").read_text(encoding="utf-8")
    for message in wire.AnyMessage.__args__:
        assert f"`{message.__struct_config__.tag}`" in text
    assert f"1 to {wire.EVENTS_MAX} things" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, heading = target.partition("#")
        there = (page.parent / path) if path else page
        assert there.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {one.lower().replace(" ", "-") for one in headings}, target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    names = re.findall(rf"(?<![\w/.])(?!hwd/1/)((?:{'|'.join(TREE)})/[\w./-]*\w)", page.read_text(encoding="utf-8"))
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    told = [str(page.relative_to(DOCS)) for page in DOCS.glob("*/*.md") if page.parent.name != "decisions"]
    assert [page for page in told if f"({page})" not in index] == []
