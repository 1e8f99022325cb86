"""The competitors: what every method learns at the source, and what it answers on a target.

All learn from the same labelled nodes of the source. Only the oracle, which is scored alongside,
sees labels of a target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphtemper import (
    Graph,
    Observation,
    SourceCard,
    calibrators,
    errors,
    recalibrate,
    stac,
    temperature,
)
from graphtemper import estimators as accuracy
from graphtemper.calibrators import Calibrator, NetworkCalibrator
from graphtemper.errors import NotIdentifiableError
from graphtemper.estimators import Estimator
from graphtemper.models import Predictor
from graphtemper_research import baselines, retrained
from graphtemper_research.baselines import stac_per_node, stac_variants
from graphtemper_research.baselines.gets import RELEASED
from graphtemper_research.harness.numeric import FloatArray, nearest_temperature
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE, Indices

_CALIBRATORS = calibrators.REGISTRY | baselines.REGISTRY | retrained.REGISTRY
UNCALIBRATED, PER_NODE = "uncalibrated", "atlas per node"
UNSEEN, UNSEEN_PER_NODE = "atlas, family unseen", "atlas per node, family unseen"
"""The atlas of a card that never saw the family of the shift at hand."""
RETRAINED = tuple(retrained.REGISTRY)
"""Calibrators that train a network of their own: slow, and of one model only."""
PER_TARGET = "GDASpecReg"
"""The one of them that trains again for every target, with minutes for a graph."""
RETRAINED_MODEL = "GCN"
"""The model with which they are listed: all of them are graph convolutional networks."""
_ELSEWHERE = ("TemperatureScaling", "STAC", "STACPerNode", *RETRAINED)
FOLDS = {f"{name} folds": name for name in ("CaGCN", "GATS", "GETS", "WATS")}
"""Networks stopped by folds of the calibration nodes, next to the rule of their authors."""
SOURCE_FITTED = (*(name for name in _CALIBRATORS if name not in _ELSEWHERE), *FOLDS)
CALIBRATORS = (*SOURCE_FITTED, *RETRAINED)
SLOW = ("CaGCN", "GATS", "GETS", "CFGNN", *FOLDS, *RETRAINED)
"""Calibrators that train networks: they are measured in cells of their own, after the others."""
MOST_EPOCHS = 300
"""Networks of calibrators are trained for fewer epochs than their default where that is more."""
ESTIMATORS: dict[str, Callable[[], Estimator]] = {
    "AverageConfidence": accuracy.AverageConfidence,
    "DoC": accuracy.DoC,
    "ATC": accuracy.ATC,
    "GDE": accuracy.GDE,
    "GDE calibrated": lambda: accuracy.GDE("feature", calibrated=True),
    "COT": accuracy.COT,
    **baselines.ESTIMATORS,
}

KIND: dict[str, str] = {
    UNCALIBRATED: "reference",
    SOURCE: "source-fitted, global",
    **{
        name: "source-fitted, " + _CALIBRATORS[FOLDS.get(name, name)].granularity
        for name in SOURCE_FITTED
    },
    **dict.fromkeys(RETRAINED, "retrained"),
    **dict.fromkeys(ESTIMATORS, "estimated accuracy"),
    "STAC": "STAC, global",
    "STACPerNode": "STAC, node",
    ATLAS: "atlas, global",
    PER_NODE: "atlas, node",
    UNSEEN: "atlas, global",
    UNSEEN_PER_NODE: "atlas, node",
    ORACLE: "reference",
}
"""What each method is; those that are fitted at the source and left alone say so."""


def competitors(model: str, chosen: Sequence[str] = SOURCE_FITTED) -> tuple[str, ...]:
    """Return the methods that answer for a model, in the order of `KIND`.

    Of the calibrators only the chosen ones take part, and those that retrain only for
    `RETRAINED_MODEL`.

    Examples
    --------
    >>> "Tent" in competitors("GCN", ["Tent"]), "Tent" in competitors("SIGN", ["Tent"])
    (True, False)
    >>> competitors("SIGN", ["GAST"])
    Traceback (most recent call last):
    graphtemper.errors.InputError: unknown calibrator 'GAST'; choose from ...
    """
    unknown = [name for name in chosen if name not in CALIBRATORS]
    if unknown:
        raise errors.choice(
            f"unknown calibrator {unknown[0]!r}; choose from {', '.join(CALIBRATORS)}."
        )
    own = RETRAINED if model != RETRAINED_MODEL else ()
    return tuple(
        name for name in KIND if name not in CALIBRATORS or (name in chosen and name not in own)
    )


@dataclass(frozen=True, eq=False)
class Target:
    """Nodes of an unlabelled graph.

    ``train_nodes`` are given where the model was trained on nodes of this graph, and ``family``
    where the shift was drawn: then the atlas also answers with a card that never saw the family.
    """

    graph: Graph
    nodes: Indices
    seed: int
    train_nodes: Indices | None = None
    family: str | None = None


@dataclass(frozen=True, eq=False)
class Prediction:
    """A method's answer on a target: probabilities (n, K), and an accuracy if it has one."""

    probabilities: FloatArray
    accuracy: float | None = None
    verdict: str | None = None


