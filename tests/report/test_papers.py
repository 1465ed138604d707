"""The papers' figures."""

from hwd.report.conditions import Conditions
from hwd.report.papers import FIGURES, figures
from hwd.timeline import StageName
from hwd.twin.nic_timing import NIC_TIMINGS
from hwd_drivers.twins.timing import SWITCH_TIMINGS

OF_DATA_TABLES = {"polatis-50ms", "calient-200ms"}
"""Timings that were made from what a maker states of a unit, which is no paper's figure."""


def test_every_timing_that_a_figure_names_exists_and_says_that_it_is_fitted() -> None:
    for name in {name for figure in FIGURES for name in figure.drawn_by}:
        timing = NIC_TIMINGS.get(name) or SWITCH_TIMINGS[name]
        assert timing.fitted_to, name


def test_every_timing_that_is_fitted_to_a_paper_stands_beside_its_figure() -> None:
    drawn = {name for figure in FIGURES for name in figure.drawn_by}
    fitted = {name for timings in (NIC_TIMINGS, SWITCH_TIMINGS) for name, timing in timings.items() if timing.fitted_to}
    assert drawn == fitted - OF_DATA_TABLES
    assert fitted >= OF_DATA_TABLES


def test_figures_are_those_of_the_paper_whose_timings_play() -> None:
    chosen = figures(Conditions(timings=frozenset({"polatis-opus", "opus-cx6dx"})))
    assert {figure.paper for figure in chosen} == {"opus"}
    firmware = [figure.condition for figure in chosen if figure.stage is StageName.FIRMWARE]
    assert firmware == ["no auto-negotiation", "rapid repeats"], "the other condition is not played"


def test_hardware_stands_beside_all_figures() -> None:
    assert figures(Conditions(timings=frozenset())) == FIGURES


def test_playbook_may_choose_the_paper() -> None:
    chosen = figures(Conditions(timings=frozenset({"polatis-opus"})), compare_with="mfabric-prototype")
    assert {figure.paper for figure in chosen} == {"mfabric"}
    assert figures(Conditions(timings=frozenset()), compare_with="nobody") == ()
