r"""Evidence: what the atlas measures of an observation, as plain numbers and without labels.

A `Probe` fixes at the source how to measure (temperature, noise strength, splits), so that source
and target are measured in the same way. `Evidence` holds the measurements on one graph, and
`Reference` those of the source. `read` compares the two and returns the few signals that the atlas
learns from. The leading signal is the accuracy that the signal gain implies; the others are
accuracies, agreements and sizes on a scale of log-odds or logarithms.

Signals cannot show everything. Accuracy is :math:`\sum_k \pi_k r_k` with the class shares
:math:`\pi` and the recalls r. A model that always predicts the majority class is right as often as
that class occurs, and its logits do not show when the class becomes rarer. Feature means do: if the
shares change by :math:`\delta`, the column means change by :math:`\sum_k \delta_k \mu_k`. If the
column means have not changed, neither have the shares; if they have changed by as much as the
classes differ, any shares are possible. `DriftBaseline` expresses this as a standard deviation of
the shares,

.. math:: s = \min\Bigl(s_{max},\; \frac{|\Delta\mu|}{\sqrt{K/(K-1) \sum_k |\mu_k-\bar\mu|^2}}
              \Bigr),

with distances as root mean squares over columns in source standard deviations, minus the expected
sampling error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import log_odds
from graphtemper.errors import InputError
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import column_moments, multiply, project
from graphtemper.signals import pointwise as signals
from graphtemper.signals import views
from graphtemper.signals.covariances import Covariance, centred
from graphtemper.signals.gains import (
    COVARIANCES,
    NEIGHBOURS,
    ClassMoments,
    Gains,
    read_gains,
    shows,
    transfer,
)
from graphtemper.signals.observation import Observation
from graphtemper.signals.passes import Probe as Probe
from graphtemper.signals.second_opinion import sketch_weights
from graphtemper.signals.views import Views

LEAD = "signal accuracy"
"""The signal that is an estimate by itself; the atlas learns its error."""
SIGNALS = (
    LEAD,
    "noise agreement",
    "source-noise agreement",
    "confidence",
    "edge agreement",
    "predicted homophily",
    *(f"{name} correlation" for name in NEIGHBOURS),
    "predicted shares",
    "logit spread",
)
"""The signals that the atlas reads if the model can be run."""
LOGIT_SIGNALS = ("confidence", "confident share", "certain share")
"""The signals that the atlas reads if there are only logits."""

# Smallest variance of logits, in units of the source's, that covariances are divided by.
_LEAST_VARIANCE = 1e-3
# Smallest lead of the class model over guessing that its scale is computed from.
_LEAST_LEAD = 0.02
# Larger logits, in units of the source temperature, have an infinite variance in float64.
_LARGEST_LOGIT = 1e100


Kind = Literal["number", "classes", "shares", "square", "covariance"]


class Declared(NamedTuple):
    """A field of `Evidence`: what it holds, its range, and over what a sample averages it.

    ``kind`` is a number, a number per class, shares of the classes, a covariance matrix of the
    classes, or a `Covariance`. ``averaged`` says how its sampling error follows: from its own
    standard error, or as that of a share of the nodes or of a correlation over the links.
    """

    kind: Kind = "number"
    low: float = -1e9
    high: float = 1e9
    averaged: Literal["", "own error", "nodes", "links"] = ""


def _declared(*values: Any) -> dict[str, Declared]:
    return {"declared": Declared(*values)}


_SHARE = _declared("number", 0.0, 1.0)
_SHARE_OF_NODES = _declared("number", 0.0, 1.0, "nodes")
_COVARIANCE = _declared("covariance", -1e30, 1e30, "own error")


@dataclass(frozen=True, eq=False)
class Evidence:
    """Measurements of one observation without labels; None for those that need a missing model.

    Each field is declared once: the card's file and the sampling error follow from the declarations
    (`Evidence.declared`).
    """

    confidence: float = field(metadata=_SHARE)
    confident_share: float = field(metadata=_SHARE)
    certain_share: float = field(metadata=_SHARE)
    mean: FloatArray = field(metadata=_declared("classes", -1e30, 1e30))
    covariance: FloatArray = field(metadata=_declared("square", -1e30, 1e30))
    predicted_shares: FloatArray = field(metadata=_declared("shares", 0.0, 1.0))
    log_degree: float | None = field(metadata=_declared())
    mean_abs_logit: float = field(metadata=_declared("number", 0.0, 1e30))
    homophily: float | None = field(default=None, metadata=_SHARE)
    feature: Covariance | None = field(default=None, metadata=_COVARIANCE)
    own_feature: Covariance | None = field(default=None, metadata=_COVARIANCE)
    edge: Covariance | None = field(default=None, metadata=_COVARIANCE)
    wedge: Covariance | None = field(default=None, metadata=_COVARIANCE)
    held: Covariance | None = field(default=None, metadata=_COVARIANCE)
    noise_agreement: float | None = field(default=None, metadata=_SHARE_OF_NODES)
    source_noise_agreement: float | None = field(default=None, metadata=_SHARE_OF_NODES)
    edge_agreement: float | None = field(
        default=None, metadata=_declared("number", -1.0, 1.0, "links")
    )
    second_agreement: float | None = field(default=None, metadata=_SHARE)
    snr: float | None = field(default=None, metadata=_declared("number", -1e300, 1e300))

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        """Return the declarations of the fields, by name."""
        return {item.name: item.metadata["declared"] for item in fields(cls)}

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in asdict(self).items()
        }

    def moved(self, nodes: int, links: int) -> Iterator[Evidence]:
        """Yield the evidence with each average moved by its standard error over a sample.

        The error of Cohen's kappa of m links is that of a correlation far from one.
        """
        for name, declared in self.declared().items():
            value, changed = getattr(self, name), None
            if value is None or not declared.averaged:
                continue
            if declared.averaged == "own error":
                changed = Covariance(value.value + value.error, value.error)
            elif declared.averaged == "nodes":
                changed = value - float(np.sqrt(value * (1.0 - value) / nodes))
            else:
                changed = value + float(np.sqrt((1.0 - value**2) / max(links, 1)))
            yield replace(self, **{name: changed})  # type: ignore[arg-type]


def measure(
    observation: Observation,
    probe: Probe,
    sample: Observation | None = None,
    *,
    whole: bool = True,
) -> Evidence:
    """Measure the logits of an observation and, if it has a model, its `views`.

    The passes are taken on ``sample`` if it is given, see `graphtemper.signals.receptive_field`.
    The SNR of the features and the agreement with a second opinion are in no signal of `read`, and
    are left out unless the measurement is ``whole``.
    """
    basic = _of_logits(observation, probe)
    if whole:
        basic = replace(basic, second_agreement=_second_agreement(observation, probe))
    if not observation.has_model:
        return basic
    if whole:
        basic = replace(basic, snr=_snr(observation))
    return with_model(observation if sample is None else sample, probe, basic)


def _of_logits(observation: Observation, probe: Probe) -> Evidence:
    graph, nodes, logits = observation.graph, observation.nodes, in_unit(observation.logits, probe)
    check_logit_size(logits, nodes)
    p = temperatures.apply(logits)
    confidence, entropy = signals.confidence(p), signals.entropy(p)
    classes = np.bincount(observation.predictions, minlength=observation.num_classes)
    deviation = centred(logits)
    mean = deviation.mean(axis=0)
    deviation -= mean
    return Evidence(
        confidence=float(confidence.mean()),
        confident_share=signals.atc_share(confidence, probe.confidence_threshold),
        certain_share=signals.atc_share(-entropy, probe.entropy_threshold),
        mean=mean,
        covariance=deviation.T @ deviation / len(deviation),
        predicted_shares=classes / len(deviation),
        homophily=_agreement(observation.all_predictions, graph.links),
        log_degree=float(signals.log_degree(graph.degrees[nodes]).mean()),
        mean_abs_logit=signals.mean_margin(logits),
    )


def in_unit(logits: FloatArray, probe: Probe) -> FloatArray:
    """Return logits in units of the source temperature, in which source and target compare."""
    return logits / probe.temperature


def check_logit_size(logits: FloatArray, nodes: Sequence[int] | NDArray[np.int64]) -> None:
    """Refuse logits (n, K) whose squares could overflow; ``nodes`` name the rows in the error."""
    if logits.min(initial=0.0) > -_LARGEST_LOGIT and logits.max(initial=0.0) < _LARGEST_LOGIT:
        return
    with np.errstate(over="ignore"):
        largest = np.abs(logits).max(axis=1)
    if not (largest < _LARGEST_LOGIT).all():
        row = int(np.argmax(~(largest < _LARGEST_LOGIT)))
        raise errors.range(
            f"the logits of node {nodes[row]} reach {largest[row]:.3g} times the "
            "source temperature, too large to measure; check the model's scale."
        )


def with_model(observation: Observation, probe: Probe, basic: Evidence) -> Evidence:
    """Add the measurements that need perturbed passes of the model to those of its logits."""
    shown = views.measure(observation, probe)
    names = {item.name for item in fields(Views)} & {item.name for item in fields(Evidence)}
    return replace(basic, **{name: getattr(shown, name) for name in names})


def _agreement(predictions: NDArray[np.intp], edges: NDArray[np.int32]) -> float | None:
    return signals.predicted_homophily(predictions, edges) if len(edges) else None


def _second_agreement(observation: Observation, probe: Probe) -> float | None:
    if probe.second is None:
        return None
    weights = probe.second.weights
    columns = sketch_weights(probe.column_std, probe.seed) @ weights[:-1]
    scores = project(observation.graph.features, columns)[observation.nodes] + weights[-1]
    second = np.nan_to_num(scores).argmax(axis=1)
    return float((observation.predictions == second).mean())


def _snr(observation: Observation) -> float | None:
    try:
        return signals.snr_estimate(observation.graph.features, observation.all_predictions)
    except InputError:  # one predicted class, one class per node, or constant features
        return None


@dataclass(frozen=True, eq=False)
class Reference:
    """The source, against which targets are compared: evidence, class moments and accuracy.

    Everything that depends on the source alone is computed once and cached.
    """

    evidence: Evidence
    moments: ClassMoments
    accuracy: float

    @cached_property
    def chance(self) -> float:
        """Accuracy of guessing classes at random by their shares."""
        return float((self.moments.shares**2).sum())

    @cached_property
    def modelled_accuracy(self) -> float:
        """Accuracy that the class model predicts for the source itself."""
        source = self.evidence
        return transfer(self.moments, 1.0, source.mean, source.covariance).accuracy

    @cached_property
    def gains(self) -> Gains | None:
        """The gains of the source against itself; None without a model."""
        return gains(self.evidence, self.evidence)

    @cached_property
    def signals(self) -> dict[str, float]:
        """The signals of the source itself, see `read`."""
        return signals_of(self.evidence, self, self.gains)

    @cached_property
    def readable(self) -> tuple[str, ...]:
        """The signals that can be read against this source.

        Covariances of neighbours that the source does not show would be noise and are not used.
        Without links between classified nodes (`Graph.links`) nothing of neighbours is.
        """
        own, linked = self.gains, self.evidence.homophily is not None
        usable = {
            LEAD: own is not None and own.signal is not None,
            "edge agreement": linked,
            "predicted homophily": linked,
            **{f"{name} correlation": shows(self.evidence, name) for name in NEIGHBOURS},
        }
        return tuple(name for name in SIGNALS if usable.get(name, True))


def both_show(first: Evidence, second: Evidence) -> tuple[Evidence, Evidence]:
    """Return two measurements of the source without the covariances that one of them misses.

    Otherwise targets, which are compared with the first, would have a signal that shifts of the
    atlas, which are compared with the second, have not.
    """
    for name in COVARIANCES:
        if not (shows(first, name) and shows(second, name)):
            first, second = (
                replace(item, **{name: Covariance(0.0, getattr(item, name).error)})  # type: ignore[arg-type]
                for item in (first, second)
            )
    return first, second


def gains(evidence: Evidence, source: Evidence) -> Gains | None:
    """Return the signal gains of a target against the source, or None without a model."""
    if evidence.held is None or source.held is None:
        return None
    return read_gains(evidence, source)


def read(evidence: Evidence, reference: Reference, sampled: float = 0.0) -> dict[str, float]:
    r"""Return the signals of an observation; those that need a model are missing without one.

    ``sampled`` is 1/n + 1/m for n nodes that are others than the m of the source: their predicted
    shares differ by chance, by :math:`\sum_k p_k (1 - p_k) (1/n + 1/m)` in the mean square.
    """
    if evidence is reference.evidence:
        return dict(reference.signals)
    return signals_of(evidence, reference, gains(evidence, reference.evidence), sampled)


def signals_of(
    evidence: Evidence, reference: Reference, target: Gains | None, sampled: float = 0.0
) -> dict[str, float]:
    """Return the signals of an observation whose gains are known, see `read`."""
    of_logits = {
        "confidence": _log_odds(evidence.confidence),
        "confident share": _log_odds(evidence.confident_share),
        "certain share": _log_odds(evidence.certain_share),
    }
    if target is None:
        return of_logits
    source = reference.evidence
    shares = 0.5 * (evidence.predicted_shares + source.predicted_shares)
    moved = float(((evidence.predicted_shares - source.predicted_shares) ** 2).sum())
    chance = sampled * float((shares * (1.0 - shares)).sum())
    variance, least = (float(np.trace(item.covariance)) for item in (evidence, source))
    unit = max(variance, _LEAST_VARIANCE * least, 1e-300)
    return of_logits | {
        LEAD: _log_odds(_lead(evidence, reference, target)),
        "noise agreement": _log_odds(evidence.noise_agreement),
        "source-noise agreement": _log_odds(evidence.source_noise_agreement),
        "edge agreement": float(np.arctanh(np.clip(evidence.edge_agreement or 0.0, -0.99, 0.99))),
        "predicted homophily": _log_odds(evidence.homophily),
        **{f"{name} correlation": getattr(evidence, name).value / unit for name in NEIGHBOURS},
        "predicted shares": max(moved - chance, 0.0) ** 0.5,
        "logit spread": target.spread,
    }


def _log_odds(share: float | None) -> float:
    """Return log-odds in which shares of nearly no and nearly all nodes are alike."""
    return log_odds(None if share is None else float(np.clip(share, 0.005, 0.995)))


def _lead(evidence: Evidence, reference: Reference, target: Gains) -> float:
    """Return the signal accuracy with the source's class shares; the source's without a gain."""
    if target.signal is None:
        return reference.accuracy
    return signal_accuracy(evidence, reference, float(np.exp(target.signal)), reference.moments)


def signal_accuracy(
    evidence: Evidence, reference: Reference, gain: float, moments: ClassMoments
) -> float:
    r"""Return the accuracy that the class model predicts for a gain and class moments.

    The class model is Gaussian and may be off at the source already. Its lead over guessing is
    scaled to the true one of the source:
    :math:`c + (a_t - c)(A_s - c)/(a_s - c)` with predicted accuracies a, the source's true accuracy
    A and chance c.
    """
    chance = reference.chance
    predicted = transfer(moments, gain, evidence.mean, evidence.covariance).accuracy
    lead = max(reference.modelled_accuracy - chance, _LEAST_LEAD)
    scale = (reference.accuracy - chance) / lead
    return chance + (predicted - chance) * scale


SKETCH_SIZE = 128
"""Most random combinations of column means that a card holds in place of the columns."""
# An unknown share, uniform between 0 and 1, has a standard deviation of 0.29.
LARGEST_DRIFT = 0.25
_LEAST_SEPARATION = 1e-3
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class DriftBaseline:
    """What the drift of class shares is measured against: the source's column means and classes.

    Attributes
    ----------
    sketch
        Random combinations of the column means, see `column_sketch`.
    num_nodes
        Number of source nodes with the sampling error of the sketch.
    separation
        Distance of the class means, see `class_separation`.
    recalls
        Accuracy within each class, (K,).
    """

    sketch: FloatArray
    num_nodes: int
    separation: float
    recalls: FloatArray

    @classmethod
    def measure(
        cls,
        graph: Graph,
        nodes: NDArray[np.int64],
        labels: NDArray[np.int64],
        predictions: NDArray[np.intp],
        num_classes: int,
        column_std: FloatArray,
    ) -> DriftBaseline:
        """Measure labelled nodes of the source graph."""
        counts = np.bincount(labels, minlength=num_classes)
        right = np.bincount(labels[predictions == labels], minlength=num_classes)
        overall = float((predictions == labels).mean())
        return cls(
            sketch=column_sketch(column_moments(graph.features[nodes])[0], column_std),
            num_nodes=int(nodes.size),
            separation=class_separation(graph.features[nodes], labels, num_classes, column_std),
            recalls=np.where(counts > 0, right / np.maximum(counts, 1), overall),
        )

    def drift(
        self, mean: FloatArray, spread: FloatArray, num_nodes: int, column_std: FloatArray
    ) -> float:
        """Return the standard deviation of class shares that the target's column means allow.

        ``mean`` and ``spread`` are the mean and the standard deviation of the target's columns over
        its observed nodes.
        """
        change = column_sketch(mean, column_std, self.sketch.size) - self.sketch
        used = column_std > 0.0
        if not used.any():
            return 0.0
        # A few nodes have a smaller spread than their population.
        ratio = float(np.maximum(spread[used] ** 2 / column_std[used] ** 2, 1.0).mean())
        chance = 1.0 / self.num_nodes + ratio / num_nodes
        # A mean of m squared normals has standard deviation sqrt(2 / m); allow three of those.
        chance *= 1.0 + 3.0 * float(np.sqrt(2.0 / min(int(used.sum()), self.sketch.size)))
        excess = max(float((change**2).mean()) - chance, 0.0)
        # If the classes differ by less than chance, they explain no more than chance does.
        return min(float(np.sqrt(excess / (self.separation**2 + chance))), LARGEST_DRIFT)


def column_sketch(mean: FloatArray, column_std: FloatArray, size: int = SKETCH_SIZE) -> FloatArray:
    """Return random signed sums of the standardised column means, over the root of their number.

    The mean square of the difference of two sketches estimates that of the column means, so the
    size of a card does not depend on the number of columns. Columns that are constant at the source
    are ignored.

    Examples
    --------
    >>> mean = np.random.default_rng(0).standard_normal(400)
    >>> change = column_sketch(mean + 0.3, np.ones(400)) - column_sketch(mean, np.ones(400))
    >>> bool(abs(np.sqrt((change**2).mean()) - 0.3) < 0.1)
    True
    """
    used = column_std > 0.0
    scaled = np.where(used, mean, 0.0) / np.where(used, column_std, 1.0)
    total = np.zeros(SKETCH_SIZE)
    for block, start in enumerate(range(0, mean.size, _BLOCK)):
        part = scaled[start : start + _BLOCK]
        signs = np.random.default_rng([2024, block]).choice([-1.0, 1.0], (SKETCH_SIZE, part.size))
        total += signs @ part
    return np.asarray(total[:size] / np.sqrt(max(int(used.sum()), 1)))


def class_separation(
    features: Features, labels: NDArray[np.int64], num_classes: int, column_std: FloatArray
) -> float:
    """Return the distance of class means in standard deviations, minus the sampling error.

    For two classes this is the root mean square over columns of the difference of their means.

    Examples
    --------
    >>> y = np.arange(10_000) % 2
    >>> x = 0.5 * y[:, None] + np.random.default_rng(0).standard_normal((10_000, 5))
    >>> bool(abs(class_separation(x, y, 2, np.ones(5)) - 0.5) < 0.03)
    True
    """
    used = column_std > 0.0
    counts = np.bincount(labels, minlength=num_classes).astype(np.float64)
    present = counts > 0
    if used.sum() == 0 or present.sum() < 2:
        return _LEAST_SEPARATION
    rows = np.arange(labels.size)
    members = sp.csr_matrix((np.ones(labels.size), (labels, rows)), (num_classes, labels.size))
    sums = multiply(members, features)
    dense = sums.toarray() if sp.issparse(sums) else np.asarray(sums)
    means = dense[present][:, used] / counts[present][:, None] / column_std[used]
    offsets = ((means - means.mean(axis=0)) ** 2).mean(axis=1)
    total = float(np.maximum(offsets - 1.0 / counts[present], 0.0).sum())
    size = int(present.sum())
    return max(float(np.sqrt(size / (size - 1) * total)), _LEAST_SEPARATION)
