"""A small model with its card, snapshots of its graph, and logs without files."""

import numpy as np
import pytest

from graphtemper import SourceCard, csbm
from graphtemper.models import SIGN
from graphtemper.monitor import Standing, Watch


@pytest.fixture(scope="session")
def day():
    def sample(number, homophily=0.85):
        return csbm.sample(400, 6, homophily, 1.5, num_features=4, seed=100 + number)

    return sample


@pytest.fixture(scope="session")
def watched():
    source = csbm.sample(800, 6, 0.85, 1.5, num_features=4, seed=1)
    model = SIGN(hops=1).fit(source, np.arange(400))
    card = SourceCard.build(model, source, np.arange(400, 800), compositions=4)
    return model, card


@pytest.fixture
def watch(watched, tmp_path):
    return Watch(tmp_path / "watch.sqlite", watched[1])


@pytest.fixture(scope="session")
def standing():
    """Return a function that makes a standing from answers, without a log."""

    def make(answers, **changes):
        settings = {
            "model": "m",
            "source": 0.9,
            "first": answers,
            "answers": answers,
            "record": [],
            "changes": [],
            "drops": [],
            "limits": {"source": 0.9},
            "missed": [],
            "false_alarms": 0.01,
            "false_drops": 0.05,
            "every": 1,
        }
        return Standing(**settings | changes)

    return make
