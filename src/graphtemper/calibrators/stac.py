"""STAC, the paper's label-free recalibration, exactly as printed: Algorithm 1.

Only the scalar `threshold` is carried from the source. Scores are those of the uncalibrated model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray, check_fraction, check_integer, check_non_negative
from graphtemper.calibrators.base import Inputs, Labelled, TemperatureCalibrator
from graphtemper.estimators.atc import ATC
from graphtemper.graph.graph import Graph, Nodes
from graphtemper.models.predictor import Predictor
from graphtemper.signals import pointwise as signals
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Kind
from graphtemper.temperature.scaling import nearest_temperature

__all__ = ["STAC", "StacResult", "from_observation", "matched", "stac", "threshold"]

# Strengths of the paper's script for synthetic graphs.
FEATURE_LEVEL = 0.15
EDGE_SHARE = 0.3
# Relative difference below which logits computed twice, perhaps in float32 and float64, agree.
_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class StacResult:
    """STAC's answer on a target graph.

    Attributes
    ----------
    temperature : float
        T.
    accuracy : float
        The estimate a that T was matched to: the smaller of the next two.
    atc : float or None
        Fraction of nodes with confidence at or above the threshold; None if not used.
    gde : float
        One minus the mean pairwise disagreement.
    probabilities : (n, K) array
        softmax(z / T) of the selected nodes.
    reason : str
        Empty, or why T is a bound instead of a match.
    """

    temperature: float
    accuracy: float
    atc: float | None
    gde: float
    probabilities: FloatArray
    reason: str = ""


def threshold(predictor: Predictor | ArrayLike, graph: Graph, nodes: Nodes = None) -> float:
    """Return the confidence that a fraction of source nodes equal to the accuracy reaches.

    The only number carried from the source. ``nodes`` should be labelled and not used for training
    (default: all labelled nodes).

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(500, degree=8, homophily=0.8, snr=1.0)
    >>> print(f"{threshold(SIGN().fit(g, range(250)), g, range(250, 500)):.2f}")
    0.65
    """
    if graph.labels is None:
        raise errors.no_labels(
            "the graph has no labels; the threshold is set at the labelled source."
        )
    source = Observation(predictor, graph, graph.labelled if nodes is None else nodes)
    return float(np.asarray(ATC().fit(source, graph.labels[source.nodes]).carries["threshold"]))


def stac(
    predictor: Predictor,
    graph: Graph,
    threshold: float,
    *,
    passes: int = 8,
    perturbation: Kind = "edge",
    level: float = FEATURE_LEVEL,
    share: float = EDGE_SHARE,
    seed: int = 0,
    nodes: Nodes = None,
) -> StacResult:
    r"""Recalibrate on an unlabelled graph: Algorithm 1 as printed.

    1. logits z of the frozen model; :math:`\hat a_{ATC}` = fraction of max softmax(z) >= threshold
    2. M perturbed passes; :math:`\hat a_{GDE}` = 1 - mean pairwise disagreement
    3. :math:`\hat a = \min(\hat a_{ATC}, \hat a_{GDE})`
    4. T such that the mean confidence of softmax(z / T) is :math:`\hat a`

    Step 4 is solved to rounding error. Where no T reaches :math:`\hat a` the squared gap has no
    minimum, only a limit; see `nearest_temperature`.

    Parameters
    ----------
    predictor, graph
        The frozen model and the target; its labels, if any, are removed before the model runs.
    threshold
        From `threshold`, at the source.
    passes
        M; the paper uses 6 to 10.
    perturbation
        The paper says "input/edge perturbations". ``"edge"`` (default) is what its synthetic
        script puts into step 2, ``"feature"`` what its real-graph script does, ``"both"`` half of
        the passes each.
    level, share
        Feature noise in column standard deviations (0.15 in the synthetic script, 0.3 in the real
        one) and share of edges dropped.
    seed, nodes
        Seed of the passes; nodes to recalibrate (default all).

    Examples
    --------
    >>> from graphtemper import csbm, shifts
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(2000, degree=8, homophily=0.8, snr=1.0, num_classes=3)
    >>> model = SIGN().fit(g, range(1000))
    >>> tau = threshold(model, g, range(1000, 2000))
    >>> result = stac(model, shifts.noise(1.0)(g), tau)
    >>> print(f"{result.atc:.3f} {result.gde:.3f} {result.accuracy:.3f}")
    0.933 0.861 0.861
    >>> print(f"{result.probabilities.max(axis=1).mean():.3f}")
    0.861
    """
    observation = Observation(predictor, graph, nodes, seed=seed)
    return from_observation(
        observation, threshold, passes=passes, perturbation=perturbation, level=level, share=share
    )


def from_observation(
    observation: Observation,
    threshold: float,
    *,
    passes: int = 8,
    perturbation: Kind = "edge",
    level: float = FEATURE_LEVEL,
    share: float = EDGE_SHARE,
) -> StacResult:
    """Return what `stac` returns, for an observation whose passes several variants share."""
    atc = signals.atc_share(signals.confidence(observation.probabilities), threshold)
    votes = observation.votes(perturbation, passes, level=level, share=share)
    gde = 1.0 - signals.pairwise_disagreement(votes)
    return matched(observation, min(atc, gde), atc, gde)


def matched(observation: Observation, accuracy: float, atc: float | None, gde: float) -> StacResult:
    """Return the answer whose mean confidence is an estimated accuracy."""
    temperature, reason = nearest_temperature(observation.logits, accuracy)
    probabilities = temperatures.apply(observation.logits, temperature)
    return StacResult(temperature, accuracy, atc, gde, probabilities, reason)


class STAC(TemperatureCalibrator):
    r"""One temperature, matched to an accuracy that is estimated on the target without labels.

    `graphtemper.stac` does the work: fitting computes the ATC threshold on the calibration nodes;
    applying runs the predictor on perturbed copies of the graph, estimates
    :math:`\hat a = \min(\hat a_{ATC}, \hat a_{GDE})` and matches mean confidence to it.

    Parameters
    ----------
    predictor : callable ``graph -> logits (N, K)``
        The frozen model; `fit` and `transform` need its own logits.
    passes, perturbation, level, share, seed
        See `graphtemper.stac.stac`.

    References
    ----------
    "When does distribution shift break graph neural networks calibration?", Algorithm 1.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(300, degree=8, homophily=0.8, snr=1.0, seed=0)
    >>> model = SIGN().fit(g, range(150))
    >>> calibrator = STAC(model).fit(model(g), g.labels, g, range(150, 300))
    >>> calibrator.transform(model(g), graph=g).shape
    (300, 2)
    """

    needs = ("labels", "graph", "predictor")
    reference = "the paper of this package, Algorithm 1"

    def __init__(
        self,
        predictor: Predictor,
        passes: int = 8,
        perturbation: Kind = "edge",
        level: float = FEATURE_LEVEL,
        share: float = EDGE_SHARE,
        seed: int = 0,
    ) -> None:
        if not callable(predictor):
            raise errors.predictor("predictor must be a callable graph -> logits, not an array.")
        self.predictor = predictor
        self.passes = check_integer(passes, "passes", 2)
        self.perturbation: Kind = perturbation
        self.level = check_non_negative(level, "level")
        self.share = check_fraction(share, "share")
        self.seed = check_integer(seed, "seed", 0)

    def __sklearn_clone__(self) -> Self:
        # The model is frozen: scikit-learn would copy it, or replace it by one that is not fitted.
        return type(self)(**self.get_params(deep=False))

    def _fit(self, inputs: Inputs, labelled: Labelled) -> None:
        labels = np.full(len(inputs.logits), -1)
        labels[labelled.nodes] = labelled.labels
        graph = inputs.required_graph.replace(labels=labels)
        self.threshold_ = threshold(inputs.logits, graph, labelled.nodes)

    def _temperatures(self, inputs: Inputs) -> FloatArray:
        result = from_observation(
            self._observation(inputs),
            self.threshold_,
            passes=self.passes,
            perturbation=self.perturbation,
            level=self.level,
            share=self.share,
        )
        return np.full(len(inputs.logits), result.temperature)

    def _observation(self, inputs: Inputs) -> Observation:
        observed = Observation(self.predictor, inputs.required_graph, seed=self.seed)
        if observed.all_logits.shape != inputs.logits.shape or not np.allclose(
            observed.all_logits, inputs.logits, rtol=_TOLERANCE, atol=_TOLERANCE
        ):
            raise errors.other_model(
                "the logits are not those of the predictor on this graph; pass predictor(graph)."
            )
        return observed
