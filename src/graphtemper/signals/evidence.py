"""Evidence: what the atlas measures of an observation, as plain numbers and without labels.

A `Probe` fixes at the source how to measure (temperature, noise strength, splits), so that source
and target are measured in the same way. `Evidence` holds the measurements on one graph, and
`Reference` those of the source. `read` compares the two and returns the few signals that the atlas
learns from. The leading signal is the accuracy that the signal gain implies; the others are
accuracies, agreements and sizes on a scale of log-odds or logarithms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.lazy import cached_property
from graphtemper._core.numerics import log_odds
from graphtemper._core.reproducible import map_blocks
from graphtemper.errors import InputError
from graphtemper.graph.operators import project
from graphtemper.scale.sums import Moments, total
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

SHOWN = (*COVARIANCES, "noise_agreement", "source_noise_agreement", "edge_agreement")
"""The fields of `Evidence` that are those of `Views`: they need the model."""

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

    def moved(self, nodes: int, links: int) -> Iterator[tuple[Evidence, bool]]:
        """Yield the evidence with each average moved by its standard error over a sample.

        The second value says whether it is a covariance that moved, and with it the gains.

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
            moved = replace(self, **{name: changed})  # type: ignore[arg-type]
            yield moved, declared.averaged == "own error"


class LogitSums(NamedTuple):
    """Sums over nodes of what needs logits alone; those of parts of a graph add up.

    Attributes
    ----------
    moments
        Moments of the centred logits, in units of the source temperature.
    sums
        Of the margin, of confidence, of whether confidence and entropy are beyond the thresholds of
        the probe, and of the predicted classes.

    Examples
    --------
    >>> probe = Probe(1.0, 0.3, np.ones(1), 0.8, -0.5, seed=0)
    >>> z = np.random.default_rng(0).standard_normal((100, 3))
    >>> one, other = (LogitSums.of(range(50), rows, probe) for rows in np.split(z, 2))
    >>> whole = LogitSums.total([one, other]).evidence(None, 0.0)
    >>> bool(np.isclose(whole.confidence, temperatures.mean_confidence(z)))
    True
    """

    moments: Moments
    sums: FloatArray

    @classmethod
    def of(cls, names: Sequence[int] | NDArray[Any], logits: FloatArray, probe: Probe) -> LogitSums:
        """Return the sums of raw logits (n, K) of nodes with these names."""
        logits = logits / probe.temperature
        check_logit_size(logits, names)
        p = temperatures.apply(logits)
        confidence = signals.confidence(p)
        sure = (confidence >= probe.confidence_threshold).sum()
        certain = (-signals.entropy(p) >= probe.entropy_threshold).sum()
        predicted = np.bincount(logits.argmax(axis=1), minlength=logits.shape[1])
        margin = signals.mean_margin(logits) * len(logits)
        sums = np.array([margin, confidence.sum(), sure, certain, *predicted])
        return cls(Moments.of(centred(logits)), sums)

    @classmethod
    def total(cls, parts: Sequence[LogitSums]) -> LogitSums:
        """Return the sums of parts, in their order."""
        moments, sums = zip(*parts, strict=True)
        return cls(total(moments), total(sums))

    def evidence(self, homophily: float | None, log_degree: float | None) -> Evidence:
        """Return the evidence of the sums and of two statistics of the graph."""
        margin, confidence, confident, certain, *shares = self.sums / self.moments.count
        return Evidence(
            confidence=round(float(confidence), 12),  # whatever the parts
            confident_share=float(confident),
            certain_share=float(certain),
            mean=self.moments.mean,
            covariance=self.moments.covariance,
            predicted_shares=np.array(shares),
            homophily=homophily,
            log_degree=log_degree,
            mean_abs_logit=float(margin),
        )


def measure(
    observation: Observation,
    probe: Probe,
    sampled: Evidence | None = None,
    *,
    whole: bool = True,
) -> Evidence:
    """Measure the logits of an observation and, if it has a model, its `views`.

    The views are those of a sample if its evidence is given, see `graphtemper.signals.sample`.
    The SNR of the features and the agreement with the second opinion are in no signal of `read`,
    and are left out unless the measurement is ``whole``.
    """
    basic = of_logits(observation, probe)
    if whole:
        agreement = observation.once(
            ("second agreement", probe.second, probe.seed),
            lambda: second_agreement(observation, probe),
        )
        snr = observation.once(("snr",), lambda: _snr(observation))
        basic = replace(basic, second_agreement=agreement, snr=snr)
    if not observation.has_model:
        return basic
    return with_views(basic, views.measure(observation, probe) if sampled is None else sampled)


def with_views(basic: Evidence, shown: views.Views | Evidence) -> Evidence:
    """Return evidence of logits with what views of the model show."""
    return replace(basic, **{name: getattr(shown, name) for name in SHOWN})


def of_logits(observation: Observation, probe: Probe) -> Evidence:
    """Return the evidence that needs logits and the graph alone; it is measured once."""
    graph, nodes, logits = observation.graph, observation.nodes, observation.logits

    def part(rows: slice) -> LogitSums:
        return LogitSums.of(nodes[rows], logits[rows], probe)

    def measured() -> Evidence:
        sums = LogitSums.total(map_blocks(part, *logits.shape))
        degree = float(signals.log_degree(graph.degrees[nodes]).mean())
        links, everywhere = graph.links, observation.all_predictions
        homophily = signals.predicted_homophily(everywhere, links) if len(links) else None
        return sums.evidence(homophily, degree)

    key = ("logits", probe.temperature, probe.confidence_threshold, probe.entropy_threshold)
    return observation.once(key, measured)


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


def second_agreement(observation: Observation, probe: Probe) -> float | None:
    """Return how often the model predicts what the second opinion does; None without one."""
    if probe.second is None:
        return None
    weights = probe.second.weights
    sums = sketch_weights(probe.column_std, probe.seed)[:, : len(weights) - 1]
    columns = sums @ weights[:-1]
    scores = project(observation.graph.features, columns)[observation.nodes] + weights[-1]
    second = np.nan_to_num(scores).argmax(axis=1)
    return float((observation.predictions == second).mean())


def _snr(observation: Observation) -> float | None:
    if not observation.has_model:
        return None
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
    """Return the signals of `read` from evidence whose gains are known."""
    of_logits = {
        "confidence": _log_odds(evidence.confidence),
        "confident share": _log_odds(evidence.confident_share),
        "certain share": _log_odds(evidence.certain_share),
    }
    if target is None:
        return of_logits
    source, accuracy = reference.evidence, reference.accuracy  # the source's own without a gain
    if target.signal is not None:
        gain = float(np.exp(target.signal))
        accuracy = signal_accuracy(evidence, reference, gain, reference.moments)
    shares = 0.5 * (evidence.predicted_shares + source.predicted_shares)
    moved = float(((evidence.predicted_shares - source.predicted_shares) ** 2).sum())
    chance = sampled * float((shares * (1.0 - shares)).sum())
    variance, least = (float(np.trace(item.covariance)) for item in (evidence, source))
    unit = max(variance, _LEAST_VARIANCE * least, 1e-300)
    return of_logits | {
        LEAD: _log_odds(accuracy),
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