@dataclass(frozen=True, eq=False)
class Field:
    """A frozen model with its card and every method, all made of the same labelled nodes."""

    predictor: Predictor
    card: SourceCard
    source_temperature: float
    threshold: float
    calibrators: dict[str, Calibrator]
    estimators: dict[str, Estimator]
    # Cards that never saw a family, made when they are first needed.
    thinner: dict[str, SourceCard] = field(default_factory=dict)

    @classmethod
    def prepare(
        cls,
        predictor: Predictor,
        card: SourceCard,
        graph: Graph,
        val: Indices,
        seed: int,
        calibrators: dict[str, Calibrator],
        done: Callable[[], None] = lambda: None,
    ) -> Field:
        """Fit the estimators to the nodes of the card; ``done`` is called after each."""
        assert graph.labels is not None
        logits = np.asarray(predictor(graph))[val]
        # The card's own temperature is rounded, so that it tells nothing of single nodes.
        exact = temperature.solve(logits, graph.labels[val]).temperature
        source = Observation(predictor, graph, val, temperature=exact, seed=seed)
        learned = {}
        for name, make in ESTIMATORS.items():
            learned[name] = make().fit(source, graph.labels[val])
            done()
        threshold = stac.threshold(predictor, graph, val)
        return cls(predictor, card, exact, threshold, calibrators, learned)

    def answers(self, target: Target) -> dict[str, Prediction]:
        """Return the answers of all methods but the oracle, in no particular order."""
        unit = self.source_temperature
        raw = Observation(self.predictor, target.graph, target.nodes, seed=target.seed)
        answers = {
            UNCALIBRATED: Prediction(temperature.apply(raw.logits, 1.0)),
            SOURCE: Prediction(temperature.apply(raw.logits, unit)),
        }
        answers |= transformed(self.calibrators, target, raw.all_logits)
        observation = Observation(
            self.predictor, target.graph, target.nodes, temperature=unit, seed=target.seed
        )
        answers |= {name: matched(item, observation) for name, item in self.estimators.items()}
        return answers | self._stac(raw) | self._atlas(target)

    def _stac(self, raw: Observation) -> dict[str, Prediction]:
        """Return the paper's Algorithm 1 with passes of both kinds, without and with nodes.

        The paper's tables on real graphs used other passes: see the audit.
        """
        level = stac_variants.REAL_FEATURE_LEVEL
        start = stac.from_observation(raw, self.threshold, perturbation="both", level=level)
        nodes = stac_per_node.node_temperatures(
            raw, self.threshold, global_stage=start, level=level
        )
        return {
            "STAC": Prediction(start.probabilities, start.accuracy),
            "STACPerNode": Prediction(nodes.probabilities, start.accuracy),
        }

    def _atlas(self, target: Target) -> dict[str, Prediction]:
        """Return the atlas's answers, and those of a card that never saw the shift's family."""
        whole = self._ask(target, self.card)
        thin = whole if target.family is None else self._ask(target, self._without(target.family))
        return dict(zip((ATLAS, PER_NODE, UNSEEN, UNSEEN_PER_NODE), whole + thin, strict=True))

    def _without(self, family: str) -> SourceCard:
        if family not in self.thinner:
            self.thinner[family] = self.card.without(family)
        return self.thinner[family]

    def _ask(self, target: Target, card: SourceCard) -> tuple[Prediction, Prediction]:
        """Return the answers of a card with one temperature, and with one per node."""
        result = recalibrate(
            self.predictor, target.graph, card, target.nodes, seed=target.seed, per_node=True
        )
        logits = Observation(self.predictor, target.graph, target.nodes).logits
        stated = (result.accuracy.value, result.verdict)
        global_ = temperature.apply(logits, result.temperature)
        return Prediction(global_, *stated), Prediction(result.probabilities, *stated)


