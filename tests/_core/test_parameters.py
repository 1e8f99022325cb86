"""Every estimator-like class can be cloned by scikit-learn and changed by ``set_params``."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from tests.helpers import raises

from graphtemper import estimators, models
from graphtemper._core.parameters import HasParameters
from graphtemper.calibrators import REGISTRY
from graphtemper.calibrators.conformal import ConformalSets
from graphtemper.models import SIGN

ESTIMATORS = [
    item
    for item in vars(estimators).values()
    if inspect.isclass(item) and hasattr(item, "estimate") and item is not estimators.Estimator
]
CLASSES = [models.SIGN, models.SGC, ConformalSets, *REGISTRY.values(), *ESTIMATORS]
# An argument of each class that differs from its default, in a type that is converted.
CHANGES = {
    "SIGN": {"hops": np.int64(1), "C": 2},
    "SGC": {"C": np.float32(0.5)},
    "ConformalSets": {"level": 0.8, "seed": None},
    "GETS": {"experts": ("logits", "degree"), "active": 1},
    "GDE": {"kind": "feature", "calibrated": True},
    "ATC": {"score": "entropy"},
}


def make(method, predictor=None):
    needed = {"predictor": predictor or SIGN()} if "STAC" in method.__name__ else {}
    return method(**needed, **CHANGES.get(method.__name__, {}))


@pytest.mark.parametrize("method", CLASSES, ids=lambda method: method.__name__)
def test_a_clone_has_equal_parameters_and_is_another_object(method):
    original = make(method)
    copy = clone(original)
    assert type(copy) is type(original)
    assert copy is not original
    assert repr(copy) == repr(original)
    assert list(copy.get_params(deep=False)) == list(original.get_params(deep=False))
    assert copy.get_params().keys() == original.get_params(deep=True).keys()


@pytest.mark.parametrize("method", CLASSES, ids=lambda method: method.__name__)
def test_parameters_are_the_arguments_of_the_constructor(method):
    params = make(method).get_params(deep=False)
    arguments = inspect.signature(method).parameters
    assert list(params) == list(arguments)
    again = method(**params)
    assert all(again.get_params(deep=False)[name] is value for name, value in params.items())
    assert again.set_params(**params).get_params(deep=False) == params
    with raises("choice"):
        again.set_params(nonsense=1)


def test_a_bad_value_leaves_the_object_as_it_was():
    model = SIGN(hops=1)
    with raises("range"):
        model.set_params(C=3.0, hops=-1)
    assert model.get_params() == SIGN(hops=1).get_params()


def test_changing_a_parameter_discards_what_was_fitted():
    sets = ConformalSets().fit([[0.9, 0.1], [0.2, 0.8]] * 20, [0, 1] * 20)
    assert not hasattr(sets.set_params(level=0.5), "threshold_")
    assert not hasattr(clone(sets), "threshold_")


def test_a_clone_of_stac_keeps_the_frozen_model():
    method = REGISTRY["STAC"]
    model = SIGN()
    assert clone(make(method, model)).predictor is model


def test_a_class_without_a_constructor_has_no_parameters():
    class Plain(HasParameters):
        pass

    assert clone(Plain()).get_params() == {}
