import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import csbm, shifts, temperature
from graphtemper.card import atlas
from graphtemper.card.atlas import LEVELS, Source, plan, shift_seed, survey
from graphtemper.card.card import SourceCard
from graphtemper.models import SIGN

NODES = np.arange(120, 240)


@pytest.fixture(scope="module")
def graph():
    return csbm.sample(240, degree=6, homophily=0.8, snr=1.0, num_classes=3, num_features=6, seed=1)


@pytest.fixture(scope="module")
def model(graph):
    return SIGN(hops=1).fit(graph, range(120))


@pytest.fixture(scope="module")
def card(graph, model):
    return SourceCard.build(model, graph, NODES, compositions=0)


class Counting:
    """The same model as a plain callable that counts its calls."""

    def __init__(self, model):
        self.model, self.calls = model, 0

    def __call__(self, graph):
        self.calls += 1
        return self.model(graph)


def _source(card, predictor, graph, seed=0):
    return Source(predictor, graph, NODES, graph.labels[NODES], card.probe, card.reference, seed)


def _run(card, predictor, graph, planned, seed=0, **other):
    return _with_rows(card, predictor, graph, planned, seed, **other)[0]


def _with_rows(card, predictor, graph, planned, seed=0, **other):
    environments, rows = survey(_source(card, predictor, graph, seed), planned, **other)
    assert list(rows) == [item.shift for item in environments]
    return environments, rows


def _same(first, second):
    return [item.__dict__ for item in first] == [item.__dict__ for item in second]


@pytest.mark.parametrize("family", sorted(LEVELS))
def test_an_excluded_family_is_in_no_environment(family):
    planned = plan(seed=2, exclude=(family,), compositions=30)
    assert all(family not in shift.families for shift in planned)
    assert set(LEVELS) - {family} == set().union(*(shift.families for shift in planned))


def test_a_plan_is_every_level_and_the_compositions_of_its_seed():
    planned = plan(seed=3, compositions=25)
    singles = sum(len(levels) for levels in LEVELS.values())
    assert len(planned) == singles + 25
    assert [len(shift.families) for shift in planned[:singles]] == [1] * singles
    assert {len(shift.families) for shift in planned[singles:]} == {2, 3}
    assert len({repr(shift) for shift in planned}) == len(planned)
    assert [repr(s) for s in planned] == [repr(s) for s in plan(seed=3, compositions=25)]
    assert [repr(s) for s in planned] != [repr(s) for s in plan(seed=4, compositions=25)]


def test_odd_plans_are_refused():
    with raises("choice"):
        plan(exclude=("fog",))
    with raises("too-few"):
        plan(exclude=sorted(LEVELS)[2:])
    with raises("wrong-type"):
        plan(exclude="noise")
    with raises("range"):
        plan(compositions=-1)


FEW = {"noise": (0.5, 1.0), "drop": (0.3,), "add": (1.0,)}


def test_shifts_may_be_strengths_by_family_or_shift_objects():
    by_family = plan(seed=1, compositions=5, shifts=FEW)
    listed = [shifts.noise(0.5), shifts.noise(1.0), shifts.drop(0.3), shifts.add(1.0)]
    assert [repr(shift) for shift in by_family[:4]] == [repr(shift) for shift in listed]
    assert [repr(shift) for shift in by_family] == [
        repr(shift) for shift in plan(seed=1, compositions=5, shifts=listed)
    ]
    assert repr(plan(seed=1)) == repr(plan(seed=1, shifts=LEVELS))


def test_a_shift_of_the_user_is_planned_and_composed(graph):
    def lift(graph, level, rng):
        return graph.replace(features=np.asarray(graph.features) + level)

    own = shifts.Shift("lift", 2.0, lift)
    planned = plan(compositions=20, shifts=[own, shifts.noise(1.0), shifts.drop(0.5)])
    assert planned[0] is own
    joined = next(shift for shift in planned[3:] if "lift" in shift.families)
    assert np.isfinite(joined(graph, 0).features).all()


def test_compositions_of_the_user_can_be_excluded_by_their_parts():
    both = shifts.compose(shifts.noise(0.5), shifts.drop(0.5))
    every = [both, *plan(compositions=0, shifts=FEW | {"mask": (0.5,)})]
    assert both not in plan(exclude=["drop"], compositions=0, shifts=every)
    with raises("range"):
        plan(shifts=[both, shifts.compose(shifts.add(1.0), shifts.mask(0.5))])


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        ({"fog": (1.0,)}, "choice"),
        ({"noise": ()}, "empty"),
        ({"noise": (1.0, 1.0)}, "repeated"),
        ({"noise": (1.0,), "drop": (0.5,)}, "too-few"),
        ([shifts.noise(1.0), shifts.noise(1.0)], "repeated"),
        ([shifts.noise(1.0), "drop"], "wrong-type"),
        ("noise", "wrong-type"),
        (3, "wrong-type"),
        ([], "too-few"),
    ],
)
def test_odd_shifts_are_refused(chosen, error):
    with raises(error):
        plan(shifts=chosen)


def test_only_families_that_are_present_can_be_excluded():
    with raises("choice"):
        plan(exclude=["rewire"], shifts=FEW | {"mask": (0.5,)})


def test_an_environment_records_what_the_labels_say(card, graph, model):
    planned = plan(compositions=2)[-3:]
    for shift, found in zip(planned, _run(card, model, graph, planned, seed=5), strict=True):
        shifted = shift(graph, shift_seed(5, shift))
        logits, labels = model(shifted)[NODES] / card.probe.temperature, graph.labels[NODES]
        assert found.shift == repr(shift)
        assert found.families == shift.families
        # Two thirds of the nodes.
        right = (logits.argmax(axis=1) == labels).mean()
        assert found.accuracy == pytest.approx(right, abs=3 * (right * (1 - right) / 120) ** 0.5)
        assert found.accuracy * 80 == pytest.approx(round(found.accuracy * 80))
        optimum = temperature.solve(logits, labels).temperature
        assert found.temperature == pytest.approx(optimum, rel=0.3)


def test_an_environments_seed_is_its_own_and_no_small_number():
    planned = plan(compositions=0)
    seeds = {shift_seed(0, shift) for shift in planned}
    assert len(seeds) == len(planned)
    assert min(seeds) > 10**6


def test_a_survey_reports_every_finished_shift(card, graph, model):
    ticks = []
    planned = plan(compositions=0)[:2]
    _run(card, model, graph, planned, progress=lambda done, total: ticks.append((done, total)))
    assert ticks == [(0, 2), (1, 2), (2, 2)]


def test_an_environment_is_the_same_in_every_plan(card, graph, model):
    planned = plan(compositions=0)[-4:]
    backwards = _run(card, model, graph, planned[::-1])
    assert _same(backwards[::-1], _run(card, model, graph, planned))


def test_results_do_not_depend_on_the_number_of_workers(card, graph, model, monkeypatch):
    planned = plan(compositions=2)[-8:]
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(atlas, "num_cores", lambda cores=cores: cores)
        found.append(_run(card, model, graph, planned))
    assert _same(*found)


def test_an_interrupt_comes_through(card, graph, model):
    planned = plan(compositions=0)[:12]
    counting = Counting(model)

    def stop(count, total):
        if count == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(card, counting, graph, planned, progress=stop)
    one = Counting(model)
    _run(card, one, graph, planned[:1])
    assert counting.calls <= 6 * one.calls  # the rest of the plan was not run to the end
