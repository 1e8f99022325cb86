import numpy as np
import pytest
from scipy.optimize import minimize

from graphtemper import Graph, csbm, shifts, signals, stac, temperature
from graphtemper.calibrators.stac import per_node as stac_per_node
from graphtemper.errors import InputError
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation
from graphtemper.temperature.matching import nearest_temperature


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(
        1500, degree=8, homophily=0.75, snr=0.6, num_classes=3, num_features=8, seed=2
    )


@pytest.fixture(scope="module")
def model(graph):
    return SIGN().fit(graph, range(500))


@pytest.fixture(scope="module")
def threshold(graph, model):
    return stac.threshold(model, graph, range(500, 1000))


@pytest.fixture(scope="module")
def target(graph):
    return shifts.heterogeneous(1.5)(graph, 7)


@pytest.fixture(scope="module")
def seen(model, target):
    return Observation(model, target, range(1000, 1500))


def test_the_threshold_reproduces_the_source_accuracy(graph, model, threshold):
    p = temperature.apply(model(graph)[500:1000])
    accuracy = (p.argmax(axis=1) == graph.labels[500:1000]).mean()
    assert (p.max(axis=1) >= threshold).mean() == pytest.approx(accuracy)
    assert threshold == pytest.approx(np.quantile(p.max(axis=1), 1 - accuracy))


@pytest.mark.parametrize("perturbation", ["feature", "edge", "both"])
def test_algorithm_1_step_by_step(model, target, threshold, perturbation):
    nodes = np.arange(1000, 1500)
    result = stac.stac(
        model, target, threshold, perturbation=perturbation, passes=6, seed=3, nodes=nodes
    )
    z = model(target)[nodes]
    assert result.atc == (temperature.apply(z).max(axis=1) >= threshold).mean()
    votes = Observation(model, target, nodes, seed=3).votes(perturbation, 6, level=0.15, share=0.3)
    assert result.gde == 1 - signals.pairwise_disagreement(votes)
    assert result.accuracy == min(result.atc, result.gde)
    assert temperature.mean_confidence(z, result.temperature) == pytest.approx(result.accuracy)
    np.testing.assert_allclose(result.probabilities, temperature.apply(z, result.temperature))
    assert (result.probabilities.argmax(axis=1) == z.argmax(axis=1)).all()
    assert result.reason == ""


def test_as_published_is_disagreement_alone(model, target):
    result = stac.as_published(model, target, seed=4)
    votes = Observation(model, target, seed=4).votes("feature", 6, level=0.3)
    assert result.accuracy == result.gde == 1 - signals.pairwise_disagreement(votes)
    assert result.atc is None


def test_doubled_binary_logits_double_the_temperature_and_nothing_else():
    g = csbm.sample(800, degree=8, homophily=0.75, snr=0.6, num_features=4, seed=2)
    model = SIGN().fit(g, range(400))

    def doubled(graph):
        score = model(graph)[:, 1]
        return np.column_stack([-score, score])

    right = stac.as_published(lambda graph: model(graph), g)
    wrong = stac.as_published(doubled, g)
    assert wrong.temperature == pytest.approx(2 * right.temperature)
    np.testing.assert_allclose(wrong.probabilities, right.probabilities, atol=1e-9)


def test_labels_do_not_matter_bit_for_bit(model, target, threshold):
    masks = np.ones((1, target.num_nodes), bool)
    swapped = target.replace(labels=(target.labels + 1) % 3, train_masks=masks)
    results = []
    for graph in (target, target.replace(labels=None), swapped):
        seen = Observation(model, graph, seed=1)
        results.append(
            (
                stac.stac(model, graph, threshold, seed=1).temperature,
                stac.as_published(model, graph, seed=1).temperature,
                stac.binned_proxy(seen, threshold).temperature,
                stac_per_node.node_temperatures(seen, threshold).temperature.tobytes(),
            )
        )
    assert results[0] == results[1] == results[2]


def test_binned_proxy_is_the_minimum_of_its_loss(seen, threshold):
    result = stac.binned_proxy(seen, threshold)
    proxy = stac.node_proxy(seen, result.accuracy)
    assert proxy.mean() == pytest.approx(result.accuracy)

    def loss(log_temperature):
        confidence = temperature.apply(seen.logits, np.exp(float(log_temperature))).max(axis=1)
        bins = np.minimum((confidence * 15).astype(int), 14)
        gaps = [
            (bins == b).mean() * (confidence[bins == b].mean() - proxy[bins == b].mean()) ** 2
            for b in np.unique(bins)
        ]
        return sum(gaps) + 2 * (confidence.mean() - result.accuracy) ** 2

    best = loss(np.log(result.temperature))
    assert best <= min(loss(point) for point in np.linspace(-4, 4, 1500)) * 1.01
    simplex = [
        minimize(lambda v: loss(v[0]), [x], method="Nelder-Mead").fun for x in (-1.0, 0.0, 0.5, 1.5)
    ]
    assert best <= min(simplex) * 1.01


@pytest.mark.parametrize(
    ("accuracy", "reason"), [(0.2, "upper bound"), (1 / 3, "upper bound"), (1.0, "lower bound")]
)
def test_unreachable_accuracies_give_the_nearest_defined_temperature(seen, accuracy, reason):
    found, why = nearest_temperature(seen.logits, accuracy)
    assert reason in why
    confidence = temperature.mean_confidence(seen.logits, found)
    assert confidence == pytest.approx(max(accuracy, 1 / 3), abs=1e-3)
    assert np.isfinite(temperature.apply(seen.logits, found)).all()


