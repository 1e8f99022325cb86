import pickle

import numpy as np
import pytest
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
def test_every_shift_passes_the_check_of_shifts(graph, shift):
    neutral = NEUTRAL.get(shift.family, 0.0)
    shifts.check(shift, neutral=neutral)
    shifts.check(shift, graph, neutral=neutral)


@pytest.mark.parametrize("shift", EVERY, ids=repr)
def test_another_seed_is_another_draw(graph, shift):
    same = as_bytes(shift(graph, 5)) == as_bytes(shift(graph, 6))
    assert same == (shift.family in ("scale", "smooth"))


def labels_moved(graph, level, rng):
    return graph.replace(labels=np.roll(graph.labels, 1))


def nodes_lost(graph, level, rng):
    return graph.subgraph(np.arange(graph.num_nodes // 2))


def drawn_elsewhere(graph, level, rng):
    return graph.replace(features=graph.features * np.random.default_rng().random())


def written_to(graph, level, rng):
    values = graph.features if isinstance(graph.features, np.ndarray) else graph.features.data
    values.setflags(write=True)
    values *= 1.0 + level
    return graph


def made_dense(graph, level, rng):
    features = graph.features
    features = features if isinstance(features, np.ndarray) else features.toarray()
    return graph.replace(features=features * (1.0 + level))


def of_zeros_only(graph, level, rng):
    if not isinstance(graph.features, np.ndarray):
        return graph
    return graph.replace(features=graph.features + level)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (labels_moved, "changes labels"),
        (nodes_lost, "number of nodes"),
        (drawn_elsewhere, "same seed"),
        (written_to, "writes to the graph"),
        (made_dense, "makes sparse features dense"),
        (of_zeros_only, "other features if they are sparse"),
        (lambda graph, level, rng: graph.features, "returns a ndarray"),
        (lambda graph, level, rng: graph, "changes nothing"),
        (lambda graph, level, rng: graph.replace(features=2 * graph.features), "neutral level"),
        (
            lambda graph, level, rng: graph.replace(
                features=np.full((graph.num_nodes, graph.num_features), np.inf)
            ),
            "finite",
        ),
        (
            lambda graph, level, rng: graph.replace(features=graph.features * (1 + level % 1.0)),
            "at half its level",
        ),
    ],
)
def test_the_check_says_what_a_shift_does_wrong(change, said):
    level = 1.5 if said == "at half its level" else 1.0
    level = 1.1 if said == "at half its level" else level
    with pytest.raises(InputError, match=said):
        shifts.check(shifts.Shift("own", level, change))


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
