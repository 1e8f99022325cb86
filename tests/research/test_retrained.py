"""Baselines that train a model of their own."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from tests.helpers import raises

from graphtemper import csbm, shifts

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")


from graphtemper_research.retrained import GDASpecReg, GDeltaUQ, Tent  # noqa: E402
from graphtemper_research.retrained.g_delta_uq import damped  # noqa: E402
from graphtemper_research.retrained.gda_specreg import Critic, leading_vectors  # noqa: E402


def accuracy(p, scene):
    return (p.argmax(axis=1) == scene.labels)[scene.test].mean()


def fitted(model, scene):
    return model.fit(scene.logits, scene.labels, scene.graph, scene.cal, train_nodes=scene.train)


@pytest.mark.parametrize(
    "model",
    [
        Tent(epochs=60),
        GDeltaUQ(epochs=40, anchors=3, lr=0.03),
        GDASpecReg(epochs=60, components=8, lr=0.03),
    ],
    ids=lambda model: type(model).__name__,
)
def test_it_learns_the_task(model, scene):
    p = fitted(model, scene).transform(scene.logits, graph=scene.graph)
    assert accuracy(p, scene) > 0.75


def test_the_given_logits_do_not_matter(scene):
    tent = fitted(Tent(epochs=5), scene)
    expected = tent.transform(scene.other_logits, graph=scene.other)
    assert (tent.transform(0.0 * scene.other_logits, graph=scene.other) == expected).all()


def test_tent_lowers_entropy_step_by_step(scene):
    shifted = shifts.noise(1.0)(scene.graph)
    entropies = []
    for steps in (0, 5, 50):
        tent = fitted(Tent(steps=steps, step_size=0.01, epochs=40), scene)
        p = np.maximum(tent.transform(scene.logits, graph=shifted), 1e-12)
        entropies.append(-(p * np.log(p)).sum(axis=1).mean())
    assert entropies[0] > entropies[1] > entropies[2]


def test_tent_takes_the_statistics_of_the_graph_at_hand(scene):
    """Features in another unit and with another mean give the same predictions."""
    tent = fitted(Tent(steps=0, epochs=40), scene)
    doubled = scene.graph.replace(features=np.asarray(2.0 * scene.graph.features))
    p, q = (tent.transform(scene.logits, graph=g) for g in (scene.graph, doubled))
    np.testing.assert_allclose(p, q, atol=1e-3)


def test_one_anchor_has_no_spread_and_sigma_halves_the_logits(scene):
    plain = fitted(GDeltaUQ(anchors=1, epochs=5), scene)
    halved = fitted(GDeltaUQ(anchors=1, epochs=5, rescale="sigma"), scene)
    p = plain.transform(scene.logits, graph=scene.graph)
    q = halved.transform(scene.logits, graph=scene.graph)
    log_odds, half = (np.log(x[:, 1:] / x[:, :1]) for x in (p, q))
    np.testing.assert_allclose(half, log_odds / 2, atol=1e-9)


def test_spread_over_anchors_lowers_confidence_further():
    passes = np.array([[[3.0, 0.0]], [[1.0, 0.0]]])
    assert abs(damped(passes)[0, 0]) < 1.0


def test_anchored_first_layer_is_that_of_the_joined_input(scene):
    """x W_1 + a (W_2 - W_1) is [x - a, a] times W_1 over W_2."""
    model = fitted(GDeltaUQ(anchors=2, epochs=1), scene)
    parameters = [torch.from_numpy(array) for array in model.parameters_]
    context = model._context(scene.graph)
    fast = [model._output(parameters, context, h) for h in model._anchored(parameters, context)]
    x = np.asarray(scene.graph.features)
    weights = np.concatenate(model.parameters_[:2])
    for row, anchor in enumerate(model.anchors_.toarray()):
        joined = np.concatenate([x - anchor, np.tile(anchor, (len(x), 1))], axis=1)
        aggregated = context.operator @ (joined @ weights).astype(np.float32)
        hidden = torch.from_numpy(np.maximum(aggregated + model.parameters_[2], 0.0))
        slow = model._output(parameters, context, hidden)
        torch.testing.assert_close(fast[row], slow, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("components", [6, 40, 1000])
def test_the_basis_is_that_of_a_singular_value_decomposition_of_the_laplacian(components):
    """A dense SVD of D - A, with the signs of scikit-learn's TruncatedSVD (the authors' tool)."""
    g = csbm.sample(60, degree=6, homophily=0.8, snr=1.0, seed=0)
    dense = np.zeros((60, 60))
    for a, b in g.edges:
        dense[a, b] = dense[b, a] = 1.0
    laplacian = np.diag(dense.sum(axis=0)) - dense
    values, vectors = np.linalg.svd(laplacian)[1:]
    basis = leading_vectors(g, components, seed=0)
    count = min(components, 60)
    assert basis.shape == (60, count)
    gaps = np.abs(np.diff(values, prepend=np.inf, append=-np.inf))
    alone = np.minimum(gaps[:-1], gaps[1:]) > 1e-6  # vectors of equal values may turn
    same = np.abs((basis * vectors[:count].T).sum(axis=0))
    np.testing.assert_allclose(same[alone[:count]], 1.0, atol=1e-6)
    few = TruncatedSVD(5, algorithm="arpack", random_state=0).fit(laplacian).components_
    np.testing.assert_allclose(basis[:, :5], few.T, atol=1e-6)


def test_the_critic_tells_two_clouds_apart():
    generator = torch.Generator().manual_seed(0)
    critic = Critic(generator)
    near = torch.randn(200, 16, generator=generator)
    far = torch.randn(200, 16, generator=generator) + 1.0
    for _ in range(200):
        critic.step(near, far, generator)
    assert critic.score(far).mean() > critic.score(near).mean() + 0.3


def test_other_features_are_refused(scene):
    narrow = scene.other.replace(features=np.asarray(scene.other.features)[:, :5])
    for model in (Tent(epochs=2), GDeltaUQ(epochs=2, anchors=1), GDASpecReg(epochs=2)):
        with raises("other-features"):
            fitted(model, scene).transform(scene.other_logits, graph=narrow)


def test_training_nodes_must_have_labels(scene):
    labels = scene.labels.copy()
    labels[scene.train[0]] = -1
    with raises("no-labels"):
        Tent(epochs=2).fit(scene.logits, labels, scene.graph, scene.cal, train_nodes=scene.train)
