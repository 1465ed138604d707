"""Any tree of the keys of a file gives its value or problems, and no traceback."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.config.playbook.playbook import load_playbook_text
from hwd.config.scenario import read_scenario
from hwd.daemon.installed_drivers import load_text
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError

KEYS: Mapping[str, str] = {
    "testbed": "testbed switches hosts fibres ports passives packet_switches h0 ocs1 nics eth0 module type twin clock "
    "driver model kind login password gpus from to via options x",
    "playbook": "playbook steps parameters report lease apply wait repeat times topology pairs ports for_s for "
    "within_s by n hosts sweep parallel note host fault assert include set file with from to step switch mtu "
    "last.links",
    "scenario": "scenario faults every_s shows at_s fault ends switch seconds",
}
TEXTS: Mapping[str, list[str]] = {
    "testbed": ["polatis-tl1", "polatis-6000", "100g-lr4", "h0.eth0 <-> ocs1.1", "panel", "10.0.0.1"],
    "playbook": [
        "ring",
        "all",
        "ready",
        "ocs1:1A-2B",
        "{{ n }}",
        "{{",
        "h0",
        "n > last.links",
        "slow",
        "p.yaml",
        "ocs1",
    ],
    "scenario": ["slow", "clear", "x"],
}
ITEMS: Mapping[str, str] = {"testbed": "fibres", "playbook": "steps", "scenario": "faults"}
"""The key whose value is a list of mappings."""


def files(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    keys = st.sampled_from(KEYS[kind].split())
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(TEXTS[kind]) | st.text()
    trees = st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=25
    )
    items = st.lists(st.dictionaries(keys, trees, max_size=3), max_size=4)
    return st.builds(
        lambda items, more: {kind: "x", ITEMS[kind]: items} | more, items, st.dictionaries(keys, trees, max_size=6)
    )


@pytest.mark.parametrize("kind", KEYS)
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_tree_of_our_keys_gives_problems_and_no_traceback(kind: str, data: st.DataObject, opus: Testbed) -> None:
    read: Mapping[str, Callable[[str], object]] = {
        "testbed": lambda text: load_text(text, file="t.yaml").require(),
        "playbook": lambda text: load_playbook_text(text, file="p.yaml", testbed=opus),
        "scenario": lambda text: read_scenario(text, file="s.yaml", switch="ocs1").require(),
    }
    with contextlib.suppress(ConfigError):
        read[kind](yaml.safe_dump(data.draw(files(kind))))
