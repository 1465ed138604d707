"""Scenario files: faults in their order, and everything that is wrong in one, with its line."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.config.check import check_file
from hwd.config.json_schema import json_schema
from hwd.config.scenario import read_scenario
from hwd.config.yaml.tree import read_tree
from hwd.model.fault import Fault
from hwd_drivers.core.errors import ConfigError

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


def test_faults_are_in_the_order_of_their_times_and_of_the_switch_that_is_meant() -> None:
    scenario = read_scenario(SOUND, file="s.yaml", switch="ocs1").require()
    assert (scenario.name, scenario.every_s) == ("dying-mirror", 150)
    assert [(one.at_s, str(one.fault), one.source) for one in scenario.faults] == [
        (10.5, "ocs1 drift ends=3A loss_db=6.0 over_s=60.0", "s.yaml:5"),
        (90, "ocs1 stick ends=3A", "s.yaml:4"),
        (120, "ocs1 clear", "s.yaml:6"),
    ]


def test_subjects_of_a_rack_are_named() -> None:
    text = "scenario: s\nfaults:\n  - {at_s: 0, fault: cut, port: h0.eth0}\n  - {at_s: 1, fault: clear}\n"
    scenario = read_scenario(text, file="s.yaml").require()
    assert [str(one.fault) for one in scenario.faults] == ["h0.eth0 cut strand=both", "clear"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("scenario: s\n", "s.yaml:1: faults: is missing"),
        ("scenario: s\nfaults: []\n", "s.yaml:2: faults: must not be empty"),
        ("scenario: a b\nfaults: [{at_s: 1, fault: reset}]\n", "s.yaml:1: scenario: must match"),
        ("scenario: s\nfautls: []\n", "s.yaml:2: fautls: unknown key; did you mean faults?"),
        ("scenario: s\nfaults:\n  - slow\n", "s.yaml:3: faults[0]: must be a mapping, such as {at_s: 10"),
        ("scenario: s\nfaults:\n  - {fault: reset}\n", "s.yaml:3: faults[0].at_s: is missing"),
        (
            "scenario: s\nfaults:\n  - {at_s: -1, fault: reset}\n",
            "s.yaml:3: faults[0].at_s: must be greater than or equal to 0, not -1",
        ),
        ("scenario: s\nfaults:\n  - {at_s: 1}\n", "s.yaml:3: faults[0].fault: is missing"),
        (
            "scenario: s\nfaults:\n  - at_s: 1\n    fault: slwo\n",
            "s.yaml:4: faults[0].fault: 'slwo' is no fault; did you mean slow?",
        ),
        (
            "scenario: s\nfaults:\n  - at_s: 1\n    fault: slow\n    secs: 1\n",
            "s.yaml:5: faults[0].secs: unknown key; did you mean seconds?",
        ),
        (
            "scenario: s\nfaults:\n  - at_s: 1\n    fault: slow\n    seconds: -1\n",
            "s.yaml:4: faults[0].fault: ocs1 slow: seconds: must be greater than or equal to 0",
        ),
        (
            "scenario: s\nfaults:\n  - at_s: 1\n    fault: stick\n    ends: []\n",
            "s.yaml:4: faults[0].fault: stick: name at least one end",
        ),
        (
            "scenario: s\nevery_s: 5\nfaults:\n  - {at_s: 5, fault: reset}\n",
            "s.yaml:4: faults[0].at_s: 5.0 s is never reached: the scenario repeats every 5.0 s",
        ),
    ],
)
def test_mistake_is_told_with_its_place(text: str, problem: str) -> None:
    assert [one for one in problems(text) if one.startswith(problem)], problems(text)


def test_without_a_switch_that_is_meant_a_fault_names_its_own() -> None:
    told = problems("scenario: s\nfaults:\n  - {at_s: 1, fault: reset}\n", switch=None)
    assert told == [
        "s.yaml:3: faults[0].fault: reset: switch: is missing; it must be text. reset takes switch (text)"
    ], "the line of the fault"


def test_what_cannot_be_set_is_told_with_its_place() -> None:
    def check(fault: Fault) -> None:
        raise ConfigError(f"fault: {fault.subject} has no port 3A")

    told = problems(SOUND, check=check)
    assert "s.yaml:4: faults[0].fault: ocs1 has no port 3A" in told
    assert len(told) == 3


def test_scenario_is_a_kind_of_file_that_is_checked(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "s.yaml"
    path.write_text(SOUND.replace("stick", "stuck"))
    assert [str(problem).partition("s.yaml")[2] for problem in check_file(read_tree(path))] == [
        ":4: faults[0].fault: 'stuck' is no fault; did you mean stick?"
    ]


def test_schema_of_a_scenario_lets_the_switch_be_left_out_and_no_time() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json_schema("scenario"))
    good = {"scenario": "s", "faults": [{"at_s": 1, "fault": "slow", "seconds": 1}, {"at_s": 2, "fault": "clear"}]}
    assert validator.is_valid(good)
    for bad in ({"fault": "slow", "seconds": 1}, {"at_s": 1, "fault": "slow"}, {"at_s": 1, "fault": "cut"}):
        assert not validator.is_valid({"scenario": "s", "faults": [bad]})


@given(
    st.dictionaries(
        st.sampled_from(["scenario", "faults", "every_s", "shows"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.sampled_from(["slow", "clear", "x"]),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["at_s", "fault", "ends", "switch", "seconds"]), inner, max_size=4)
            ),
            max_leaves=8,
        ),
    )
)
def test_anything_is_a_scenario_or_a_list_of_problems(data: dict[str, object]) -> None:
    import yaml

    loaded = read_scenario(yaml.safe_dump(data), file="s.yaml", switch="ocs1")
    assert (loaded.scenario is None) == bool([one for one in loaded.problems if not one.warning])
