"""Composites of testbed files: ends of elements under their own names, fibres that end at them, and everything that can
be wrong with them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.config.playbook.playbook import load_playbook
from hwd.config.playbook.steps import LeaseStep
from hwd.config.testbed.testbed import load_testbed
from hwd.config.testbed.wanted_state import parse_what
from hwd.config.yaml.file_problem import Loaded
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.devices import registry

from ..conftest import said

HEAD = """testbed: array
switches:
  osw1: {driver: osw, model: osw, size: 4x4, address: 10.0.0.1:5000}
  x1: {driver: thorlabs-osw, model: osw22, address: 10.0.0.2:5000}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}}}
"""
SOUND = f"""{HEAD}composites:
  sel:
    ports:
      1A..2A: osw1.1A..2A
      1B..4B: osw1.1B..4B
      5B: x1.1B
fibres:
  - h0.eth0.tx -> sel.1A
  - sel.1B -> h0.eth0.rx
  - osw1.5B <-> x1.1A
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Loaded[Testbed]]:
    def load(text: str) -> Loaded[Testbed]:
        path = tmp_path / "testbed.yaml"
        path.write_text(text)
        return load_testbed(path, registry.installed().specs)

    return load


Load = Callable[[str], Loaded[Testbed]]


def test_ends_of_elements_have_names_of_the_composite_and_fibres_end_at_them(load: Load) -> None:
    loaded = load(SOUND)
    assert said(loaded) == []
    testbed = loaded.require()
    ports = {str(port): str(end) for port, end in testbed.composites["sel"].ports.items()}
    assert ports == {**{port: f"osw1.{port}" for port in ("1A", "2A", "1B", "2B", "3B", "4B")}, "5B": "x1.1B"}
    assert [str(strand) for strand in testbed.strands] == [
        "h0.eth0.tx - osw1.1A",
        "osw1.1B - h0.eth0.rx",
        "osw1.5B - x1.1A",
    ]


def test_crossconnects_of_a_composite_are_asked_as_those_of_a_switch(load: Load) -> None:
    testbed = load(SOUND).require()
    wanted = parse_what("sel:1A-3B,2A-5B", testbed)
    assert [str(one) for one in wanted.crossconnects] == ["sel:1A-3B", "sel:2A-5B"]
    assert parse_what("sel:none", testbed).emptied == ("sel",)
    assert [str(one) for one in parse_what("sel:1A-none", testbed).freed] == ["sel:1A"]
    with pytest.raises(ConfigError, match="sel:1A-9B: sel has no 9B; its ends go from 1A to 5B"):
        parse_what("sel:1A-9B", testbed)
    with pytest.raises(ConfigError, match="'sal' is no switch of testbed array; did you mean sel"):
        parse_what("sal:1A-2B", testbed)


def test_everything_that_is_wrong_is_told_at_once(load: Load) -> None:
    text = f"""{HEAD}composites:
  sel:
    ports:
      1A: osw1.1A
      2A: osw1.99A
      3A: osv1.1A
      4A: osw1.1A
      5A..6A: osw1.2A..4A
      x!: osw1.3A
  osw1: {{ports: {{1A: x1.1A, 1B: x1.1B}}}}
  none: {{ports: {{}}}}
  mixed: {{ports: {{1A: x1.2A, in: x1.2B}}}}
  one-way: {{ports: {{1A: osw1.4A}}}}
  odd: {{ports: {{1A: osw1.3A}}, elements: 3}}
fibres:
  - h0.eth0.tx -> sel.1A
  - h0.eth0.rx <-> nowhere.1A
"""
    assert said(load(text)) == [
        "11: composites.sel.ports.2A: osw1.99A: switch osw1 (osw) has no end 99A; its ends are 1A to 16B",
        "12: composites.sel.ports.3A: osv1.1A: 'osv1' is no switch (write sw1.in, osw1.3A); did you mean osw1?",
        "13: composites.sel.ports.4A: osw1.1A is sel.1A already; an end of an element is one end of one composite",
        "14: composites.sel.ports.5A..6A: 5A..6A: osw1.2A..4A: 2 names for 3 ends; the numbers must be equal",
        "15: composites.sel.ports.x!: port 'x!': not a port; write 3A, 3B, or the name of a one-sided port such as 5 "
        "or in",
        "16: composites.osw1: name osw1 is used by switches.osw1; each part needs its own",
        "17: composites.none.ports: must not be empty",
        "18: composites.mixed.ports: in has no side and 1A has one; name all ends with sides (1A, 1B), or none",
        "19: composites.one-way.ports: has ends on side A only; light that enters by them cannot leave",
        "20: composites.odd.elements: unknown key; known: ports",
        "20: composites.odd.ports: has ends on side A only; light that enters by them cannot leave",
        "23: fibres[1]: nowhere.1A: nothing is named nowhere; known: h0, mixed, none, odd, one-way, osw1, sel, x1",
    ]


