from collections.abc import Callable

from hwd.fabric.graph import Graph
from hwd.fabric.loss_budget import over_budget
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
    assert over_budget(Graph(make(RACK.format(one=6.0, other=1.0)))) == ()


def test_pair_is_named_with_its_way_of_least_loss(make: Callable[[str], Testbed]) -> None:
    found = over_budget(Graph(make(RACK.format(one=6.0, other=4.0))))
    assert [(str(one.source), list(map(str, one.targets)), one.more, one.loss_db_max) for one in found] == [
        ("h0.eth0", ["h2.eth0"], 0, 7.0),
        ("h1.eth0", ["h2.eth0"], 0, 7.0),
        ("h2.eth0", ["h0.eth0", "h1.eth0"], 0, 7.0),
    ]
    assert str(found[2]).startswith(
        "h2.eth0 can never meet its loss budget with h0.eth0, h1.eth0: the way to h0.eth0 loses up to 7.0 dB"
    )


def test_modules_that_cannot_be_joined_have_no_budget(make: Callable[[str], Testbed]) -> None:
    text = RACK.format(one=6.0, other=6.0).replace(
        "h2: {nics: {eth0: {module: 100g-lr4}}}", "h2: {nics: {eth0: {module: 100g-dr1}}}"
    )
    assert over_budget(Graph(make(text))) == ()


def test_the_first_four_of_many_are_named_and_the_sender_is_none_of_them(make: Callable[[str], Testbed]) -> None:
    lines = ["switches: {ocs1: {driver: oxc, model: one-way, size: 16, address: '10.0.0.5'}}", "hosts:"]
    lines += [f"  h{host}: {{nics: {{eth0: {{module: 100g-lr4}}}}}}" for host in range(7)]
    lines += ["fibres:", *(f"  - {{from: h{host}.eth0, to: ocs1.{host + 1}, loss_db: 3.0}}" for host in range(7))]
    found = {str(one.source): one for one in over_budget(Graph(make("\n".join(lines))))}
    assert list(map(str, found["h1.eth0"].targets)) == ["h0.eth0", "h2.eth0", "h3.eth0", "h4.eth0"]
    assert "with h0.eth0, h1.eth0, h2.eth0, h3.eth0 and 2 more: the way to h0.eth0" in str(found["h6.eth0"])
