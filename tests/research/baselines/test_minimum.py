"""The paper's minimum of two estimates."""

from graphtemper import csbm
from graphtemper.estimators import ATC, GDE
from graphtemper.models import SIGN
from graphtemper.signals.observation import Observation
from graphtemper_research.baselines.minimum import MinimumATCGDE


def test_the_papers_minimum():
    graph = csbm.sample(
        3000, degree=12, homophily=0.8, snr=0.5, num_classes=3, num_features=8, seed=1
    )
    source = Observation(SIGN().fit(graph, range(1000)), graph, range(1000, 3000), temperature=1.1)
    truth = graph.labels[source.nodes]
    both = MinimumATCGDE(GDE("feature", 0.9)).fit(source, truth)
    result = both.estimate(source)
    assert result.method == "GDE-feature"
    assert result == both.gde.estimate(source)
    assert set(both.carries) == {"threshold", "strength"}
    mild = MinimumATCGDE(GDE("feature", 0.01)).fit(source, truth)
    assert mild.estimate(source) == ATC().fit(source, truth).estimate(source)
