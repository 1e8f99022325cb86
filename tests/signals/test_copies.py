import numpy as np

from graphtemper import csbm
from graphtemper.models import SIGN
from graphtemper.signals.copies import reads_copies
from graphtemper.signals.observation import Observation


def test_a_model_that_averages_over_the_graph_is_not_given_copies():
    graph = csbm.sample(300, degree=8, homophily=0.8, snr=1.0, num_features=10, seed=1)
    linear = SIGN(hops=2, operator="mean").fit(graph, range(100))

    def centred(g):
        logits = linear(g)
        return logits - logits.mean(axis=0)

    def fixed(g):
        return linear(g) * np.arange(1, 301)[:, None]

    assert reads_copies(Observation(linear, graph))
    assert not reads_copies(Observation(centred, graph))
    assert not reads_copies(Observation(fixed, graph))
