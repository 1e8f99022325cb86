"""Agreement-on-the-line: exact for models that lie on a line."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

from graphtemper import csbm, shifts
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation
from graphtemper_research.baselines.agreement_line import AgreementLine, on_the_line


def test_models_on_a_line_are_recovered():
    """Agreements are probits of mean accuracies, moved; targets lie on probit = 0.7 probit + 0.1"""
    v = norm.ppf([0.9, 0.8, 0.85, 0.7])
    pairs = list(combinations(range(4), 2))
    here = np.array([(v[i] + v[j]) / 2 - 0.3 for i, j in pairs])
    u = 0.7 * v + 0.1
    there = 0.7 * here + (0.1 - 0.7 * 0.0)
    # The same line in agreement: u-mean = there + 0.7 (v-mean - here).
    expected = np.array([(u[i] + u[j]) / 2 for i, j in pairs])
    assert there + 0.7 * np.array([0.3] * 6) == pytest.approx(expected)
    found = on_the_line(norm.cdf(v), norm.cdf(here), norm.cdf(there))
    assert found == pytest.approx(norm.cdf(u))


def test_noise_is_noticed():
    g = csbm.sample(1200, degree=8, homophily=0.8, snr=1.0, num_features=6, seed=2)
    model = SIGN().fit(g, range(400))
    source = Observation(model, g, range(400, 800))
    line = AgreementLine().fit(source, g.labels[400:800])
    target = Observation(model, shifts.rewire(0.7)(g), range(800, 1200))
    truth = float((target.predictions == g.labels[800:]).mean())
    home = float((source.predictions == g.labels[400:800]).mean())
    found = line.estimate(target).value
    assert truth < home - 0.05
    assert found < line.estimate(source).value - 0.02
    assert line.estimate(source).value == pytest.approx(home, abs=0.05)
