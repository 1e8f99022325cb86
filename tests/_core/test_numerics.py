"""Root finders on functions whose zero is known, and log-odds of shares near one."""

import numpy as np
import pytest

from graphtemper._core.numerics import Derivatives, bounded_root, log_odds, log_odds_variance


@pytest.mark.parametrize(
    ("function", "zero"),
    [
        (lambda x: (x - 3.0, 1.0, 0.0), 3.0),
        (lambda x: (np.expm1(x - 3.0), np.exp(x - 3.0), np.exp(x - 3.0)), 3.0),
        (lambda x: (1.0 if x > 0.3 else -1.0, 0.0, 0.0), 0.3),  # only halving ends at a jump
    ],
    ids=["line", "exponential", "jump"],
)
def test_the_root_of_a_known_function(function, zero):
    calls = []

    def counted(x):
        calls.append(x)
        return Derivatives(*function(x))

    root, steps, inside = bounded_root(counted, -2.0, (-700.0, 700.0), 1e-9)
    assert (steps, inside) == (len(calls), True)
    assert root == pytest.approx(zero, abs=1e-9)
    for bounds in ((-5.0, -1.0), (4.0, 9.0)):  # the function keeps one sign up to a bound
        end = min(bounds, key=lambda x: abs(x - zero))
        result = bounded_root(counted, -2.0, bounds, 1e-9)
        assert result[::2] == (end, False)


def test_log_odds_of_shares_near_one_have_the_variance_that_counts_have():
    rng, share, size = np.random.default_rng(0), 0.998, 20_000
    counted = rng.binomial(size, share, 4000) / size
    drawn = np.var([log_odds(value) for value in counted])
    assert float(log_odds_variance(share, size)) == pytest.approx(drawn, rel=0.1)
    # A share of all or no nodes is not certain.
    assert float(log_odds_variance(1.0, 50)) == pytest.approx(2.0)
