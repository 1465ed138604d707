from collections.abc import Callable

from hwd.fabric.budget import over_budget
from hwd.model.testbed import Testbed

RACK = """
switches:
  ocs1: {{driver: oxc, model: one-way, size: 8, address: "10.0.0.1"}}
  ocs2: {{driver: oxc, model: one-way, size: 8, address: "10.0.0.2"}}
hosts:
  h0: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
  h1: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
  h2: {{nics: {{eth0: {{module: 100g-lr4}}}}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.2
  - h2.eth0 <-> ocs2.1
  - {{from: ocs1.7, to: ocs2.7, loss_db: {one}}}
  - {{from: ocs1.8, to: ocs2.8, loss_db: {other}}}
"""


def test_pair_with_one_way_within_its_budget_is_not_named(make: Callable[[str], Testbed]) -> None:
    assert over_budget(make(RACK.format(one=6.0, other=1.0))) == ()


def test_pair_is_named_with_its_way_of_least_loss(make: Callable[[str], Testbed]) -> None:
    found = over_budget(make(RACK.format(one=6.0, other=4.0)))
    assert [(str(one.source), list(map(str, one.targets)), one.loss_db_max) for one in found] == [
        ("h0.eth0", ["h2.eth0"], 7.0),
        ("h1.eth0", ["h2.eth0"], 7.0),
        ("h2.eth0", ["h0.eth0", "h1.eth0"], 7.0),
    ]
    assert str(found[2]).startswith(
        "h2.eth0 can never meet its loss budget with h0.eth0, h1.eth0: the way to h0.eth0 loses up to 7.0 dB"
    )


def test_modules_that_cannot_be_joined_have_no_budget(make: Callable[[str], Testbed]) -> None:
    text = RACK.format(one=6.0, other=6.0).replace(
        "h2: {nics: {eth0: {module: 100g-lr4}}}", "h2: {nics: {eth0: {module: 100g-dr1}}}"
    )
    assert over_budget(make(text)) == ()
