import numpy as np
import pytest

from graphtemper import csbm
from graphtemper.models import SIGN


class Scene:
    """A model, the graph it was trained on, and another graph of the same kind."""

    def __init__(self):
        kind = {"degree": 8, "homophily": 0.75, "snr": 0.5, "num_classes": 3, "num_features": 8}
        self.graph = csbm.sample(500, **kind, seed=0)
        self.other = csbm.sample(300, **kind, seed=1)
        self.train, self.cal, self.test = np.arange(150), np.arange(150, 350), np.arange(350, 500)
        self.model = SIGN().fit(self.graph, self.train)
        # Far too confident, so that there is something to correct.
        self.predictor = lambda graph: 4.0 * self.model(graph)
        self.logits, self.other_logits = self.predictor(self.graph), self.predictor(self.other)
        self.labels = self.graph.labels


@pytest.fixture(scope="session")
def scene():
    return Scene()