def test_degenerate_predictors_still_get_an_answer(target, threshold):
    constant = stac.stac(lambda g: np.zeros((g.num_nodes, 3)), target, threshold)
    assert constant.temperature == 1.0
    assert "equal" in constant.reason
    np.testing.assert_allclose(constant.probabilities, 1 / 3)
    sure = stac.stac(lambda g: np.tile([9.0, 0, 0], (g.num_nodes, 1)), target, threshold)
    assert sure.accuracy == 1.0
    assert "lower bound" in sure.reason
    lonely = Graph(features=np.ones((1, 8)), edges=np.empty((0, 2), int))
    single = stac.stac(lambda g: np.array([[1.0, 2.0, 0.5]]), lonely, threshold)
    assert np.isfinite(single.probabilities).all()


def test_threshold_needs_labels_and_stac_needs_a_model(graph, model, threshold):
    with pytest.raises(InputError, match="labels"):
        stac.threshold(model, graph.replace(labels=None))
    with pytest.raises(InputError, match="predictor"):
        stac.stac(model(graph), graph, threshold)


def per_node_loss(seen, threshold, names=stac_per_node.SIGNALS):
    start = stac.from_observation(seen, threshold)
    columns = stac_per_node.node_signals(seen)
    return stac_per_node.PerNodeLoss(
        seen.logits,
        np.column_stack([columns[name] for name in names]),
        stac.node_proxy(seen, start.accuracy),
        start.accuracy,
        start.temperature,
    )


def test_signals_are_standardised(seen):
    columns = stac_per_node.node_signals(seen)
    assert tuple(columns) == stac_per_node.SIGNALS
    for values in columns.values():
        assert values.mean() == pytest.approx(0, abs=1e-9)
        assert values.std() == pytest.approx(1)


def test_the_gradient_is_that_of_finite_differences(seen, threshold):
    loss = per_node_loss(seen, threshold)
    rng = np.random.default_rng(0)
    for point in rng.normal(0, 0.5, (5, 7)):
        gradient = loss(point)[1]
        numeric = [
            (loss(point + step)[0] - loss(point - step)[0]) / 2e-6 for step in 1e-6 * np.eye(7)
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-8)


def test_the_soft_bins_are_a_partition_and_approach_the_hard_ones():
    # Nodes at the centres of bins spill an eighth to each side; constant gaps do not notice.
    confidence = np.random.default_rng(0).random(5000)
    soft = stac_per_node.soft_binned_loss(confidence, confidence - 0.05, 0.5)[0]
    hard = stac.binned_loss(confidence, confidence - 0.05, 0.5)
    assert soft == pytest.approx(hard, rel=1e-9)
    assert stac_per_node.soft_binned_loss(np.array([1.0]), np.array([0.9]), 1.0)[0] == (
        pytest.approx(0.01)
    )


@pytest.mark.parametrize("names", [stac_per_node.SIGNALS, stac_per_node.LOGIT_SIGNALS])
def test_gradients_reach_at_least_as_low_as_powell(seen, threshold, names):
    loss = per_node_loss(seen, threshold, names)
    found, value = loss.minimum()
    assert value < loss(np.zeros(len(names) + 1))[0]
    rng = np.random.default_rng(0)
    starts = [np.zeros(len(names) + 1), *rng.normal(0, 0.5, (3, len(names) + 1))]
    powell = [minimize(lambda x: loss(x)[0], start, method="Powell") for start in starts]
    assert value <= min(end.fun for end in powell) * (1 + 1e-6)

    # On the loss with hard bins, where Powell can profit from the jumps, it stays within 10 %.
    def hard(x):
        confidence = temperature.apply(loss.logits, loss.temperatures(x)).max(axis=1)
        ridge = stac_per_node.RIDGE * x[:-1] @ x[:-1]
        return stac.binned_loss(confidence, loss.proxy, loss.accuracy) + ridge

    powell = [minimize(hard, start, method="Powell") for start in starts]
    assert hard(found) <= min(end.fun for end in powell) * 1.10


def test_per_node_temperatures_are_the_formula(seen, threshold):
    result = stac_per_node.node_temperatures(seen, threshold)
    columns = np.column_stack(list(stac_per_node.node_signals(seen).values()))
    expected = result.global_stage.temperature * np.exp(
        0.5 * np.tanh(columns @ result.weights + result.bias)
    )
    np.testing.assert_allclose(result.temperature, expected)
    np.testing.assert_allclose(result.probabilities, temperature.apply(seen.logits, expected))
    assert result.global_stage.temperature == stac.from_observation(seen, threshold).temperature
    ablation = stac_per_node.node_temperatures(seen, threshold, signals="logits")
    assert ablation.signals == ("entropy", "margin")
    assert ablation.weights.shape == (2,)
    assert ablation.loss >= result.loss
    with pytest.raises(InputError, match="signals"):
        stac_per_node.node_temperatures(seen, threshold, signals="structure")


def test_constant_signals_are_zero(model, threshold, graph):
    alone = graph.replace(edges=np.empty((0, 2), int))
    columns = stac_per_node.node_signals(Observation(model, alone))
    assert not columns["log degree"].any()
    assert not columns["corrected agreement"].any()
    assert not columns["edge instability"].any()
    result = stac_per_node.node_temperatures(Observation(model, alone), threshold)
    assert np.isfinite(result.temperature).all()


def test_near_ties_do_not_move_the_bounds():
    from graphtemper import temperature

    gaps = np.where(np.arange(200) % 2, 1e-16, 6.0)
    logits = np.column_stack([np.zeros(200), gaps])
    upper, reason = nearest_temperature(logits, 0.5)
    assert "upper bound" in reason
    assert temperature.apply(logits, upper).max() < 0.5 + 1e-5