WRONG_FIBRES = {
    "h0.eth0.rx <-> sel.9": "sel.9: composite sel has no end 9; its ends go from 1A to 5B",
    "h0.eth0.rx <-> sel.3": "sel.3: port 3 has one side only; write sel.3B",
    "h0.eth0.rx <-> sel.3/1": "sel.3/1: only NIC and packet switch ports have lanes, tx and rx",
    "h0.eth0.rx <-> osw1.1A": "osw1.1A has a fibre already, of line 14; a fibre end takes one",
}


def test_a_fibre_ends_where_the_composite_has_an_end_or_at_both_sides_of_a_port(load: Load) -> None:
    text = SOUND.replace("  - h0.eth0.tx -> sel.1A\n  - sel.1B -> h0.eth0.rx\n", "  - h0.eth0 <-> sel.1\n")
    strands = load(text).require().strands
    assert [str(strand) for strand in strands[:2]] == ["h0.eth0.tx - osw1.1A", "osw1.1B - h0.eth0.rx"]
    for fibre, problem in WRONG_FIBRES.items():
        assert problem in said(load(SOUND.replace("sel.1B -> h0.eth0.rx", fibre)))[0]
    inside = "9: composites.sel.ports: osw1.6B is an end of an element inside of sel, and its fibre leads outside, to "
    assert said(load(SOUND.replace("sel.1B -> h0.eth0.rx", "osw1.6B -> h0.eth0.rx"))) == [
        f"{inside}h0.eth0.rx. Name the end under ports"
    ], "light leaves by its ports alone"


def test_a_port_of_a_composite_can_be_set_aside_and_a_lease_of_an_end_is_one_of_the_ports_of_elements_that_it_is_at(
    load: Load, tmp_path: Path
) -> None:
    testbed = load(f"{SOUND}ports: {{sel.3: {{state: spare}}}}\n").require()
    assert [(note.switch, note.port) for note in testbed.port_notes] == [("sel", "3")]
    assert said(load(f"{SOUND}ports: {{sel.9: {{state: spare}}}}\n")) == [
        "17: ports.sel.9: composite sel has no port '9'; name both sides at once, such as sel.31"
    ]
    testbed = load(SOUND).require()
    path = tmp_path / "p.yaml"
    path.write_text("playbook: p\nsteps:\n  - lease: {ports: [sel.2, sel.5, h0.eth0], for_s: 5}\n")
    assert load_playbook(path, testbed=testbed).require().steps == (
        LeaseStep(ports=("osw1.2", "x1.1", "h0.eth0"), for_s=5.0),
    )
    path.write_text("playbook: p\nsteps:\n  - lease: {ports: [sel.6], for_s: 5}\n")
    (problem,) = load_playbook(path, testbed=testbed).problems
    assert "sel.6: no such port" in problem.text
    assert "did you mean sel." in problem.text
