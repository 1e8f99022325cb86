"""The numbers behind the explorer: against moments, against simulation, against the figures."""

import math
import warnings

import pytest
from tests.helpers import raises

from graphtemper import theory
from graphtemper_research.explorer.presets import PRESETS
from graphtemper_research.explorer.readings import BOUNDS, State, readings
from graphtemper_research.explorer.simulate import simulate
from graphtemper_research.paper import concept, extensions, slope_grid, temperature_grid

STATE = State(h_source=0.75, h_target=0.65, snr=0.8, degree=12, num_classes=4, gamma=0.7)


def moments(h, snr, gamma, degree, loops):
    """Mean and variance of (loops own + degree neighbours) / (degree + loops), class +1."""
    total = degree + loops
    mean = math.sqrt(snr) * (loops + degree * (2 * h - 1)) / total
    variance = (degree * 4 * h * (1 - h) * snr + total * (1 + gamma)) / total**2
    return mean, variance


@pytest.mark.parametrize(("loops", "name"), [(0, "slope"), (1, "slope_self_loop")])
def test_noise_and_homophily_combine_as_the_moments_say(loops, name):
    source = moments(STATE.h_source, STATE.snr, 0.0, STATE.degree, loops)
    mean, variance = moments(STATE.h_target, STATE.snr, STATE.gamma, STATE.degree, loops)
    scale = 2 * source[0] / source[1]
    found = readings(STATE)
    assert found[name] == pytest.approx(2 * scale * mean / (scale**2 * variance), rel=1e-12)
    if not loops:
        assert found["accuracy"] == pytest.approx(
            theory.population_accuracy(mean, variance), abs=1e-12
        )
        logits = scale * mean, scale**2 * variance
        assert found["ece"] == pytest.approx(theory.population_ece(*logits), abs=1e-12)
        assert found["ece"] <= found["ece_bound"]


def test_simulation_lies_on_the_exact_finite_degree_numbers():
    state = State(h_source=0.8, h_target=0.6, snr=3.0, degree=12, num_classes=4, gamma=0.3)
    found, measured = readings(state), simulate(state, num_nodes=20_000, seed=1)
    assert measured["slope"] == pytest.approx(found["finite_slope"], abs=0.02)
    # Here the limit and the finite degree differ by more than that.
    assert abs(found["slope"] - found["finite_slope"]) > 0.04
    # Simulated rows are symmetric, the exact ones row-normalised, which is close but not the same.
    assert measured["slope_self_loop"] == pytest.approx(found["finite_slope_self_loop"], abs=0.03)
    assert measured["accuracy"] == pytest.approx(found["finite_accuracy"], abs=0.012)
    assert measured["ece"] == pytest.approx(found["finite_ece"], abs=0.02)
    assert measured["signal"] == pytest.approx(found["signal_target"], abs=0.02)
    assert sum(row["nodes"] for row in measured["curve"]) == 20_000


def test_where_nothing_exists_there_is_no_number_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        none = readings(State(h_source=0.5))
        near = readings(State(h_source=0.51))
        wrong = readings(State(h_target=0.3))
    for name in ("slope", "temperature", "ece", "ece_bound", "finite_slope", "finite_ece"):
        assert none[name] is None
    assert none["slope_self_loop"] is not None
    assert near["ill_conditioned"]
    assert near["slope"] > 0
    assert wrong["slope"] < 0
    assert wrong["temperature"] is None
    assert wrong["finite_temperature"] is None


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("value", ["1", math.nan, -1, 1e9, True, None])
def test_a_state_outside_the_sliders_is_refused(name, value):
    with raises(("range", "wrong-type")):
        State(**{name: value})


def test_presets_are_the_figures_settings():
    states = {preset.name: preset.state for preset in PRESETS}
    assert len(states) == len(PRESETS)
    numbers = {int(name[3:].split("-")[0]) for name in states}
    assert numbers == set(range(1, 13)) - {3}
    setting = concept.SETTING
    first = states["fig1"]
    assert (first.h_source, first.snr, first.degree) == (0.8, setting.snr, setting.degree)
    assert readings(first)["slope"] == pytest.approx(concept.SLOPE, abs=1e-3)
    for name, setting in (
        ("fig5-low", slope_grid.SETTING),
        ("fig7", slope_grid.SETTING),
        ("fig6-left", extensions.SELF_LOOP),
    ):
        state = states[name]
        assert state.h_source == setting.h_source
        assert state.snr == setting.snr
        assert state.degree == setting.degree
    assert states["fig5-low"].h_target == min(slope_grid.TARGETS)
    assert states["fig5-high"].h_target == max(slope_grid.TARGETS)
    assert states["fig6-right"].h_target == min(extensions.HOMOPHILIES)
    hottest = states["fig8"]
    assert hottest.h_source == temperature_grid.H_SOURCE
    assert hottest.degree == temperature_grid.DEGREE
    assert hottest.snr == max(temperature_grid.SNRS)
    assert hottest.h_target == min(temperature_grid.TARGETS)
