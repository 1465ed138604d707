"""Scenario files: faults in their order, and everything that is wrong in one, with its line."""

from collections.abc import Callable
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]

from hwd.config.check import check_file
from hwd.config.json_schema import json_schema
from hwd.config.scenario import read_scenario
from hwd.config.yaml.tree import read_tree
from hwd.model.fault import Fault
from hwd_drivers.core.errors import ConfigError

from ..answers import check_answers

SOUND = """\
scenario: dying-mirror
shows: what a driver makes of it
faults:
  - {at_s: 90, fault: stick, ends: [3A]}
  - {at_s: 10.5, fault: drift, ends: [3A], loss_db: 6, over_s: 60}
  - at_s: 120
    fault: clear
every_s: 150
"""


def problems(text: str, *, switch: str | None = "ocs1", check: Callable[[Fault], None] | None = None) -> list[str]:
    return [str(problem) for problem in read_scenario(text, file="s.yaml", switch=switch, check=check).problems]


def test_faults_are_in_the_order_of_their_times_and_of_the_switch_or_the_rack_that_is_meant() -> None:
    scenario = read_scenario(SOUND, file="s.yaml", switch="ocs1").require()
    assert (scenario.name, scenario.every_s) == ("dying-mirror", 150)
    assert [(one.at_s, str(one.fault), one.source) for one in scenario.faults] == [
        (10.5, "ocs1 drift ends=3A loss_db=6.0 over_s=60.0", "s.yaml:5"),
        (90, "ocs1 stick ends=3A", "s.yaml:4"),
        (120, "ocs1 clear", "s.yaml:6"),
    ]
    text = "scenario: s\nfaults:\n  - {at_s: 0, fault: cut, port: h0.eth0}\n  - {at_s: 1, fault: clear}\n"
    scenario = read_scenario(text, file="s.yaml").require()
    assert [str(one.fault) for one in scenario.faults] == ["h0.eth0 cut strand=both", "clear"]


def test_every_mistake_is_told_with_its_place() -> None:
    def of(switch: str | None) -> Callable[[str], list[str]]:
        return lambda text: [one.removeprefix("s.yaml:") for one in problems(f"{text}\n", switch=switch)]

    golden = Path(__file__).with_name("scenario_refusals.txt")
    check_answers(golden, {"scenario of ocs1": of("ocs1"), "scenario of a rack": of(None)})


def test_what_cannot_be_set_is_told_with_its_place_and_a_scenario_is_a_kind_of_file_that_is_checked(
    tmp_path: Path,
) -> None:
    def check(fault: Fault) -> None:
        raise ConfigError(f"fault: {fault.subject} has no port 3A")

    told = problems(SOUND, check=check)
    assert "s.yaml:4: faults[0].fault: ocs1 has no port 3A" in told
    assert len(told) == 3
    path = tmp_path / "s.yaml"
    path.write_text(SOUND.replace("stick", "stuck"))
    assert [str(problem).partition("s.yaml")[2] for problem in check_file(read_tree(path))] == [
        ":4: faults[0].fault: 'stuck' is no fault; did you mean stick?"
    ]


def test_schema_of_a_scenario_lets_the_switch_be_left_out_and_no_time() -> None:
    validator = jsonschema.Draft202012Validator(json_schema("scenario"))
    good = {"scenario": "s", "faults": [{"at_s": 1, "fault": "slow", "seconds": 1}, {"at_s": 2, "fault": "clear"}]}
    assert validator.is_valid(good)
    for bad in ({"fault": "slow", "seconds": 1}, {"at_s": 1, "fault": "slow"}, {"at_s": 1, "fault": "cut"}):
        assert not validator.is_valid({"scenario": "s", "faults": [bad]})
