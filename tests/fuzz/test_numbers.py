"""The public contract under unusual numbers, shapes and memory layouts.

For every input the answer is sound or the error is one sentence. The invariants are those that
users rely on: rows sum to 1, predictions stay, a constant added to a node's logits and the order of
nodes and classes do not matter, labels of the target are not read, and a seed determines the bytes.
"""

import json
import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers import FEW_SHIFTS, block_model

from graphtemper import Graph, SourceCard, metrics, recalibrate, temperature
from graphtemper.errors import GraphTemperError, GraphTemperWarning
from graphtemper.models import SIGN

pytestmark = pytest.mark.filterwarnings("ignore:in the source")  # models that were not trained

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


def as_bytes(result):
    """Return everything an answer holds as bytes."""
    arrays = (result.probabilities, np.asarray(result.node_temperatures, float), result.nodes)
    return json.dumps(result.to_dict()), *(array.tobytes() for array in arrays)


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
