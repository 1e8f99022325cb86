"""STAC as a calibrator: a threshold from the source, a temperature without labels at the target."""

from __future__ import annotations

from typing import Self

import numpy as np

from graphtemper._core.arrays import FloatArray
from graphtemper._core.checks import check_fraction, check_integer, check_non_negative
from graphtemper.calibrators.base import Inputs, Labelled, TemperatureCalibrator
from graphtemper.calibrators.stac import method as stac
from graphtemper.calibrators.stac import per_node
from graphtemper.errors import InputError
from graphtemper.models.predictor import Predictor
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Kind

# Relative difference below which logits computed twice, perhaps in float32 and float64, agree.
_TOLERANCE = 1e-3


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
        level: float = stac.FEATURE_LEVEL,
        share: float = stac.EDGE_SHARE,
        seed: int = 0,
    ) -> None:
        if not callable(predictor):
            raise InputError("predictor must be a callable graph -> logits, not an array.")
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
        self.threshold_ = stac.threshold(inputs.logits, graph, labelled.nodes)

    def _temperatures(self, inputs: Inputs) -> FloatArray:
        result = stac.from_observation(
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
            raise InputError(
                "the logits are not those of the predictor on this graph; pass predictor(graph)."
            )
        return observed


class STACPerNode(STAC):
    """STAC with its optional second stage, a temperature for each node around the global one.

    Everything is as in `STAC`; the second stage is
    `graphtemper.calibrators.stac.per_node.node_temperatures`, which uses passes of both kinds.

    Examples
    --------
    >>> from graphtemper import csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(300, degree=8, homophily=0.8, snr=1.0, seed=0)
    >>> model = SIGN().fit(g, range(150))
    >>> calibrator = STACPerNode(model).fit(model(g), g.labels, g, range(150, 300))
    >>> calibrator.temperatures(model(g), graph=g).shape
    (300,)
    """

    granularity = "node"
    reference = "the paper of this package, per-node stage"
    differs = "soft bins and gradients; the paper's script searches without derivatives"

    def _temperatures(self, inputs: Inputs) -> FloatArray:
        result = per_node.node_temperatures(
            self._observation(inputs),
            self.threshold_,
            passes=self.passes,
            level=self.level,
            share=self.share,
        )
        return result.temperature
