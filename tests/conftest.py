import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import block_model

from graphtemper import SourceCard, csbm, recalibrate, shifts, suggest_labels
from graphtemper.models import SIGN

# Look for graphs next to the checkout unless the environment names other folders.
_NEARBY = Path(__file__).parents[2] / "shared" / "data"
os.environ.setdefault("GRAPHTEMPER_DATA", os.pathsep.join(map(str, (_NEARBY, _NEARBY / "natural"))))


@pytest.fixture(scope="session")
def source():
    """A labelled graph to train on."""
    return block_model(1)


@pytest.fixture(scope="session")
def model(source):
    """A small model, trained on the first half of `source`."""
    return SIGN(hops=1).fit(source, range(300))


@pytest.fixture(scope="session")
def card(source, model):
    """The card of `model`, from the second half of `source`."""
    return SourceCard.build(model, source, range(300, 600), compositions=10)


HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "\u2028&{{7*7}}"
)


@pytest.fixture(scope="session")
def reported():
    """Results that a report has to cope with, by name."""
    source = block_model(1, 0.8, 700)
    model = SIGN(hops=1).fit(source, range(350))
    card = SourceCard.build(model, source, range(350, 700), compositions=10)
    target = shifts.noise(0.8)(block_model(2, 0.7, 700), 5).replace(name="February")
    plain = recalibrate(model, target, card)
    labels = {int(node): int(target.labels[node]) for node in suggest_labels(plain, 150)}
    odd = shifts.scale(1e6)(block_model(3, 0.1, 700), 7).replace(name="")
    renamed = [
        replace(item, shift=HOSTILE, families=frozenset({HOSTILE})) for item in card.atlas[5:8]
    ]
    hostile = replace(
        card,
        predictor=HOSTILE,
        atlas=(*card.atlas[:5], *renamed, *card.atlas[8:]),
    )
    named = target.replace(name=HOSTILE, class_names=(HOSTILE, "b", "b"))
    return {
        "plain": plain,
        "labels": recalibrate(model, target, card, labels=labels, per_node=True),
        "odd": recalibrate(model, odd, card),
        "logits": recalibrate(model(target), target, card),
        "no edges": recalibrate(model, target.replace(edges=np.empty((0, 2), int)), card),
        "one node": recalibrate(model, target, card, [5]),
        "hostile": recalibrate(model, named, hostile, labels=labels),
    }


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
