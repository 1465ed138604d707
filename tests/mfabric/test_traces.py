"""Synthetic traces: the same for a seed, and made as they say."""

import numpy as np
import pytest

from hwd.mfabric.traces import synthetic_trace


def test_trace_of_a_seed_is_always_the_same() -> None:
    traces = [synthetic_trace(seed, iterations=3, layers=3, experts=4) for seed in (7, np.random.default_rng(7), 8)]
    assert traces[0].loads.tolist() == traces[1].loads.tolist() != traces[2].loads.tolist()
    assert traces[0].transitions.tolist() == traces[1].transitions.tolist()


def test_loads_are_whole_tokens_and_all_of_them() -> None:
    trace = synthetic_trace(1, iterations=5, layers=3, experts=4, tokens=1000)
    assert trace.loads.shape == (5, 3, 4)
    assert (trace.loads.sum(axis=2) == 1000).all()
    assert (trace.loads == np.floor(trace.loads)).all()
    assert (trace.loads >= 0).all()


def test_layer_follows_the_drawn_tokens_of_the_one_before_by_the_planted_transition() -> None:
    tokens = 10**8
    trace = synthetic_trace(2, iterations=4, layers=3, experts=5, tokens=tokens)
    assert trace.transitions.shape == (2, 5, 5)
    assert trace.transitions.sum(axis=1) == pytest.approx(1)
    shares = trace.loads / tokens
    for layer, transition in enumerate(trace.transitions, 1):
        expected = shares[:, layer - 1] @ transition.T
        assert np.abs(shares[:, layer] - expected).max() < 6 / np.sqrt(tokens)


def test_noise_is_that_of_drawn_tokens() -> None:
    trace = synthetic_trace(3, iterations=2000, layers=2, experts=4, tokens=100, drift=0.0)
    expected = trace.loads[:, 0] @ trace.transitions[0].T / 100
    variance = (100 * expected * (1 - expected)).mean()
    assert np.mean((trace.loads[:, 1] - 100 * expected) ** 2) == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("drift", [0.01, 0.3])
def test_logarithms_of_the_first_layer_drift_by_what_is_said(drift: float) -> None:
    trace = synthetic_trace(4, iterations=200, layers=1, experts=6, tokens=10**12, drift=drift)
    logarithms = np.log(trace.loads[:, 0])
    steps = np.diff(logarithms - logarithms.mean(axis=1)[:, None], axis=0)  # shares do not know their common part
    assert steps.std() == pytest.approx(drift * np.sqrt(5 / 6), rel=0.1)
    assert trace.transitions.shape == (0, 6, 6)


def test_less_concentration_sends_an_expert_to_fewer() -> None:
    largest = [
        synthetic_trace(5, iterations=1, layers=9, experts=16, concentration=concentration)
        .transitions.max(axis=1)
        .mean()
        for concentration in (0.05, 1.0)
    ]
    assert largest[0] > 0.6 > 0.4 > largest[1]
