"""The explorer's tables agree with the theory, and its page with the tables."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from graphtemper import theory
from graphtemper.cli import app
from graphtemper.theory import finite_degree
from graphtemper_research.explorer import grid

SCRIPT = """
const [page, states] = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const facts = page.match(/<script type="application.json" id="facts">(.*?)<.script>/s)[1];
const script = page.match(/<script>(.*?)<.script>/s)[1];
const sliders = Object.keys(states[0]).map((id) => ({ id, value: "0.5", dataset: {} }));
const part = { textContent: facts, value: "", dataset: {}, addEventListener: () => {} };
globalThis.document = {
  getElementById: () => ({ ...part }),
  querySelectorAll: (what) => (what.startsWith("input") ? sliders : []),
};
globalThis.location = { hash: "" };
const readings = new Function(`${script}\\nreturn readings;`)();
console.log(JSON.stringify(states.map(readings)));
"""


@pytest.fixture(scope="module")
def states():
    """Sources off the zero crossings, and targets that are up to ten times as noisy."""
    draw = np.random.default_rng(0)
    found = []
    for _ in range(60):
        snr = np.exp(draw.uniform(np.log(0.1), np.log(10.0)))
        found.append(
            {
                "h_source": draw.uniform(0.6, 0.95),
                "snr_source": snr,
                "h_target": draw.uniform(0.05, 0.95),
                "snr_target": snr * draw.uniform(0.1, 1.0),
                "degree": draw.uniform(5.0, 90.0),
            }
        )
    return found


def exact(h_source, snr_source, h_target, snr_target, degree):
    """Return slopes and shares from the library: added noise divides the snr by 1 + gamma."""
    gamma = snr_source / snr_target - 1.0
    pair, joined = (h_target, h_source, snr_source), snr_source * degree / (degree + 1.0)
    (mean, variance), (its_mean, its_variance) = (
        theory.aggregated_moments(h, snr, degree, sigma=1.0 / np.sqrt(snr))
        for h, snr in ((h_source, snr_source), (h_target, snr_target))
    )
    scale = theory.slope_from_moments(mean, variance)
    moments = scale * its_mean, scale**2 * its_variance
    right = theory.population_accuracy(*moments)
    ours, source = (
        finite_degree.optimal_scale(h, snr, degree)
        for h, snr in ((h_target, snr_target), (h_source, snr_source))
    )
    return {
        "limit": theory.slope(*pair) * theory.slope_covariate(h_target, snr_source, gamma),
        "finite": ours / source / np.sqrt(1.0 + gamma),
        "loop": theory.slope_self_loop(*pair, degree)
        * theory.slope_covariate(h_target, joined, gamma),
        "limit accuracy": right,
        "accuracy": finite_degree.finite_degree_accuracy(h_target, snr_target, degree),
        "confidence": right + theory.population_gap(*moments),
    }


@pytest.mark.cpu(30)
def test_interpolation_is_as_close_to_the_theory_as_it_says(states):
    for state in states:
        shown = grid.readings(**state)
        for name, value in exact(**state).items():
            slope = name in ("limit", "finite", "loop")
            limit = grid.TOLERANCE["slope" if slope else "share"] * max(1.0, abs(value))
            assert shown[name] == pytest.approx(float(value), abs=limit), (name, state)


@pytest.fixture(scope="module")
def page():
    from graphtemper_research.explorer.page import render

    return render()


@pytest.mark.cpu(30)
def test_the_page_interpolates_as_python_does(page, states):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    ran = subprocess.run(
        [node, "-e", SCRIPT],
        input=json.dumps([page, states]),
        capture_output=True,
        text=True,
        check=True,
    )
    for state, found in zip(states, json.loads(ran.stdout), strict=True):
        # The page has four decimals of the tables.
        assert found == pytest.approx(grid.readings(**state), rel=2e-3, abs=2e-3)


@pytest.mark.cpu(30)
def test_the_command_writes_one_small_file_that_fetches_nothing(page, tmp_path, capsys):
    target = tmp_path / "explorer.html"
    app(["explore", "--out", str(target), "--json"], result_action="return_value")
    said = json.loads(capsys.readouterr().out)
    assert said == {"page": str(target), "bytes": target.stat().st_size}
    assert target.read_text("utf-8") == page
    assert len(page) < 300_000
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert set(re.findall(r'(?:src|href)="([^"]*)"', page)) == {"data:,", "#verdict"}
