"""The section `interlocks` of a testbed file: what it says, and all that is wrong in it at once."""

from collections.abc import Callable
from typing import Any

from hwd.model.interlock import InterlockName, InterlockRules
from hwd_drivers.core.values import Crossconnect

SOUND = """testbed: small
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: 10.0.0.5}
  tx0: {driver: osw, model: 1x4, owner: h0, address: /dev/ttyUSB0}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.2
"""
Load = Callable[[str], Any]


def test_without_the_section_no_limit_is_set_and_nothing_can_be_overridden(load: Load) -> None:
    assert load(SOUND).require().interlocks == InterlockRules()
    assert load(SOUND + "interlocks:\n").require().interlocks == InterlockRules()


def test_all_keys_are_read(load: Load) -> None:
    rules = (
        load(
            SOUND
            + """
interlocks:
  input-power: {max_dbm: {ocs1: 17, tx0: 24.5}}
  loss-budget: {override: allowed}
  overload: {override: never}
  port-state: {override: allowed}
  wear: {moves: {ocs1: 1000000}, moves_per_hour: {ocs1: 600}, override: allowed}
  rate: {changes: {ocs1: 30}, per_s: 20}
  forbidden-pair: {pairs: {h1.eth0 <-> h0.eth0: other tenants, "ocs1:4B-3A": bad mirror}}
"""
        )
        .require()
        .interlocks
    )
    assert rules.overridable == {InterlockName.LOSS_BUDGET, InterlockName.PORT_STATE, InterlockName.WEAR}
    assert rules.input_max_dbm == {"ocs1": 17.0, "tx0": 24.5}
    assert (rules.moves_max, rules.moves_per_hour_max) == ({"ocs1": 1_000_000}, {"ocs1": 600})
    assert (rules.changes_max, rules.rate_s) == ({"ocs1": 30}, 20.0)
    assert {tuple(sorted(map(str, pair))): why for pair, why in rules.forbidden_ports.items()} == {
        ("h0.eth0", "h1.eth0"): "other tenants"
    }
    assert rules.forbidden_crossconnects == {("ocs1", Crossconnect.parse("3A-4B")): "bad mirror"}


def test_every_name_of_an_interlock_is_a_key(load: Load) -> None:
    allowed = "".join(f"  {name}: {{override: allowed}}\n" for name in InterlockName)
    assert load(f"{SOUND}interlocks:\n{allowed}").require().interlocks.overridable == {*InterlockName}
