"""Graph calibrators against hand-made cases: zero weights, regular graphs, permutations."""

import numpy as np
import pytest

from graphtemper import shifts, temperature
from graphtemper.calibrators import RBS, STAC, TemperatureScaling
from graphtemper.calibrators.rbs import neighbour_support
from graphtemper.errors import InputError
from graphtemper.graph.graph import Graph

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")

from graphtemper.calibrators import GATS, GETS, WATS, CaGCN, SimCalib  # noqa: E402
from graphtemper.calibrators.gats import confidence_gap, unit_sorted  # noqa: E402
from graphtemper.calibrators.gets import Gate, expected_load  # noqa: E402
from graphtemper.calibrators.linear_map import fold_numbers  # noqa: E402
from graphtemper.calibrators.simcalib import neighbourhood, prototypes  # noqa: E402
from graphtemper.calibrators.wats import wavelet_features  # noqa: E402


def with_weights(calibrator, change, scene):
    """Fit for one epoch, then let ``change`` edit the parameters."""
    calibrator.set_params(epochs=1).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )
    change(calibrator.parameters_)
    return calibrator.temperatures(scene.logits, graph=scene.graph, train_nodes=scene.train)


def all_zero(parameters):
    for array in parameters:
        array[...] = 0.0


def test_cagcn_with_zero_weights_is_its_floor(scene):
    authors = with_weights(CaGCN(), all_zero, scene)
    port = with_weights(CaGCN(floor=1.0, margin=0.0), all_zero, scene)
    np.testing.assert_allclose(authors, 1 / np.log(2.1), rtol=1e-6)
    np.testing.assert_allclose(port, 1 / np.log(2.0), rtol=1e-6)


def test_gats_with_zero_weights_is_one_plus_log_two(scene):
    def change(parameters):
        parameters[0][...], parameters[1][...] = 0.0, 0.0
        parameters[3][...] = 1.0

    found = with_weights(GATS(), change, scene)
    np.testing.assert_allclose(found, 1 + np.log(2.0), rtol=1e-6)


def test_wats_with_a_zero_last_layer_is_log_two(scene):
    def change(parameters):
        parameters[2][...], parameters[3][...] = 0.0, 0.0

    found = with_weights(WATS(), change, scene)
    np.testing.assert_allclose(found, np.log(2.0) + 1e-6, rtol=1e-6)


def test_gats_is_its_formula_written_out(scene):
    """Node by node in float64, from the fitted parameters."""
    rng = np.random.default_rng(0)

    def change(parameters):
        for array in parameters[:3]:
            array[...] = rng.uniform(0.2, 1.0, size=array.shape)

    gats = GATS(heads=3)
    found = with_weights(gats, change, scene)
    theta, omega, gamma, bias = (array.astype(np.float64) for array in gats.parameters_)
    z, graph = scene.logits.astype(np.float64), scene.graph
    c = temperature.apply(z).max(axis=1)
    neighbours = [{i} for i in range(graph.num_nodes)]
    for i, j in graph.edges:
        neighbours[i].add(int(j))
        neighbours[j].add(int(i))
    inside = set(scene.train.tolist())
    factor = np.array(
        [
            gamma[0] if i in inside else gamma[1] if near & inside else 1.0
            for i, near in enumerate(neighbours)
        ]
    )
    tau = unit_sorted(z) @ theta
    for i in range(0, graph.num_nodes, 37):
        near = sorted(neighbours[i])
        score = (z[near] @ z[i]) / (factor[near] * factor[i])
        score = np.where(score > 0, score, 0.2 * score)
        share = np.exp(score - score.max())
        share /= share.sum()
        drive = omega * (c[i] - c[near]).mean() + (share * factor[near]) @ tau[near]
        expected = np.log1p(np.exp(drive)).mean() + bias
        assert found[i] == pytest.approx(expected.item(), rel=1e-4)


def test_gats_does_not_know_the_names_of_the_classes(scene):
    gats = GATS(epochs=5).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )
    plain = gats.temperatures(scene.other_logits, graph=scene.other)
    permuted = gats.temperatures(scene.other_logits[:, [2, 0, 1]], graph=scene.other)
    np.testing.assert_allclose(permuted, plain, rtol=1e-5)


def test_gats_needs_to_be_told_where_it_was_trained(scene):
    gats = GATS(epochs=30).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )
    with_train = gats.temperatures(scene.logits, graph=scene.graph, train_nodes=scene.train)
    without = gats.temperatures(scene.logits, graph=scene.graph)
    assert np.abs(with_train - without).max() > 1e-4
    equal = np.zeros((scene.graph.num_nodes, 3))
    assert np.isfinite(gats.transform(equal, graph=scene.graph)).all()


