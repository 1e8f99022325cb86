import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import raises

from graphtemper import csbm, shifts
from graphtemper.errors import InputError

EVERY = [
    shifts.noise(0.7),
    shifts.mask(0.4),
    shifts.shuffle(0.5),
    shifts.scale(2.0),
    shifts.offset(0.5),
    shifts.blend(0.4),
    shifts.smooth(0.6),
    shifts.drop_columns(0.5),
    shifts.heterogeneous(1.0),
    shifts.heterogeneous(1.0, "region"),
    shifts.heterogeneous(1.0, "low-degree"),
    shifts.rewire(0.5),
    shifts.drop(0.3),
    shifts.add(0.5),
    shifts.drop_hubs(0.3),
    shifts.homophily(0.4),
    shifts.homophily(-0.4),
    shifts.compose(shifts.noise(0.5), shifts.drop(0.2), shifts.noise(0.5)),
]
NEUTRAL = {"scale": 1.0}


@pytest.fixture(scope="module")
def graph():
    g = csbm.sample(300, degree=6, homophily=0.7, snr=1.0, num_classes=3, num_features=6, seed=2)
    return g.replace(test_masks=np.arange(300)[None] % 2 == 0)


def as_bytes(graph):
    features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.data
    return features.tobytes(), graph.edges.tobytes()


@pytest.mark.parametrize("shift", EVERY, ids=repr)
def test_same_seed_same_bytes_and_labels_stay(graph, shift):
    first, again, other = shift(graph, 5), shift(graph, 5), shift(graph, 6)
    assert as_bytes(first) == as_bytes(again)
    assert as_bytes(first) != as_bytes(graph)
    assert shift.family in ("scale", "smooth") or as_bytes(first) != as_bytes(other)
    assert first.labels is graph.labels
    assert first.test_masks is graph.test_masks
    assert first.num_nodes == graph.num_nodes


@pytest.mark.parametrize("shift", EVERY, ids=repr)
def test_dense_and_sparse_features_are_shifted_alike(graph, shift):
    values = graph.features * (graph.features > 0)
    dense = shift(graph.replace(features=values), 3)
    sparse = shift(graph.replace(features=sp.csr_matrix(values)), 3)
    shifted = sparse.features
    shifted = shifted if isinstance(shifted, np.ndarray) else shifted.toarray()
    np.testing.assert_allclose(shifted, dense.features, atol=1e-5)
    np.testing.assert_array_equal(sparse.edges, dense.edges)


@pytest.mark.parametrize("shift", EVERY, ids=repr)
def test_shifts_travel_to_other_processes(graph, shift):
    copy = pickle.loads(pickle.dumps(shift))
    assert copy == shift
    assert as_bytes(copy(graph, 1)) == as_bytes(shift(graph, 1))


@pytest.mark.parametrize(
    "family",
    [
        "noise",
        "mask",
        "shuffle",
        "scale",
        "blend",
        "smooth",
        "rewire",
        "drop",
        "add",
        "heterogeneous",
    ],
)
def test_the_neutral_level_changes_nothing(graph, family):
    shift = getattr(shifts, family)(NEUTRAL.get(family, 0.0))
    assert shift.family == family
    same = shift(graph, 1)
    np.testing.assert_array_equal(same.features, graph.features)
    assert set(map(tuple, same.edges)) == set(map(tuple, graph.edges))


def test_compose_is_one_after_the_other(graph):
    one, two = shifts.noise(0.5), shifts.drop(0.4)
    both = shifts.compose(one, two)
    assert as_bytes(both(graph, 9)) == as_bytes(two(one(graph, 9), 9))
    assert both.families == {"noise", "drop"}
    assert both.level == (0.5, 0.4)
    nested = shifts.compose(both, shifts.add(1.0))
    assert [part.family for part in nested.parts] == ["noise", "drop", "add"]


def test_a_repeated_family_draws_fresh_numbers(graph):
    # The same draw twice would add up to twice the noise; two draws to sqrt(2) times.
    once = shifts.noise(0.5)(graph).features - graph.features
    twice = shifts.compose(shifts.noise(0.5), shifts.noise(0.5))(graph).features - graph.features
    assert twice.std() / once.std() == pytest.approx(np.sqrt(2), rel=0.1)


def test_a_generator_continues(graph):
    rng = np.random.default_rng(1)
    assert as_bytes(shifts.drop(0.5)(graph, rng)) != as_bytes(shifts.drop(0.5)(graph, rng))


@pytest.mark.parametrize(
    "make",
    [
        lambda: shifts.noise(-0.1),
        lambda: shifts.noise(float("nan")),
        lambda: shifts.noise(float("inf")),
        lambda: shifts.noise("much"),
        lambda: shifts.mask(1.1),
        lambda: shifts.rewire(2),
        lambda: shifts.drop(-1),
        lambda: shifts.add(-1),
        lambda: shifts.scale(-1),
        lambda: shifts.homophily(1.5),
        lambda: shifts.heterogeneous(1.0, "everywhere"),
        lambda: shifts.compose(),
    ],
)
def test_bad_levels_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_bad_seed_is_refused(graph):
    with raises("range"):
        shifts.noise(1.0)(graph, -1)
