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


def said(loaded: Any) -> list[str]:
    return [str(problem).partition("testbed.yaml:")[2] for problem in loaded.problems if not problem.warning]


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


def test_everything_that_is_wrong_is_reported_at_once_with_its_line(load: Load) -> None:
    loaded = load(
        SOUND
        + """interlocks:
  loss-budgets: {override: allowed}
  overload: {override: yes please}
  input-power: {max_dbm: {ocs2: 17}}
  wear: {moves: {tx0: 5}}
  rate: {changes: {ocs1: 3, ocs9: 3}}
  forbidden-pair:
    pairs:
      h0.eth0 <-> h1.eth7: ""
      ocs1:1A-9B: ""
      ocs7:1A-2B: ""
      3A-4B: ""
      tx0:in-2: ""
"""
    )
    assert said(loaded) == [
        "12: interlocks.loss-budgets: unknown key; did you mean loss-budget?",
        "13: interlocks.overload.override: must be 'allowed' or 'never', not 'yes please'",
        "14: interlocks.input-power.max_dbm.ocs2: ocs2 is no switch; did you mean ocs1?",
        "15: interlocks.wear.moves.tx0: tx0 belongs to host h0, which sets it: no plan moves it",
        "16: interlocks.rate.changes.ocs9: ocs9 is no switch; did you mean ocs1?",
        "19: interlocks.forbidden-pair.pairs.h0.eth0 <-> h1.eth7: h1.eth7 is no NIC port; did you mean h1.eth0?",
        "20: interlocks.forbidden-pair.pairs.ocs1:1A-9B: ocs1 has no 9B",
        "21: interlocks.forbidden-pair.pairs.ocs7:1A-2B: ocs7 is no switch; did you mean ocs1?",
        "22: interlocks.forbidden-pair.pairs.3A-4B: '3A-4B' is no pair; write h0.eth0 <-> h1.eth0, or ocs1:1A-2B",
        "23: interlocks.forbidden-pair.pairs.tx0:in-2: tx0 belongs to host h0, which sets it: no plan moves it",
    ]


def test_crossconnect_of_a_composite_of_a_hosts_own_switch_cannot_be_forbidden(load: Load) -> None:
    loaded = load(
        SOUND
        + """composites:
  sel: {ports: {1A: tx0.in, 1B: tx0.1}}
interlocks:
  forbidden-pair: {pairs: {"sel:1A-1B": laser safety}}
"""
    )
    assert "14: interlocks.forbidden-pair.pairs.sel:1A-1B: tx0 belongs to host h0, which sets it: no plan moves it" in (
        said(loaded)
    )


def test_limits_are_whole_numbers_above_zero(load: Load) -> None:
    loaded = load(SOUND + "interlocks:\n  wear: {moves: {ocs1: 0}}\n  rate: {changes: {ocs1: 1.5}, per_s: 0}\n")
    assert [text.split(": ")[0:2] for text in said(loaded)] == [
        ["12", "interlocks.wear.moves.ocs1"],
        ["13", "interlocks.rate.changes.ocs1"],
        ["13", "interlocks.rate.per_s"],
    ]