def test_confidence_gap_is_the_mean_difference():
    g = Graph(features=[[0.0]] * 4, edges=[[0, 1], [0, 2]])
    z = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 1.0], [5.0, 0.0]])
    c = temperature.apply(z).max(axis=1)
    gap = confidence_gap(z, g)
    assert gap[0] == pytest.approx(((c[0] - c[1]) + (c[0] - c[2])) / 3)
    assert gap[3] == 0.0


def test_gets_with_one_expert_is_cagcn_with_softplus(scene):
    gets = GETS(experts=("logits",), active=1, epochs=1)
    gets.fit(scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train)
    cagcn = CaGCN(floor=1.0, margin=0.0, epochs=1)
    cagcn.fit(scene.logits, scene.labels, scene.graph, scene.cal)
    cagcn.parameters_ = gets.parameters_[5:9]
    np.testing.assert_allclose(
        gets.temperatures(scene.logits, graph=scene.graph),
        cagcn.temperatures(scene.logits, graph=scene.graph),
        rtol=1e-5,
    )


def test_gets_by_class_changes_predictions_and_refuses_one_temperature(scene):
    gets = GETS(scale="node_class", lr=0.1, epochs=40)
    gets.fit(scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train)
    p = gets.transform(scene.logits, graph=scene.graph)
    assert (p.argmax(axis=1) != scene.logits.argmax(axis=1)).any()
    with pytest.raises(InputError, match="use transform"):
        gets.temperatures(scene.logits, graph=scene.graph)


def test_expected_load_is_the_chance_of_being_chosen_again():
    """Redraw one expert's noise many times and count how often it is among the top two."""
    rng = np.random.default_rng(0)
    clean = torch.tensor(rng.normal(size=(1, 4)), dtype=torch.float32)
    deviation = torch.tensor(rng.uniform(0.5, 1.5, size=(1, 4)), dtype=torch.float32)
    noisy = clean + deviation * torch.tensor(rng.normal(size=(1, 4)), dtype=torch.float32)
    gates = torch.zeros(1, 4).scatter(1, noisy.topk(2).indices, 0.5)
    load = expected_load(Gate(gates, clean, noisy, deviation), 2)
    for expert in range(4):
        others = np.delete(noisy.numpy()[0], expert)
        draws = clean[0, expert].item() + deviation[0, expert].item() * rng.normal(size=40_000)
        chance = (draws > np.sort(others)[-2]).mean()
        assert load[expert].item() == pytest.approx(chance, abs=0.01)


def ring(count, step):
    nodes = np.arange(count)
    edges = [np.column_stack([nodes, (nodes + k) % count]) for k in step]
    return Graph.from_edges(np.zeros((count, 8)), np.concatenate(edges))


def test_wats_sees_structure_only(scene):
    wats = WATS(epochs=20).fit(
        scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train
    )
    regular = ring(50, (1, 2))
    for coefficients in ("heat", "exponential"):
        features = wavelet_features(regular, coefficients, 4, 0.4)
        np.testing.assert_allclose(features, features[:1].repeat(50, axis=0), atol=1e-6)
    flat = wats.temperatures(np.random.default_rng(0).normal(size=(50, 3)), graph=regular)
    assert np.ptp(flat) < 1e-5
    noisy = shifts.noise(1.0)(scene.graph)
    before = wats.temperatures(scene.logits, graph=scene.graph)
    after = wats.temperatures(scene.predictor(noisy), graph=noisy)
    assert (before == after).all()


def test_wats_features_are_the_heat_kernel():
    """Summed over the order, the terms are exp(-s L) x, up to the rows' own scale."""
    g = Graph.from_edges(np.zeros((12, 1)), np.random.default_rng(0).integers(12, size=(20, 2)))
    features = wavelet_features(g, "heat", 14, 0.7)
    x = np.log1p(2.0 * (g.degrees + 1.0))
    dense = np.eye(12)
    dense[g.edges[:, 0], g.edges[:, 1]] = dense[g.edges[:, 1], g.edges[:, 0]] = 1.0
    root = np.diag(1 / np.sqrt(dense.sum(axis=1)))
    values, vectors = np.linalg.eigh(np.eye(12) - root @ dense @ root)
    smoothed = vectors @ (np.exp(-0.7 * values) * (vectors.T @ x))
    scale = smoothed / features.sum(axis=1)
    # The first term is a_0 x before rows are scaled, which gives the same scale again.
    from scipy.special import ive

    np.testing.assert_allclose(features[:, 0] * scale, ive(0, 0.7) * x, rtol=1e-5)