def matched(estimator: Estimator, observation: Observation) -> Prediction:
    """Return the probabilities whose mean confidence is the estimated accuracy.

    Where the accuracy is not identifiable, the source temperature stays.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(300, degree=8, homophily=0.7, snr=1.0)
    >>> observation = Observation(SIGN().fit(g, range(100)), g)
    >>> answer = matched(accuracy.ATC().fit(observation, g.labels), observation)
    >>> bool(abs(answer.probabilities.max(axis=1).mean() - answer.accuracy) < 1e-6)
    True
    """
    try:
        value = estimator.estimate(observation).value
    except NotIdentifiableError:
        return Prediction(observation.probabilities)
    found = nearest_temperature(observation.logits, value)
    return Prediction(temperature.apply(observation.logits, found), value)


def fitted(
    names: Sequence[str],
    predictor: Predictor,
    graph: Graph,
    train: Indices,
    val: Indices,
    seed: int,
    title: str = "",
    done: Callable[[], None] = lambda: None,
) -> dict[str, Calibrator]:
    """Fit calibrators to some labelled nodes; ``done`` is called after each.

    ``title`` names the graph, for settings that belong to it.
    """
    assert graph.labels is not None
    logits = np.asarray(predictor(graph))
    found: dict[str, Calibrator] = {}
    for name in names:
        made = new_calibrator(name, seed, title)
        found[name] = made.fit(logits, graph.labels, graph, val, train_nodes=train)
        done()
    return found


def transformed(
    calibrators: dict[str, Calibrator], target: Target, logits: FloatArray
) -> dict[str, Prediction]:
    """Return the answers of calibrators, from the logits of all nodes of a target's graph."""
    return {
        name: Prediction(
            item.transform(logits, graph=target.graph, train_nodes=target.train_nodes)[target.nodes]
        )
        for name, item in calibrators.items()
    }


def new_calibrator(name: str, seed: int, graph: str = "") -> Calibrator:
    """Return a calibrator with its own defaults, at most `MOST_EPOCHS`, and a seed if it has one.

    Networks stop by the rule of their authors, except those of `FOLDS`, and GETS has the authors'
    settings for a graph where they released some.

    Examples
    --------
    >>> new_calibrator("CFGNN", 1).get_params()["epochs"]
    300
    >>> new_calibrator("GATS", 1).get_params()["stop"]
    'train'
    >>> new_calibrator("GATS folds", 1).get_params()["stop"]
    'folds'
    """
    base = FOLDS.get(name, name)
    made: Calibrator = _CALIBRATORS[base]()
    if isinstance(made, NetworkCalibrator):
        made = made.set_params(stop="folds" if name in FOLDS else made.authors_stop)
    if base == "GETS":
        made = made.set_params(**RELEASED.get(graph.removesuffix(graph_names.SUFFIX), {}))
    params = made.get_params()
    if params.get("epochs", 0) > MOST_EPOCHS:
        if "warm" in params:  # the same share of the epochs without the loss of CF-GNN
            made = made.set_params(warm=params["warm"] * MOST_EPOCHS // params["epochs"])
        made = made.set_params(epochs=MOST_EPOCHS)
    return made.set_params(seed=seed) if "seed" in params else made
