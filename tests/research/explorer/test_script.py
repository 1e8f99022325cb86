"""The page's JavaScript against Python, run by Node: the same numbers to 1e-9."""

import json
import random
import re
import shutil
import subprocess
from dataclasses import asdict

import numpy as np
import pytest
from scipy.special import erfc, expit, gammaln, ndtr

from graphtemper.theory import gaussian as population
from graphtemper.theory.aggregated_law import aggregated_law, read_degrees
from graphtemper.theory.finite_degree import optimal_scale
from graphtemper_research.explorer.presets import PRESETS
from graphtemper_research.explorer.readings import State, readings
from graphtemper_research.explorer.script import MODULES, script

TOLERANCE = 1e-9
EDGES = (
    State(h_source=0.5),
    State(h_target=0.5),
    State(h_source=1.0, h_target=0.0, degree=6),
    State(h_source=0.0, h_target=1.0, degree=6, snr=0.3),
    State(h_source=0.1, h_target=0.2, snr=0.01, degree=1),
    State(h_source=0.52, h_target=0.9, snr=2, degree=30, gamma=10),
)


def camel(name):
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def camel_state(state):
    return {camel(name): value for name, value in asdict(state).items()}


@pytest.fixture(scope="module")
def node():
    program = shutil.which("node")
    if program is None:
        pytest.skip("Node is not installed; the browser tests compare the same numbers")

    def run(expression, given):
        code = (
            f"{script(*MODULES)}const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
            f"process.stdout.write(JSON.stringify({expression}));"
        )
        done = subprocess.run(
            [program, "-e", code], input=json.dumps(given), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def answers(node):
    rng = random.Random(5)
    drawn = [
        State(
            h_source=rng.random(),
            h_target=rng.random(),
            snr=10 ** rng.uniform(-2, 0.3),
            degree=10 ** rng.uniform(0, 1.5),
            num_classes=rng.randint(2, 20),
            gamma=rng.choice([0.0, rng.uniform(0, 10)]),
        )
        for _ in range(12)
    ]
    states = [*(preset.state for preset in PRESETS), *EDGES, *drawn]
    everything = "({ ...modules.readings.limitReadings(s), ...modules.readings.finiteReadings(s) })"
    found = node(f"given.map(s => {everything})", [camel_state(state) for state in states])
    return list(zip(states, found, strict=True))


def test_every_reading_is_the_same(answers):
    for state, found in answers:
        expected = readings(state)
        assert {camel(name) for name in expected} == set(found), state
        for name, value in expected.items():
            if isinstance(value, float):
                assert found[camel(name)] == pytest.approx(value, rel=TOLERANCE, abs=TOLERANCE), (
                    state,
                    name,
                )
            else:
                assert found[camel(name)] == value, (state, name)


def test_special_functions(node):
    x = np.linspace(-9, 9, 301).tolist()
    for name, reference in (("expit", expit), ("ndtr", ndtr)):
        found = node(f"given.map(modules.special.{name})", x)
        np.testing.assert_allclose(found, reference(np.array(x)), rtol=1e-13, atol=1e-16)
    size = np.linspace(0, 12, 301)
    found = node("given.map(modules.special.erfc)", size.tolist())
    np.testing.assert_allclose(found, erfc(size), rtol=1e-11)
    whole = [0, 1, 2, 10, 170, 400]
    found = node("given.map(modules.special.logFactorial)", whole)
    np.testing.assert_allclose(found, gammaln(np.array(whole) + 1.0), rtol=1e-14, atol=1e-15)
    rule = node("(r => ({x: [...r.nodes], w: [...r.weights]}))(modules.theory.rule)", None)
    half = 0.5 * (np.array(rule["x"]) + 1)
    np.testing.assert_allclose(half**2, population._UNIT, atol=1e-15)
    np.testing.assert_allclose(np.array(rule["w"]) * half, population._UNIT_WEIGHTS, atol=1e-15)


def test_the_dashed_curve_is_the_exact_chance_to_be_right(node):
    state = State(h_source=0.8, h_target=0.62, snr=0.7, degree=9, gamma=0.5)
    curve = node(
        "modules.readings.finiteCurve(given, modules.readings.finiteSource(given), 6)",
        camel_state(state),
    )
    law = aggregated_law(0.62, 0.7 / 1.5, read_degrees("degree", 9.0))
    scale = optimal_scale(0.8, 0.7, 9.0) * np.sqrt(1.5)
    # The log-odds of being right are smooth and odd in t, so Python's coarser grid interpolates.
    odds = np.log(law.weights / law.weights[::-1])
    t = np.array([point["t"] for point in curve[1:]])
    found = np.array([point["accuracy"] for point in curve[1:]])
    assert t.max() > 6
    assert np.diff(t).max() < 0.11
    expected = expit(np.interp(t, scale * law.values, odds))
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert curve[0] == {"t": 0, "accuracy": 0.5}


def test_the_calibration_error_is_exact(node):
    # The expected values are an adaptive quadrature's, as in tests/theory/test_finite_degree.py.
    for h_target, degree, expected in ((0.6, 25, 0.144117), (0.55, 100, 0.190604)):
        state = State(h_source=0.8, h_target=h_target, snr=1.0, degree=degree)
        found = node("modules.readings.finiteReadings(given)", camel_state(state))
        assert found["finiteEce"] == pytest.approx(expected, abs=2e-6)


def test_large_degrees_and_snr_too(node):
    state = State(h_source=1.0, h_target=0.97, snr=9.0, degree=40)
    found = node("modules.readings.finiteReadings(given)", camel_state(state))
    assert found["finiteSlope"] == pytest.approx(readings(state)["finite_slope"], rel=TOLERANCE)
