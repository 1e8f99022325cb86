"""The public contract under unusual numbers, shapes and memory layouts.

For every input the answer is sound or the error is one sentence. The invariants are those that
users rely on: rows sum to 1, predictions stay, a constant added to a node's logits and the order of
nodes and classes do not matter, labels of the target are not read, and a seed determines the bytes.
"""

import hashlib
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers import FEW_SHIFTS, block_model, needs

from graphtemper import Graph, SourceCard, csbm, metrics, recalibrate, temperature
from graphtemper.errors import GraphTemperError, GraphTemperWarning
from graphtemper.graph import operators as propagate
from graphtemper.models import SIGN

NUM_CLASSES, NUM_FEATURES = 3, 6
NO_EDGES = np.empty((0, 2), int)
# Multiplies the number of examples, for a longer search by hand.
TIMES = int(os.environ.get("GRAPHTEMPER_HOSTILE", "1"))


def answer_or_none(call):
    """Return an answer, or None after an error of one sentence; anything else fails the test."""
    try:
        return call()
    except GraphTemperError as error:
        message = str(error)
    assert message
    assert "\n" not in message
    return None


def some(examples):
    """Return the settings of a property; the machine may be busy, so there is no deadline."""
    return settings(
        max_examples=max(examples * TIMES // 2, 3),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


# --- inputs -----------------------------------------------------------------------------------


def ties(rng, shape):
    return np.round(rng.standard_normal(shape))


def certain(rng, shape):
    return np.eye(shape[1])[rng.integers(shape[1], size=shape[0])]


def mixed_rows(rng, shape):
    """Return rows of very different scale."""
    return rng.standard_normal(shape) * 10.0 ** rng.uniform(-30, 0, size=(shape[0], 1))


def plain(rng, shape):
    return rng.standard_normal(shape)


@st.composite
def logit_tables(draw, rows, classes):
    """Draw logits from 1e-30 to 1e30: plain, tied, certain, or rows of different scale."""
    kind = draw(st.sampled_from([plain, ties, certain, mixed_rows]))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    # Not exactly 1: zeros and ones would be refused as probabilities.
    return kind(rng, (draw(rows), draw(classes))) * 10.0 ** draw(st.integers(-30, 30)) * 1.25


SIZES = (st.integers(1, 20), st.sampled_from([2, 3, 10, 500]))


def hub(n):
    return np.column_stack([np.zeros(n - 1, int), np.arange(1, n)])


def path(n):
    return np.column_stack([np.arange(n - 1), np.arange(1, n)])


def halves(n):
    """Return two paths that are not connected."""
    return np.delete(path(n), n // 2 - 1, axis=0)


def clique(n):
    return np.argwhere(np.triu(np.ones((n, n)), 1))


SHAPES = {
    "no edges": lambda n: NO_EDGES,
    "hub": hub,
    "path": path,
    "halves": halves,
    "clique": clique,
    "one edge": lambda n: path(n)[:1],
}


@st.composite
def targets(draw):
    """Draw graphs of at least one node, with equal nodes, zeros, and features of any scale."""
    n = draw(st.sampled_from([1, 2, 3, 7, 30]))
    shape = draw(st.sampled_from(sorted(SHAPES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    features = rng.standard_normal((n, NUM_FEATURES))
    features *= draw(st.sampled_from([0.0, 1e-12, 1.0, 1e12]))
    if draw(st.booleans()):
        features[:] = features[0]
    return Graph(features=features, edges=SHAPES[shape](n) if n > 1 else NO_EDGES)


# --- a small deployment -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def source():
    settings = {"snr": 1.5, "num_classes": NUM_CLASSES, "num_features": NUM_FEATURES}
    return block_model(1, num_nodes=240, **settings)


@pytest.fixture(scope="module")
def model(source):
    return SIGN(hops=1).fit(source, range(120))


def small_card(predictor, source, nodes=range(120, 240)):
    nodes = source.labelled if nodes is None else nodes
    return SourceCard.build(predictor, source, nodes, compositions=0, shifts=FEW_SHIFTS)


@pytest.fixture(scope="module")
def card(source, model):
    return small_card(model, source)


@pytest.fixture(scope="module")
def target(source):
    return source.replace(
        features=source.features + np.random.default_rng(3).standard_normal((240, 6))
    )


def check_sound(result, logits):
    p, accuracy = result.probabilities, result.accuracy
    assert p.shape == logits.shape
    assert np.isfinite(p).all()
    assert (p >= 0.0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    assert (p.argmax(axis=1) == logits.argmax(axis=1)).all()
    assert 0.0 <= accuracy.low <= accuracy.value <= accuracy.high <= 1.0
    used = result.temperature if result.node_temperatures is None else result.node_temperatures
    assert isinstance(result.temperature, float)
    assert (np.asarray(used) > 0.0).all()
    assert np.isfinite(used).all()
    json.dumps(result.to_dict(), allow_nan=False)


# --- recalibrate ------------------------------------------------------------------------------


@given(targets(), st.data(), st.booleans())
@some(25)
def test_any_logits_get_a_sound_answer(card, graph, data, per_node):
    z = data.draw(logit_tables(st.just(graph.num_nodes), st.just(NUM_CLASSES)))
    check_sound(recalibrate(z, graph, card, per_node=per_node), z)


@given(targets(), st.booleans())
@some(25)
def test_any_graph_gets_a_sound_answer(card, model, graph, per_node):
    logits = np.asarray(model(graph), np.float64)
    check_sound(recalibrate(model, graph, card, per_node=per_node), logits)


@given(targets(), st.data())
@some(10)
def test_any_labels_get_a_sound_answer(card, graph, data):
    z = data.draw(logit_tables(st.just(graph.num_nodes), st.just(NUM_CLASSES)))
    nodes, classes = st.integers(0, graph.num_nodes - 1), st.integers(0, NUM_CLASSES - 1)
    labels = data.draw(st.dictionaries(nodes, classes, max_size=4))
    check_sound(recalibrate(z, graph, card, labels=labels), z)


@given(st.integers(0, 2**31), st.integers(-3, 3))
@some(10)
def test_a_constant_added_to_logits_does_not_matter(card, model, target, seed, power):
    z = np.asarray(model(target), np.float64) * 10.0**power
    offsets = np.random.default_rng(seed).standard_normal((len(z), 1)) * np.abs(z).max()
    plain, moved = (recalibrate(logits, target, card) for logits in (z, z + offsets))
    np.testing.assert_allclose(moved.probabilities, plain.probabilities, atol=1e-6)
    assert moved.accuracy.value == pytest.approx(plain.accuracy.value, abs=1e-6)
    assert moved.temperature == pytest.approx(plain.temperature, rel=1e-6)
    assert moved.verdict == plain.verdict


@given(st.integers(0, 2**31))
@some(6)
def test_the_order_of_nodes_does_not_matter(card, model, target, seed):
    order = np.random.default_rng(seed).permutation(target.num_nodes)
    place = np.argsort(order)
    turned = Graph(features=target.features[order], edges=place[target.edges])
    z = model(target)
    first, second = recalibrate(z, target, card), recalibrate(z[order], turned, card)
    np.testing.assert_allclose(second.probabilities, first.probabilities[order], atol=1e-5)
    assert second.accuracy.value == pytest.approx(first.accuracy.value, abs=1e-5)
    assert second.verdict == first.verdict


def test_the_order_of_classes_does_not_matter(model, source, target):
    order = np.array([2, 0, 1])
    # A callable, not a SIGN: its perturbed passes draw features, which do not depend on classes.
    renamed = source.replace(labels=np.argsort(order)[source.labels])
    first = recalibrate(lambda g: model(g), target, small_card(lambda g: model(g), source))
    second = recalibrate(
        lambda g: model(g)[:, order], target, small_card(lambda g: model(g)[:, order], renamed)
    )
    np.testing.assert_allclose(second.probabilities, first.probabilities[:, order], atol=0.01)
    assert second.accuracy.value == pytest.approx(first.accuracy.value, abs=0.003)
    assert second.verdict == first.verdict


def as_bytes(result):
    """Return everything an answer holds as bytes."""
    arrays = (result.probabilities, np.asarray(result.node_temperatures, float), result.nodes)
    return json.dumps(result.to_dict()), *(array.tobytes() for array in arrays)


@pytest.mark.parametrize("change", [None, "absent", "wrong", "unlabelled"])
def test_labels_of_the_target_change_no_byte(card, model, target, change):
    hidden = {
        None: None,
        "absent": np.zeros(target.num_nodes, int),
        "wrong": (target.labels + 1) % NUM_CLASSES,
        "unlabelled": np.full(target.num_nodes, -1),
    }[change]
    blind = target.replace(labels=hidden)
    for predictor in (model, model(target)):
        first = recalibrate(predictor, target, card, per_node=True)
        assert as_bytes(recalibrate(predictor, blind, card, per_node=True)) == as_bytes(first)


# --- layouts ----------------------------------------------------------------------------------


def frozen(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def mapped(array, folder):
    # One file each: writing to a mapped file would change the arrays that read it.
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, array)
    return np.load(path, mmap_mode="r")


LAYOUTS = {
    "Fortran order": lambda array, _: np.asfortranarray(array),
    "read-only": lambda array, _: frozen(array),
    "memory-mapped": mapped,
    "every second row of more": lambda array, _: np.repeat(array, 2, axis=0)[::2],
    "backwards and back": lambda array, _: array[::-1].copy()[::-1],
    "list": lambda array, _: array.tolist(),
    "other byte order": lambda array, _: array.astype(array.dtype.newbyteorder()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_change_no_byte(card, model, target, tmp_path, layout):
    def lay(array):
        return LAYOUTS[layout](array, tmp_path)

    z = np.asarray(model(target), np.float64)
    p, y = temperature.apply(z), target.labels
    again = Graph(features=lay(target.features), edges=lay(target.edges), labels=lay(y))
    laid = lay(z)
    assert as_bytes(recalibrate(laid, again, card)) == as_bytes(recalibrate(z, target, card))
    assert as_bytes(recalibrate(model, again, card)) == as_bytes(recalibrate(model, target, card))
    assert temperature.apply(laid).tobytes() == p.tobytes()
    assert temperature.fit(laid, y) == temperature.fit(z, y)
    assert temperature.match_confidence(laid, 0.7) == temperature.match_confidence(z, 0.7)
    for score in (metrics.ece, metrics.nll, metrics.brier):
        assert score(lay(p), y) == score(p, y)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_types_of_numbers(card, target, dtype):
    rng = np.random.default_rng(2)
    z = np.round(rng.standard_normal((240, NUM_CLASSES)) * 4)
    z = (z + 4 * np.eye(NUM_CLASSES)[target.labels]).astype(dtype)  # exact in each type
    wide = z.astype(np.float64)
    assert as_bytes(recalibrate(z, target, card)) == as_bytes(recalibrate(wide, target, card))
    np.testing.assert_allclose(temperature.apply(z), temperature.apply(wide), atol=1e-7)
    assert temperature.fit(z, target.labels) == pytest.approx(temperature.fit(wide, target.labels))
    small = Graph(features=z, edges=target.edges).features
    assert small.dtype == np.float32
    np.testing.assert_array_equal(small, wide)


def test_sparse_features_with_explicit_zeros_are_sparse_features(source):
    dense = np.where(np.abs(source.features) > 0.7, source.features, 0.0)
    clean = sp.csr_matrix(dense)
    rows, columns = np.divmod(np.arange(dense.size), NUM_FEATURES)
    stored = sp.csr_matrix((dense.ravel(), (rows, columns)), shape=dense.shape)
    assert stored.nnz > clean.nnz
    found = []
    for features in (clean, stored):
        graph = source.replace(features=features)
        model = SIGN(hops=1).fit(graph, range(120))
        made = small_card(model, graph)
        found.append((recalibrate(model, graph, made).probabilities, made.reference.accuracy))
    np.testing.assert_allclose(found[1][0], found[0][0], atol=1e-6)
    assert found[1][1] == found[0][1]


# --- cards ------------------------------------------------------------------------------------


@given(st.integers(2, 4), st.sampled_from(sorted(SHAPES)), st.integers(0, 2**31), st.booleans())
@some(6)
def test_cards_of_odd_sources(num_classes, shape, seed, missing):
    """Stars, isolated nodes and empty classes give a card and an answer, or one sentence."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(num_classes - missing, size=60)
    features = rng.standard_normal((60, 3)) + labels[:, None]
    graph = Graph(features=features, edges=SHAPES[shape](60), labels=labels)
    weights = rng.standard_normal((3, num_classes))
    logits = features.astype(np.float32) @ weights

    def predictor(g):
        return np.asarray(g.features @ weights)

    made = answer_or_none(lambda: small_card(predictor, graph, None))
    if made is not None:
        check_sound(recalibrate(predictor, graph, made), logits)


@pytest.mark.parametrize("num_classes", [2, 40, 60])
def test_few_and_many_classes(num_classes):
    rng = np.random.default_rng(num_classes)
    n = 2 * num_classes + 60
    labels = rng.integers(num_classes, size=n)
    logits = rng.standard_normal((n, num_classes)) + 4.0 * np.eye(num_classes)[labels]
    graph = Graph(features=np.arange(n)[:, None] / n, edges=path(n), labels=labels)

    def look_up(g):
        return logits  # a model that is always right

    made = small_card(look_up, graph, None)
    check_sound(recalibrate(logits, graph, made), logits)
    check_sound(recalibrate(look_up, graph, made), logits)


@pytest.mark.parametrize("absent", ["source", "target"])
def test_a_class_that_is_missing_in_source_or_target(source, model, absent):
    only = np.flatnonzero(source.labels != 2)
    val = np.arange(120, 240)
    nodes = np.intersect1d(only, val) if absent == "source" else val
    seen = only if absent == "target" else None
    made = small_card(model, source, nodes)
    result = recalibrate(model, source, made, seen)
    logits = np.asarray(model(source), np.float64)
    check_sound(result, logits if seen is None else logits[seen])


@pytest.mark.nightly
def test_a_hub_of_two_million_neighbours():
    n = 2_000_001
    g = Graph(features=np.ones((n, 1), np.float32), edges=hub(n))
    assert g.degrees[0] == n - 1
    # D^-1/2 A D^-1/2: n - 1 leaves of weight (n - 1)^-1/2 each.
    spread = propagate.multiply(propagate.operator(g, "symmetric"), g.features)
    np.testing.assert_allclose(spread[0], np.sqrt(n - 1), rtol=1e-6)
    np.testing.assert_allclose(spread[1:], 1 / np.sqrt(n - 1), rtol=1e-6)


# --- temperature and metrics ------------------------------------------------------------------


@given(logit_tables(*SIZES), st.floats(-12, 12))
@some(60)
def test_softmax_of_any_logits(z, power):
    t = 10.0**power
    p = temperature.apply(z, t)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    top = np.take_along_axis(p, z.argmax(axis=1)[:, None], 1)
    assert (top[:, 0] == p.max(axis=1)).all()
    order = np.random.default_rng(0).permutation(z.shape[1])
    np.testing.assert_allclose(temperature.apply(z[:, order], t), p[:, order], rtol=1e-12)
    np.testing.assert_array_equal(temperature.apply(z[::-1], t), p[::-1])
    assert temperature.mean_confidence(z, t) == pytest.approx(p.max(axis=1).mean())


@given(logit_tables(*SIZES), st.integers(0, 2**31))
@some(60)
def test_a_fit_to_any_logits(z, seed):
    labels = np.random.default_rng(seed).integers(z.shape[1], size=len(z))
    found = temperature.solve(z, labels)
    assert 0.0 < found.temperature < np.inf
    assert np.isfinite(temperature.apply(z, found.temperature)).all()
    # A bound is where all probabilities are uniform or one-hot to six digits.
    slack = 1e-12 if found.status == "optimal" else 1e-5
    assert found.nll_after <= found.nll_before * (1 + 1e-9) + slack
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphTemperWarning)
        assert temperature.fit(z, labels) == found.temperature
    order = np.random.default_rng(0).permutation(z.shape[1])
    renamed = temperature.solve(z[:, order], np.argsort(order)[labels])
    assert renamed.nll_after == pytest.approx(found.nll_after, rel=1e-6, abs=1e-9)


@given(logit_tables(*SIZES), st.floats(0, 1))
@some(60)
def test_matching_any_accuracy(z, accuracy):
    t = answer_or_none(lambda: temperature.match_confidence(z, accuracy))
    if t is not None:
        assert temperature.mean_confidence(z, t) == pytest.approx(accuracy, abs=1e-9)


@given(logit_tables(*SIZES), st.integers(0, 2**31))
@some(40)
def test_metrics_of_any_logits(z, seed):
    rng = np.random.default_rng(seed)
    p, labels = temperature.apply(z), rng.integers(z.shape[1], size=len(z))
    order, names = rng.permutation(len(z)), rng.permutation(z.shape[1])
    for score in (metrics.ece, metrics.mce):
        value = score(p, labels)
        assert 0.0 <= value <= 1.0 + 1e-9
        assert score(p[order], labels[order]) == pytest.approx(value, abs=1e-9)
    assert 0.0 <= metrics.brier(p, labels) <= 2.0 + 1e-9
    assert metrics.nll(p, labels) >= 0.0
    unique = (p == p.max(axis=1, keepdims=True)).sum() == len(p)
    turned, renamed = p[:, names], np.argsort(names)[labels]
    assert metrics.brier(turned, renamed) == pytest.approx(metrics.brier(p, labels))
    if unique:  # among tied classes the first is predicted, so their order matters
        assert metrics.ece(turned, renamed) == pytest.approx(metrics.ece(p, labels))


# --- graphs and block models ------------------------------------------------------------------


@pytest.mark.cpu(4)
@given(
    st.integers(1, 200),
    st.integers(2, 500),
    st.floats(0, 1),
    st.floats(0, 8),
    st.floats(0, 1e6),
    st.integers(0, 2**31),
)
@some(60)
def test_block_models_of_any_parameters(num_nodes, num_classes, homophily, degree, snr, seed):
    def draw():
        return csbm.sample(num_nodes, degree, homophily, snr, num_classes=num_classes, seed=seed)

    first = answer_or_none(draw)
    if first is None:
        return
    second = draw()
    assert first.features.tobytes() == second.features.tobytes()
    assert first.edges.tobytes() == second.edges.tobytes()
    assert first.num_nodes == num_nodes
    assert np.isfinite(first.features).all()
    assert (first.edges[:, 0] != first.edges[:, 1]).all()


@given(st.integers(1, 8), st.data())
@some(40)
def test_graphs_of_any_edges(num_nodes, data):
    ends = st.integers(-2, 9)
    edges = data.draw(st.lists(st.tuples(ends, ends), max_size=8))
    pairs = np.array(edges, int).reshape(-1, 2)
    g = answer_or_none(lambda: Graph.from_edges(np.ones((num_nodes, 1)), pairs))
    inside = ((pairs >= 0) & (pairs < num_nodes)).all()
    assert (g is not None) == inside
    if g is None:
        return
    expected = {tuple(sorted(edge)) for edge in edges if edge[0] != edge[1]}
    assert {tuple(sorted(edge)) for edge in g.edges.tolist()} == expected
    assert g.degrees.sum() == 2 * len(expected)


# --- reproducibility --------------------------------------------------------------------------

JOB = """
import hashlib, sys
from graphtemper import Graph, SourceCard, csbm, recalibrate
from graphtemper.models import load
few = {"noise": (0.6, 1.5), "rewire": (0.2, 0.5), "drop": (0.5,), "mask": (0.4,)}
model, source = load(sys.argv[1] + "/model.npz"), Graph.load(sys.argv[1] + "/source.npz")
card = SourceCard.build(model, source, range(120, 240), compositions=0, shifts=few)
result = recalibrate(model, source, card, per_node=True, seed=5)
drawn = csbm.sample(3000, 6, 0.8, 1.0, num_classes=4, seed=9)
for part in (card.to_json().encode(), result.probabilities.tobytes(), drawn.features.tobytes()):
    print(hashlib.sha256(part).hexdigest())
"""
# Large enough for a linear algebra library to share its products among threads.
LARGE_JOB = """
import hashlib
import numpy as np
from graphtemper import SourceCard, csbm, recalibrate
from graphtemper.models import SIGN
few = {"noise": (0.6, 1.5), "rewire": (0.2, 0.5), "drop": (0.5,), "mask": (0.4,)}
g = csbm.sample(20000, 4, 0.8, 1.0, num_classes=7, num_features=300, seed=1)
model = SIGN(hops=2, max_iter=20).fit(g, range(1000))
card = SourceCard.build(model, g, range(1000, 3000), compositions=0, shifts=few)
result = recalibrate(model, g, card, seed=5)
for part in (model.weights_, model(g), card.reference.evidence.covariance):
    print(hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest())
print(hashlib.sha256(result.probabilities.tobytes()).hexdigest(), float(result.temperature).hex())
"""


def on_threads(threads, *arguments):
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return subprocess.run(
        [sys.executable, "-c", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | dict.fromkeys(names, str(threads)) | {"PYTHONHASHSEED": str(threads)},
    ).stdout


@pytest.mark.nightly
@pytest.mark.skipif(os.cpu_count() == 1, reason="one core has one thread")
def test_the_same_bytes_of_a_large_job_on_other_threads():
    needs("pyarrow")
    assert on_threads(1, LARGE_JOB) == on_threads(2, LARGE_JOB)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bytes_in_another_process_and_on_other_threads(
    card, model, source, tmp_path, threads
):
    model.save(tmp_path / "model.npz")
    source.save(tmp_path / "source.npz")
    found = on_threads(threads, JOB, str(tmp_path))
    result = recalibrate(model, source, card, per_node=True, seed=5)
    drawn = csbm.sample(3000, 6, 0.8, 1.0, num_classes=4, seed=9)
    parts = (card.to_json().encode(), result.probabilities.tobytes(), drawn.features.tobytes())
    assert found.split() == [hashlib.sha256(part).hexdigest() for part in parts]
