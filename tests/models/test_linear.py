import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from tests.helpers import raises

from graphtemper import Graph, csbm, models
from graphtemper._core.files import write_npz
from graphtemper.errors import InputError, VersionError
from graphtemper.graph.operators import operator
from graphtemper.models import SGC, SIGN


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(600, degree=8, homophily=0.7, snr=1.0, num_classes=3, num_features=6, seed=4)


def naive_logits(model, graph):
    blocks, matrix = [graph.features], operator(graph, model.operator)
    for _ in range(model.hops):
        blocks.append(matrix @ blocks[-1])
    used = np.hstack([blocks[k] for k in model.hops_used])
    return used @ model.weights_.reshape(-1, model.weights_.shape[2]) + model.intercept_


@pytest.mark.parametrize("model", [SIGN(hops=2), SIGN(hops=0), SGC(hops=2), SGC(1, "mean")])
def test_projecting_first_equals_propagating_features(graph, model):
    model.fit(graph, np.arange(300))
    np.testing.assert_allclose(model(graph), naive_logits(model, graph), atol=1e-4)


@pytest.mark.parametrize("model", [SIGN(hops=3), SGC(hops=2)])
def test_design_of_some_nodes_equals_rows_of_the_whole(graph, model):
    nodes = np.array([5, 3, 400, 17])
    np.testing.assert_allclose(model.design(graph, nodes), model.design(graph)[nodes], atol=1e-6)


def test_sparse_and_dense_features_give_the_same_model(graph):
    dense = SIGN(C=0.5).fit(graph, np.arange(300))
    sparse_graph = graph.replace(features=sp.csr_matrix(graph.features))
    sparse = SIGN(C=0.5).fit(sparse_graph, np.arange(300))
    np.testing.assert_allclose(sparse(sparse_graph), dense(graph), atol=2e-3)


def test_the_head_is_scikit_learns_optimum(graph):
    from sklearn.linear_model import LogisticRegression

    nodes = np.arange(400)
    model = SIGN(C=2.0, tol=1e-9).fit(graph, nodes)
    head = LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-10)
    head.fit(model.design(graph, nodes), graph.labels[nodes])
    np.testing.assert_allclose(
        model(graph)[nodes], head.decision_function(model.design(graph, nodes)), atol=1e-3
    )


def test_binary_logits_are_zero_and_g():
    from sklearn.linear_model import LogisticRegression

    g = csbm.sample(400, degree=10, homophily=0.8, snr=1.0, seed=2)
    model = SIGN(tol=1e-9).fit(g)
    head = LogisticRegression(tol=1e-9, max_iter=1000).fit(model.design(g), g.labels)
    logits = model(g)
    assert not logits[:, 0].any()
    np.testing.assert_allclose(logits[:, 1], head.decision_function(model.design(g)), atol=1e-4)


def test_no_penalty_is_allowed(graph):
    free, strong = SIGN(C=np.inf).fit(graph), SIGN(C=0.01).fit(graph)
    assert np.abs(free.weights_).sum() > 2 * np.abs(strong.weights_).sum()


def test_a_class_without_fitted_nodes_never_wins(graph):
    nodes = np.flatnonzero(graph.labels != 1)
    logits = SIGN().fit(graph, nodes)(graph)
    assert logits.shape == (600, 3)
    assert np.isfinite(logits).all()
    assert not (logits.argmax(axis=1) == 1).any()


@pytest.mark.parametrize("kind", [SIGN, SGC])
def test_save_and_load(graph, tmp_path, kind):
    model = kind(hops=1, C=3.0).fit(graph)
    model.save(tmp_path / "m.npz")
    loaded = models.load(tmp_path / "m.npz")
    assert type(loaded) is kind
    assert loaded.get_params() == model.get_params()
    assert loaded.converged_ is model.converged_ is True
    assert loaded(graph).tobytes() == model(graph).tobytes()


def test_a_model_that_did_not_converge_says_so_after_loading(graph, tmp_path):
    SIGN(C=np.inf, max_iter=1).fit(graph).save(tmp_path / "m.npz")
    loaded = models.load(tmp_path / "m.npz")
    assert loaded.converged_ is False
    assert np.isinf(loaded.C)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"weights": None}, "damaged"),
        ({"header": np.array("not json")}, "damaged"),
        ({"header": np.array('{"format": "x"}')}, VersionError),
        ({"weights": np.zeros((1, 6, 3))}, "damaged"),
        ({"intercept": np.array([0, np.nan, 0])}, "damaged"),
        ({"weights": np.full((3, 6, 3), 1e300)}, "damaged"),
        ({"weights": np.zeros((3, 6, 1)), "intercept": np.zeros(1)}, "damaged"),
        ({"header": np.array("[" * 100_000)}, "damaged"),
    ],
)
def test_damaged_model_files(graph, tmp_path, change, error):
    SIGN().fit(graph).save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as file:
        arrays = {**file, **change}
    write_npz(tmp_path / "m.npz", {k: v for k, v in arrays.items() if v is not None})
    with raises(error):
        models.load(tmp_path / "m.npz")


@pytest.mark.parametrize(
    "change",
    [
        {"hops": 10**9},
        {"hops": True},
        {"operator": ["mean"]},
        {"C": "2"},
        {"max_iter": "abc"},
        {"tol": None},
        {"converged": 1},
        {"model": ["SIGN"]},
        {"surprise": 1},
        "operator",
        "converged",
    ],
)
def test_every_header_field_is_checked_and_required(graph, tmp_path, change):
    SGC().fit(graph).save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    if isinstance(change, str):
        header.pop(change)
    else:
        header |= change
    write_npz(tmp_path / "m.npz", arrays | {"header": np.array(json.dumps(header))})
    with raises("damaged") as caught:
        models.load(tmp_path / "m.npz")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [SIGN, SGC])
@pytest.mark.parametrize(
    "wrong",
    [
        {"hops": 2.5},
        {"hops": 10**9},
        {"C": "2"},
        {"C": np.nan},
        {"max_iter": 0},
        {"tol": np.nan},
        {"tol": None},
        {"operator": "evil"},
    ],
)
def test_wrong_settings_are_refused_at_construction(kind, wrong):
    with pytest.raises(InputError):
        kind(**wrong)


def test_predictions_and_probabilities_are_those_of_the_logits(graph):
    model = SIGN(hops=1).fit(graph, range(300))
    logits = np.asarray(model(graph), np.float64)
    np.testing.assert_array_equal(model.predict(graph), logits.argmax(axis=1))
    np.testing.assert_allclose(model.predict_proba(graph), softmax(logits, axis=1), atol=1e-12)


def test_bad_input(graph):
    with raises("not-fitted"):
        SIGN()(graph)
    with raises("no-labels"):
        SIGN().fit(graph.replace(labels=None))
    with raises("no-labels"):
        SIGN().fit(graph.replace(labels=np.where(np.arange(600) == 2, -1, graph.labels)), range(5))
    with raises("too-few"):
        SIGN().fit(graph, np.flatnonzero(graph.labels == 1))
    with raises("other-features"):
        SIGN().fit(graph)(Graph(features=np.zeros((3, 2)), edges=[]))
    with raises("range"):
        SIGN(C=0)
    with raises("range"):
        SGC(hops=-1)
