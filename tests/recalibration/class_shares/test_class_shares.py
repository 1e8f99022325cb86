"""Class shares without labels, against simulations whose shares are known."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import kstest

from graphtemper import temperature
from graphtemper.errors import (
    GraphTemperWarning,
    IllConditionedWarning,
    InputError,
    NotIdentifiableError,
)
from graphtemper.recalibration.class_shares import adjust_logits, bbse, em, rlls, shares_moved

N = 4000
TABLE = np.array([[0.8, 0.1], [0.2, 0.9]]) * 0.5


class World:
    """Gaussian classes with unit noise, each ``strength`` away from the origin on its own axis."""

    def __init__(self, classes, strength, seed):
        self.rng = np.random.default_rng(seed)
        self.classes, self.strength = classes, strength
        self.source = self.rng.dirichlet(np.full(classes, 5.0))
        logits, labels = self.draw(self.source)
        pairs = logits.argmax(axis=1) * classes + labels
        self.table = np.bincount(pairs, minlength=classes**2).reshape(classes, classes) / N

    def draw(self, shares, n=N):
        """Logits that are exactly calibrated under the source shares, and labels."""
        y = self.rng.choice(self.classes, n, p=shares)
        x = self.rng.standard_normal((n, self.classes))
        x[np.arange(n), y] += self.strength
        return self.strength * x + np.log(self.source), y

    def shares(self, labels):
        return np.bincount(labels, minlength=self.classes) / labels.size


def _l1(estimate, truth):
    return float(np.abs(estimate - truth).sum())


def _errors(classes, strength, repeats=12):
    """Mean L1 errors of predicted shares, BBSE, RLLS and EM over worlds and targets."""
    found = []
    for seed in range(repeats):
        world = World(classes, strength, [classes, seed])
        logits, labels = world.draw(world.rng.dirichlet(np.full(classes, 2.0)))
        predicted = world.shares(logits.argmax(axis=1))
        estimates = (
            predicted,
            bbse(world.table, predicted),
            rlls(world.table, predicted, N, N),
            em(temperature.apply(logits), world.source),
        )
        found.append([_l1(estimate, world.shares(labels)) for estimate in estimates])
    return np.mean(found, axis=0)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("strength", [1.5, 2.5])
def test_the_share_error_is_well_under_half_of_that_of_predicted_shares(classes, strength):
    predicted, *estimates = _errors(classes, strength)
    limits = (0.47, 0.47, 0.3) if classes == 10 else (0.33, 0.33, 0.2)
    assert (np.array(estimates) < np.array(limits) * predicted).all()
    assert estimates[2] < 0.03 * classes**0.5


@pytest.mark.parametrize(("classes", "limit"), [(2, 0.2), (3, 0.25), (10, 0.4)])
@pytest.mark.filterwarnings("ignore::graphtemper.errors.IllConditionedWarning")
def test_weak_classifiers_still_tell_more_than_their_predictions(classes, limit):
    """Accuracies of 0.68, 0.54 and 0.24."""
    predicted, by_table, by_ridge, by_likelihood = _errors(classes, 0.5)
    assert by_likelihood < limit * predicted
    assert max(by_table, by_ridge) < 0.7 * predicted


def test_exact_moments_give_exact_shares():
    rng = np.random.default_rng(3)
    for classes in (2, 3, 10):
        rates = 0.3 * rng.dirichlet(np.ones(classes), classes).T + 0.7 * np.eye(classes)
        source, target = rng.dirichlet(np.full(classes, 3.0), 2)
        table, predicted = rates * source, rates @ target
        assert bbse(table, predicted) == pytest.approx(target, abs=1e-12)
        many = 10**9
        assert rlls(table, predicted, many, many) == pytest.approx(target, abs=1e-6)
        assert rlls(table, rates @ source, many, many) == pytest.approx(source, abs=1e-9)


def test_no_order_of_the_classes_is_special():
    world = World(4, 1.5, 5)
    logits, _ = world.draw([0.1, 0.2, 0.3, 0.4], 500)
    p = temperature.apply(logits)
    q = world.shares(logits.argmax(axis=1))
    order = np.array([2, 0, 3, 1])
    table = world.table[np.ix_(order, order)]
    assert bbse(table, q[order]) == pytest.approx(bbse(world.table, q)[order], abs=1e-12)
    assert rlls(table, q[order], N, 500) == pytest.approx(
        rlls(world.table, q, N, 500)[order], abs=1e-9
    )
    assert em(p[:, order], world.source[order]) == pytest.approx(
        em(p, world.source)[order], abs=1e-5
    )
    moved = [shares_moved(t, N, s, 500).p_value for t, s in ((table, q[order]), (world.table, q))]
    assert moved[0] == pytest.approx(moved[1], rel=1e-9)


# bbse


def test_indistinct_classes_keep_the_sources_proportions_and_warn():
    """Classes 1 and 2 are answered alike; their sum is known and their ratio is not."""
    rates = np.array([[0.9, 0.1, 0.1], [0.05, 0.45, 0.45], [0.05, 0.45, 0.45]])
    source, target = np.array([0.4, 0.3, 0.3]), np.array([0.1, 0.6, 0.3])
    with pytest.warns(IllConditionedWarning, match="hardly separates some classes"):
        shares = bbse(rates * source, rates @ target)
    assert shares == pytest.approx([0.1, 0.45, 0.45], abs=0.005)


def test_the_ridge_fades_out_at_its_threshold():
    def shares(edge):
        rates = np.array([[0.5 + edge, 0.5 - edge], [0.5 - edge, 0.5 + edge]])
        return bbse(rates * 0.5, rates @ [0.3, 0.7])[0]

    assert shares(0.02501) == pytest.approx(0.3)  # singular value 0.05002
    with pytest.warns(IllConditionedWarning):
        assert shares(0.02499) == pytest.approx(0.3, abs=1e-3)
    with pytest.warns(IllConditionedWarning):
        assert shares(0.0) == pytest.approx(0.5)


def test_predictions_that_no_shares_explain():
    assert bbse(TABLE, [0.95, 0.05]).tolist() == [1.0, 0.0]
    with pytest.raises(NotIdentifiableError, match="No class shares explain"):
        bbse([[1.0, 0.0], [0.0, 0.0]], [0.0, 1.0])


def test_a_class_that_the_source_lacks_stays_away():
    table = np.zeros((3, 3))
    table[:2, :2] = TABLE
    assert bbse(table, [0.24, 0.76, 0.0]) == pytest.approx([0.2, 0.8, 0.0])
    assert rlls(table, [0.24, 0.76, 0.0], 10**6, 10**6) == pytest.approx([0.2, 0.8, 0.0], abs=1e-3)
    p = [[0.1, 0.9, 0.0]] * 3 + [[0.9, 0.1, 0.0]]
    assert em(p, [0.5, 0.5, 0.0]) == pytest.approx([0.1875, 0.8125, 0.0], abs=1e-4)


# rlls


def test_rlls_minimises_its_objective():
    """No feasible point that a general solver finds is lower, and the bound w >= 0 is kept."""
    rng = np.random.default_rng(8)
    bound = 0
    for alpha in (0.0, 0.03, 0.3, 1.0, 3.0) * 4:
        classes = int(rng.integers(2, 6))
        table = rng.dirichlet(np.full(classes**2, 0.4)).reshape(classes, classes)
        q = rng.dirichlet(np.full(classes, 0.5))
        size = 2.0 * np.log(2.0 * classes / 0.05) / 200
        delta = 3.0 * alpha * (size / 3.0 + np.sqrt(size))

        def objective(theta, table=table, q=q, delta=delta):
            misfit = np.linalg.norm(table @ (1.0 + theta) - q)
            return misfit + delta * np.linalg.norm(theta)

        shares = rlls(table, q, 200, 200, alpha=alpha, gamma=1.0)
        # Shares are the weights up to a factor, which the objective of the weights decides.
        weights = shares / table.sum(axis=0)
        ours = minimize(lambda c, w=weights, f=objective: f(c[0] * w - 1.0), [1.0]).fun
        for start in rng.random((5, classes)) - 0.5:
            other = minimize(objective, start, method="SLSQP", bounds=[(-1.0, None)] * classes)
            assert ours <= other.fun + 1e-7
        bound += int((weights < 1e-9).any())
    assert bound >= 3


def test_rlls_believes_what_sampling_cannot_show():
    few = [rlls(TABLE, [0.24, 0.76], n, n)[0] for n in (4, 20, 100, 1000, 10_000)]
    assert few[0] == 0.5
    assert np.all(np.diff(few) < 0.0)
    assert few[-1] == pytest.approx(0.2, abs=0.002)
    assert rlls(TABLE, [0.24, 0.76], 20, 20, gamma=0.0).tolist() == [0.5, 0.5]
    assert rlls(TABLE, [0.24, 0.76], 1000, 1000, alpha=100.0).tolist() == [0.5, 0.5]


# em


def test_the_maximum_does_not_depend_on_the_start():
    for classes, strength in ((2, 1.0), (3, 0.7), (10, 1.0)):
        world = World(classes, strength, 11)
        p = temperature.apply(world.draw(world.rng.dirichlet(np.ones(classes)))[0])
        corner = np.full(classes, 1e-7)
        corner[-1] = 1.0 - corner[:-1].sum()
        starts = [None, corner, corner[::-1], *world.rng.dirichlet(np.ones(classes), 3)]
        found = [em(p, world.source, start=start, tolerance=1e-12) for start in starts]
        assert np.ptp(found, axis=0).max() < 1e-5


@pytest.mark.parametrize("prior", [0.0, 10.0])
def test_em_agrees_with_plain_em(prior):
    world = World(3, 1.0, 13)
    p = temperature.apply(world.draw([0.7, 0.25, 0.05], 300)[0])
    shares = world.source.copy()
    for _ in range(5000):
        posterior = p * shares / world.source
        counts = (posterior / posterior.sum(axis=1, keepdims=True)).sum(axis=0)
        shares = (counts + prior * world.source) / (300 + prior)
    assert em(p, world.source, prior=prior, tolerance=1e-12) == pytest.approx(shares, abs=1e-5)


def test_every_iteration_climbs_and_the_last_says_if_it_fell_short():
    world = World(10, 1.0, 17)
    p = temperature.apply(world.draw(world.rng.dirichlet(np.ones(10)))[0])
    start = np.full(10, 1e-4)
    start[0] = 1.0 - 9e-4

    def value(shares):
        return np.log((p * shares / world.source).sum(axis=1)).mean()

    values = [value(start)]
    for steps in range(1, 6):
        with pytest.warns(GraphTemperWarning, match="below its maximum after"):
            values.append(value(em(p, world.source, start=start, max_iterations=steps)))
        if steps > 1:
            assert values[-1] > values[-2]
    assert value(em(p, world.source)) >= max(values)


def test_the_prior_holds_shares_in_place_where_classes_look_alike():
    world = World(10, 0.5, 19)
    logits, labels = world.draw(world.rng.dirichlet(np.full(10, 2.0)), 300)
    p, truth = temperature.apply(logits), world.shares(labels)
    assert _l1(em(p, world.source, prior=10.0), truth) < 0.9 * _l1(em(p, world.source), truth)
    assert em(p, world.source, prior=1e9) == pytest.approx(world.source, abs=1e-4)


def test_flat_likelihoods_warn():
    with pytest.warns(IllConditionedWarning, match="flat"):
        assert em([[0.3, 0.7]] * 50, [0.3, 0.7]).tolist() == [0.3, 0.7]


def test_probabilities_out_of_calibration_mislead_as_documented():
    world = World(2, 1.0, 23)
    world.source = np.array([0.5, 0.5])
    logits, labels = world.draw([0.2, 0.8], 20_000)
    truth, predicted = world.shares(labels)[1], world.shares(logits.argmax(axis=1))[1]
    over, right, under = (
        em(temperature.apply(logits, t), world.source)[1] for t in (0.5, 1.0, 1.5)
    )
    assert right == pytest.approx(truth, abs=0.01)
    assert predicted < over < right - 0.02
    assert under > right + 0.02


def test_extreme_probabilities_and_rare_classes():
    p = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert em(p, [0.98, 0.02 - 1e-9, 1e-9]) == pytest.approx([0.25, 0.5, 0.25], abs=1e-4)
    assert em(np.tile(np.eye(2, dtype=np.float32), (3, 1)), [0.9, 0.1]) == pytest.approx(
        [0.5, 0.5], abs=1e-4
    )


# adjust_logits


def test_adjusted_logits_are_calibrated_under_the_new_shares():
    world = World(3, 1.5, 29)
    target = np.array([0.05, 0.15, 0.8])
    logits, labels = world.draw(target, 20_000)
    before = temperature.apply(logits)
    after = temperature.apply(adjust_logits(logits, world.source, target))
    assert _l1(after.mean(axis=0), world.shares(labels)) < 0.01
    assert _l1(before.mean(axis=0), world.shares(labels)) > 0.1
    assert (after.argmax(axis=1) == labels).mean() > (before.argmax(axis=1) == labels).mean()


def test_zero_shares_are_floored():
    moved = adjust_logits([[0.0, 0.0, 0.0]], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0])
    assert moved[0] == pytest.approx([np.log(2e-6), np.log(2.0), 0.0])
    assert adjust_logits([[0.0, 0.0]], [0.5, 0.5], [0.0, 1.0], floor=0.01)[0, 0] == pytest.approx(
        np.log(0.02)
    )
    back = adjust_logits(
        adjust_logits([[1.0, -2.0]], [0.3, 0.7], [0.6, 0.4]), [0.6, 0.4], [0.3, 0.7]
    )
    assert back[0] == pytest.approx([1.0, -2.0])


# shares_moved


def _p_values(shares, sizes, repeats, seed):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(repeats):
        source, target = (rng.multinomial(n, shares) / n for n in sizes)
        found.append(shares_moved(np.diag(source), sizes[0], target, sizes[1], draws=999))
    return found


@pytest.mark.parametrize(
    ("shares", "sizes"),
    [
        ([0.3, 0.7], (5000, 2000)),
        ([0.2, 0.3, 0.5], (400, 3000)),
        (np.arange(1, 11) / 55, (1000, 1000)),
        (np.arange(1, 11) / 55, (3000, 60)),  # simulated
    ],
)
def test_p_values_are_uniform_if_nothing_changed(shares, sizes):
    found = _p_values(shares, sizes, 400, seed=31)
    assert kstest([test.p_value for test in found], "uniform").pvalue > 0.05
    assert found[0].simulated == (sizes[1] == 60)
    assert found[0].degrees == len(shares) - 1


def test_rare_predictions_do_not_raise_false_alarms():
    """Expected counts below one, where chi-squared does not hold."""
    shares = [0.97, 0.01, 0.008, 0.006, 0.004, 0.002]
    p = np.array([test.p_value for test in _p_values(shares, (2000, 50), 400, seed=37)])
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).mean() < level + 3.0 * np.sqrt(level / 400)


def test_new_shares_are_found():
    world = World(3, 1.5, 41)
    for shift, found in ((0.0, False), (0.15, True)):
        target = world.source + shift * (np.eye(3)[0] - world.source)
        logits, _ = world.draw(target)
        test = shares_moved(world.table, N, world.shares(logits.argmax(axis=1)), N)
        assert (test.p_value < 1e-3) == found


def test_predictions_of_one_class_are_no_evidence():
    table = [[0.6, 0.4], [0.0, 0.0]]
    test = shares_moved(table, 100, [1.0, 0.0], 50)
    assert (test.p_value, test.degrees) == (1.0, 0)


def test_the_simulation_repeats_itself():
    first, again = (shares_moved(TABLE, 6, [0.1, 0.9], 10) for _ in range(2))
    assert first == again
    assert first.simulated


# Bad input

GOOD = np.full((2, 2), 0.25)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bbse(np.ones((2, 3)) / 6, [0.5, 0.5]), r"confusion must have shape \(K, K\)"),
        (lambda: bbse([0.5, 0.5], [0.5, 0.5]), r"confusion must have shape \(K, K\)"),
        (lambda: bbse([[1.0, 2.0], [3.0]], [0.5, 0.5]), "confusion cannot be read"),
        (lambda: bbse([["a", "b"], ["c", "d"]], [0.5, 0.5]), "confusion must hold real numbers"),
        (lambda: bbse(4 * GOOD, [0.5, 0.5]), "confusion sums to 4 instead of 1; divide counts"),
        (lambda: bbse([[0.6, -0.1], [0.0, 0.5]], [0.5, 0.5]), "confusion holds -0.1"),
        (lambda: bbse([[np.nan, 0.5], [0.0, 0.5]], [0.5, 0.5]), "confusion holds nan"),
        (lambda: bbse(GOOD, [0.5, 0.2, 0.3]), r"predicted_shares must have shape \(2,\)"),
        (lambda: bbse(GOOD, [1.5, -0.5]), "predicted_shares holds -0.5"),
        (lambda: rlls(GOOD, [np.inf, 0.0], 9, 9), "predicted_shares holds inf"),
        (lambda: rlls(GOOD, [0.5, 0.4], 9, 9), "predicted_shares sums to 0.9 instead of 1"),
        (lambda: rlls(GOOD, [0.5, 0.5], 0, 9), "num_source must be an integer"),
        (lambda: rlls(GOOD, [0.5, 0.5], 9, 2.5), "num_target must be an integer"),
        (lambda: rlls(GOOD, [0.5, 0.5], 9, 9, alpha=-1.0), "alpha must be finite"),
        (lambda: rlls(GOOD, [0.5, 0.5], 9, 9, failure=1.0), "failure must be a probability"),
        (lambda: rlls(GOOD, [0.5, 0.5], 9, 9, gamma=1.5), "gamma must be between 0 and 1"),
        (lambda: em([0.5, 0.5], [0.5, 0.5]), r"probabilities must have shape \(n, K\)"),
        (lambda: em([[0.5, 0.6]], [0.5, 0.5]), r"probabilities\[0\] sums to 1.1"),
        (lambda: em([[0.5, 0.5], [np.nan, 1.0]], [0.5, 0.5]), r"probabilities\[1\] holds nan"),
        (lambda: em([[0.5, 0.5], [1.0, 0.0]], [0.0, 1.0]), r"probabilities\[1\] is 0 for every"),
        (lambda: em([[0.5, 0.5]], [0.5, 0.5, 0.0]), r"source_shares must have shape \(2,\)"),
        (lambda: em([[0.5, 0.5]], [0.5, 0.5], start=[0.0, 1.0]), "start must be positive"),
        (lambda: em([[0.5, 0.5]], [0.5, 0.5], prior=np.nan), "prior must be finite"),
        (lambda: em([[0.5, 0.5]], [0.5, 0.5], tolerance=0.0), "tolerance must be positive"),
        (lambda: em([[0.5, 0.5]], [0.5, 0.5], max_iterations=0), "max_iterations must be"),
        (lambda: adjust_logits([[0.0, 1.0]], [0.5, 0.5], [1.0]), r"target_shares must have shape"),
        (lambda: adjust_logits([[0.0, 1.0]], [0.5, 0.6], [0.5, 0.5]), "source_shares sums to 1.1"),
        (
            lambda: adjust_logits([[0.0, 1.0]], [0.5, 0.5], [0.5, 0.5], floor=0.0),
            "floor must be positive",
        ),
        (lambda: shares_moved(GOOD, 9, [0.5, 0.5], -1), "num_target must be an integer"),
        (lambda: shares_moved(GOOD, 9, [0.5, 0.5], 9, draws=-1), "draws must be an integer"),
    ],
)
def test_bad_input_is_one_clear_sentence(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


# Dependent nodes


def _block_shares(sizes, repeats, block, rng):
    """Predicted shares of two samples whose nodes come in blocks with one class and prediction."""
    classes, rates = np.array([0.5, 0.3, 0.2]), np.array([[7, 2, 1], [2, 6, 2], [1, 2, 7]]) / 10
    drawn = []
    for size in sizes:
        labels = rng.choice(3, (repeats, size // block, block), p=classes)
        # Within a block, nodes of one class have the same prediction.
        draws = rng.random((repeats, size // block, 1))
        cuts = rates.cumsum(axis=0)[:2].T[labels]
        drawn.append((labels, (draws[..., None] > cuts).sum(axis=-1)))
    return drawn


def test_dependent_nodes_keep_the_level():
    rng = np.random.default_rng(0)
    (labels, source), (_, target) = _block_shares((1200, 1800), 400, 10, rng)
    # The variance of a block's number of predictions, given its classes, by simulation.
    within = []
    for k in range(3):
        chance = np.array([(source == k)[labels == j].mean() for j in range(3)])
        left = (source == k) - chance[labels]
        within.append(((left.sum(axis=-1) ** 2).mean() / 10, (left**2).mean()))
    effect = sum(a for a, _ in within) / sum(b for _, b in within)
    assert effect > 3.0
    naive, honest = [], []
    for y, at_source, at_target in zip(labels, source, target, strict=True):
        table = np.zeros((3, 3))
        np.add.at(table, (at_source.ravel(), y.ravel()), 1.0 / y.size)
        shares = np.bincount(at_target.ravel(), minlength=3) / at_target.size
        given = table, y.size, shares, at_target.size
        naive.append(shares_moved(*given).p_value)
        honest.append(shares_moved(*given, design_effects=(effect, effect)).p_value)
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(naive) < level) > 2.0 * level
        spread = 3.0 * np.sqrt(level * (1.0 - level) / len(honest))
        assert abs(np.mean(np.array(honest) < level) - level) < spread


def test_simulated_p_values_allow_for_dependence():
    table = np.array([[0.3, 0.2], [0.2, 0.3]])
    alone, together = (
        shares_moved(table, 16, [1.0, 0.0], 8, design_effects=(d, d)) for d in (1.0, 10.0)
    )
    assert alone.simulated
    assert together.simulated
    assert alone.p_value < 0.05 < 0.2 < together.p_value


def test_larger_design_effects_never_make_a_move_clearer():
    values = [
        shares_moved(TABLE, 500, [0.4, 0.6], 400, design_effects=(d, d)).p_value
        for d in (1.0, 2.0, 8.0, 64.0)
    ]
    assert values == sorted(values)
    assert values[0] == shares_moved(TABLE, 500, [0.4, 0.6], 400).p_value
    with pytest.raises(InputError, match="design_effects must be two numbers of at least 1"):
        shares_moved(TABLE, 500, [0.4, 0.6], 400, design_effects=(0.5, 1.0))