def test_rbs_with_one_bin_is_temperature_scaling(scene):
    rbs = RBS(bins=1).fit(scene.logits, scene.labels, scene.graph, scene.cal)
    ts = TemperatureScaling().fit(scene.logits, scene.labels, nodes=scene.cal)
    expected = ts.transform(scene.other_logits)
    np.testing.assert_allclose(rbs.transform(scene.other_logits, graph=scene.other), expected)


def test_rbs_bins_by_the_neighbours_support(scene):
    rbs = RBS(bins=3).fit(scene.logits, scene.labels, scene.graph, scene.cal)
    p = temperature.apply(scene.logits.astype(np.float64))
    index = np.minimum((neighbour_support(p, scene.graph) * 3).astype(int), 2)
    for part in range(3):
        rows = scene.cal[index[scene.cal] == part]
        solved = temperature.solve(scene.logits[rows].astype(np.float64), scene.labels[rows])
        if solved.status == "optimal":
            assert rbs.temperatures_[part] == pytest.approx(solved.temperature)
    assert np.unique(rbs.temperatures_).size > 1


def test_simcalib_carries_prototypes_to_another_graph(scene):
    hidden, other = scene.graph.features, scene.other.features
    sim = SimCalib(epochs=20).fit(
        scene.logits,
        scene.labels,
        scene.graph,
        scene.cal,
        train_nodes=scene.train,
        embeddings=hidden,
    )
    means = [
        np.asarray(hidden)[scene.train][scene.labels[scene.train] == k].mean(0) for k in range(3)
    ]
    np.testing.assert_allclose(sim.prototypes_, means, atol=1e-5)
    near = sim.temperatures(scene.other_logits, graph=scene.other, embeddings=other)
    far = sim.temperatures(scene.other_logits, graph=scene.other, embeddings=10.0 * other)
    assert np.abs(near - far).max() > 1e-3
    with pytest.raises(InputError, match="3 columns but this SimCalib was fitted on 8"):
        sim.transform(scene.other_logits, graph=scene.other)


def test_simcalib_without_a_class_among_the_training_nodes():
    means, whitening = prototypes(np.eye(3), np.array([0, 0, 2]), 3)
    np.testing.assert_allclose(means[1], 1 / 3)
    assert np.isfinite(whitening).all()


def test_relative_degree_of_isolated_nodes_is_one():
    g = Graph(features=[[0.0]] * 3, edges=[[0, 1]])
    alike, relative = neighbourhood(np.eye(3), g)
    assert alike[2] == relative[2] == relative[0] == 1.0


@pytest.mark.parametrize("stop", ["train", "calibration", "folds"])
def test_when_training_stops(scene, stop):
    wats = WATS(stop=stop, epochs=40, patience=5)
    wats.fit(scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train)
    assert 1 <= wats.epoch_ <= 40
    if stop == "train":
        with pytest.raises(InputError, match='stop="train" needs train_nodes'):
            wats.fit(scene.logits, scene.labels, scene.graph, scene.cal)


def test_folds_choose_less_training_where_there_is_nothing_to_learn(scene):
    """Labels that are coin flips: a network that trains on must hurt on held-out nodes."""
    labels = np.random.default_rng(0).integers(3, size=500)
    cagcn = CaGCN(stop="folds", epochs=300, lr=0.05, weight_decay=0.0, dropout=0.0, margin=0.0)
    flipped = cagcn.fit(scene.logits, labels, scene.graph, scene.cal[:40])
    assert flipped.epoch_ < 300
    assert np.bincount(fold_numbers(40, 3, 0)).tolist() == [14, 13, 13]


def test_stac_is_the_package_stac_and_checks_the_logits(scene):
    from graphtemper import stac

    calibrator = STAC(scene.predictor, seed=3)
    calibrator.fit(scene.logits, scene.labels, scene.graph, scene.cal)
    tau = stac.threshold(scene.predictor, scene.graph, scene.cal)
    assert calibrator.threshold_ == tau
    result = stac.stac(scene.predictor, scene.other, tau, seed=3)
    p = calibrator.transform(scene.other_logits, graph=scene.other)
    np.testing.assert_allclose(p, result.probabilities)
    with pytest.raises(InputError, match="not those of the predictor"):
        calibrator.transform(scene.other_logits + np.array([0.0, 1.0, 0.0]), graph=scene.other)
