r"""Privacy: what a card says about single nodes of the source, and how little that is.

A card travels, the source does not. Four rules keep its numbers from giving single nodes away.

- **No more digits than the sample supports.** Every aggregate of n nodes is rounded to a power of
  two between half its standard error and its whole one (`graphtemper.card.rounding`). One node
  moves an aggregate by about :math:`1/\sqrt n` standard errors, so two cards that differ by a node
  mostly agree.
- **Secret draws.** Whoever can repeat the shifts of the atlas can compute every prediction in it,
  and its accuracies are then equations for the labels. The shifts are drawn with a seed that
  depends on nodes and labels (`secret_seed`) and that no card holds, and each accuracy is that of
  secret two thirds of the nodes: this alone adds half the sampling variance of all nodes.
- **No small groups.** Classes with fewer than `FEWEST` members share their moments, counts are
  rounded at random to multiples of three and more, and columns with fewer than `FEWEST` effective
  entries have no standard deviation.
- **Noise on the feature means.** A sketch of m means over n nodes tells members from others with
  :math:`d'^2 = m / n(1 + c)` if noise of c times the sampling variance is added (Homer et al.,
  PLoS Genetics 2008). Size and noise keep this below `LEAK`, an area under the curve of 0.545.
  The noise grows with m, so a short sketch shows smaller changes of the means.

None of this is differential privacy: whoever knows all labels but one can find the last one, by
building the card with each class. `graphtemper.card.private_labels` is, for labels. SECURITY.md
says what is promised.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import temperature as temperatures
from graphtemper._core.arrays import FloatArray
from graphtemper._core.reproducible import stream
from graphtemper.card.class_profile import THIRDS, ClassProfile
from graphtemper.card.node_response import NodeResponse
from graphtemper.card.rounding import (
    coarse,
    coarse_log,
    coarse_quantile,
    coarse_share,
    coarse_shares,
    rounded_counts,
)
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import column_moments, row_blocks
from graphtemper.signals import dependence
from graphtemper.signals import pointwise as signals
from graphtemper.signals.covariances import Covariance, centred
from graphtemper.signals.evidence import Evidence, Probe
from graphtemper.signals.gains import COVARIANCES, ClassMoments, shows
from graphtemper.signals.observation import Observation
from graphtemper.signals.share_drift import SKETCH_SIZE, DriftBaseline

FEWEST = 5
"""Smallest number of nodes that a number of the card may be about."""
LEAK = 0.025
"""Largest squared sensitivity index of a test for membership by the sketch of feature means."""
# Least noise of the sketch, in sampling variances, and the fewest numbers that show a distance.
_LEAST_NOISE, _LEAST_SKETCH = 0.5, 4
# Rounds of key derivation: about 0.05 s per build, and per guess of whoever guesses labels.
_ROUNDS = 100_000


def secret_seed(seed: int, nodes: NDArray[np.int64], labels: NDArray[np.int64]) -> int:
    """Return the seed of everything random in a card: the same for the same seed and labels.

    Without the labels it can only be guessed, together with all of them. Derivation is slow on
    purpose.

    Examples
    --------
    >>> nodes = np.arange(3)
    >>> one = secret_seed(0, nodes, np.array([0, 1, 1]))
    >>> one == secret_seed(0, nodes[::-1], np.array([4, 4, 2])), one == secret_seed(0, nodes, nodes)
    (True, False)
    """
    order = np.argsort(nodes, kind="stable")
    # Classes by first occurrence, so that their numbers do not matter.
    _, first, places = np.unique(labels[order], return_index=True, return_inverse=True)
    named = np.argsort(np.argsort(first))[places]
    content = np.stack([nodes[order], named]).astype("<i8").tobytes()
    salt = f"graphtemper card {seed}".encode()
    return int.from_bytes(hashlib.pbkdf2_hmac("sha256", content, salt, _ROUNDS)[:16], "little")


def coarse_columns(graph: Graph, std: FloatArray) -> FloatArray:
    """Round the standard deviations of columns; zero for those with few effective entries.

    The standard error of a log standard deviation is half of one over the root of the effective
    number of entries, N over the kurtosis; it is the number of ones of a rare word.
    """
    kurtosis = _kurtosis(graph.features)
    entries = graph.num_nodes / np.maximum(kurtosis, 1.0)
    used = (std > 0.0) & (entries >= FEWEST)
    logs = np.log(np.where(used, std, 1.0))
    return np.where(used, np.exp(coarse(logs, 0.5 / np.sqrt(entries))), 0.0)


def _kurtosis(features: Features) -> FloatArray:
    """Return the fourth central moment of the columns over the square of the second."""
    mean, std = column_moments(features)
    square, count = np.maximum(std, 1e-150) ** 2, features.shape[0]
    total = np.zeros(mean.size)
    if isinstance(features, np.ndarray):
        for rows in row_blocks(count, mean.size):
            total += np.square((features[rows] - mean) ** 2 / square).sum(axis=0)
        return np.asarray(total / count)
    column, values = features.indices, features.data.astype(np.float64)
    stored = np.bincount(column, minlength=mean.size)
    fourth = np.square((values - mean[column]) ** 2 / square[column])
    total += np.bincount(column, fourth, minlength=mean.size)
    # Zeros that are not stored deviate by the mean.
    return np.asarray((total + (count - stored) * (mean**2 / square) ** 2) / count)


def extra_noise(numbers: float, num_nodes: int) -> float:
    """Return the noise that keeps some numbers about n nodes below `LEAK`, in sampling variances.

    Examples
    --------
    >>> extra_noise(3, 200), extra_noise(15, 200)
    (0.0, 2.0)
    """
    return max(numbers / (LEAK * num_nodes) - 1.0, 0.0)


def _noisy_moments(evidence: Evidence, observation: Observation, secret: int) -> Evidence:
    """Add noise to mean and covariance of the logits, in proportion to their sampling error."""
    z = centred(observation.logits)
    size, classes = z.shape
    noise = extra_noise((classes - 1) * (classes + 2) / 2, size)
    if noise == 0.0:
        return evidence
    draws = stream(secret, "logit moments").standard_normal(size) * np.sqrt(noise) / size
    z = z - z.mean(axis=0)
    matrix = evidence.covariance + (z.T * draws) @ z - draws.sum() * evidence.covariance
    values, vectors = np.linalg.eigh(matrix)
    floor = np.maximum(values, 1e-3 * max(float(values[-1]), 0.0))
    positive = _centred((vectors * floor) @ vectors.T)
    return replace(evidence, mean=evidence.mean + draws @ z, covariance=positive)


def coarse_evidence(evidence: Evidence, observation: Observation, secret: int) -> Evidence:
    """Round the source's evidence by the sampling errors of its numbers; the logits get noise."""
    evidence = _noisy_moments(evidence, observation, secret)
    n = observation.num_nodes
    root = float(np.sqrt(n))
    p = observation.probabilities
    degrees = signals.log_degree(observation.graph.degrees[observation.nodes])
    margins = signals.margin(observation.logits)
    variance = np.diag(evidence.covariance)
    cross = np.sqrt((np.outer(variance, variance) + evidence.covariance**2) / n)
    mean = coarse(evidence.mean, np.sqrt(variance / n))
    covariance = coarse(evidence.covariance, cross)
    links = max(len(observation.graph.links), 1)
    shares: dict[str, Any] = {
        name: None if value is None else float(coarse_share(value, count))
        for name, value, count in (
            ("confident_share", evidence.confident_share, n),
            ("certain_share", evidence.certain_share, n),
            ("noise_agreement", evidence.noise_agreement, n),
            ("source_noise_agreement", evidence.source_noise_agreement, n),
            ("homophily", evidence.homophily, links),
        )
    }
    pairs: dict[str, Any] = {
        name: None if value is None else _coarse_pair(value)
        for name in ("feature", "own_feature", "edge", "wedge", "held")
        for value in [getattr(evidence, name)]
    }
    agreement, snr = evidence.edge_agreement, evidence.snr
    return replace(
        evidence,
        confidence=float(coarse(evidence.confidence, signals.confidence(p).std() / root)),
        # Centred logits sum to zero, before and after rounding.
        mean=mean - mean.mean(),
        covariance=_centred(covariance),
        predicted_shares=coarse_shares(evidence.predicted_shares, n),
        log_degree=float(coarse(evidence.log_degree, float(degrees.std()) / root)),
        mean_abs_logit=float(coarse(evidence.mean_abs_logit, float(margins.std()) / root)),
        edge_agreement=None if agreement is None else float(coarse(agreement, 0.5 / root)),
        snr=None if snr is None else float(coarse(snr, abs(snr) / root)),
        **shares,
        **pairs,
    )


def both_show(first: Evidence, second: Evidence) -> tuple[Evidence, Evidence]:
    """Return two measurements of the source without the covariances that one of them misses.

    Otherwise targets, which are compared with the first, would have a signal that environments,
    which are compared with the second, have not.
    """
    for name in COVARIANCES:
        pair = getattr(first, name), getattr(second, name)
        if None not in pair and not (shows(first, name) and shows(second, name)):
            none: list[dict[str, Any]] = [{name: Covariance(0.0, item.error)} for item in pair]
            first, second = replace(first, **none[0]), replace(second, **none[1])
    return first, second


def _centred(matrix: FloatArray) -> FloatArray:
    rows = matrix - matrix.mean(axis=0)
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def _coarse_pair(pair: Covariance) -> Covariance:
    error = float(coarse(pair.error, pair.error / 8.0))
    return Covariance(float(coarse(pair.value, pair.error)), error)


def coarse_moments(
    logits: FloatArray, labels: NDArray[np.int64], covariance: FloatArray, secret: int
) -> ClassMoments:
    """Measure class shares and offsets; small classes share theirs, all are rounded.

    A small class gets the mean offset of the others, with its own logit in the place of theirs. The
    offsets get noise for as many numbers as the model's own probabilities predict of them.
    """
    exact = ClassMoments.measure(logits, labels)
    classes = exact.shares.size
    counts = np.bincount(labels, minlength=classes)
    small = counts < FEWEST
    shares, offsets = exact.shares.copy(), exact.offsets.copy()
    if small.any():
        shares[small] = shares[small].mean()
        own = float(np.diag(offsets)[~small].mean()) if not small.all() else 0.0
        offsets[small] = own * (np.eye(classes) - 1.0 / classes)[small] * classes / (classes - 1)
        offsets[small & (shares == 0.0)] = 0.0
    errors = np.sqrt(np.diag(covariance)[None, :] / np.maximum(counts, FEWEST)[:, None])
    certainty = float((temperatures.apply(logits) ** 2).sum(axis=1).mean())
    predicted = (certainty - 1.0 / classes) / (1.0 - 1.0 / classes)
    noise = extra_noise((classes**2 - 1) * predicted, labels.size)
    draws = np.empty_like(offsets)
    order = _by_occurrence(labels, classes)
    draws[np.ix_(order, order)] = stream(secret, "class offsets").standard_normal(draws.shape)
    offsets = np.where(small[:, None], offsets, offsets + np.sqrt(noise) * errors * draws)
    rounded = np.where(small[:, None], offsets, coarse(offsets, errors))
    return ClassMoments(
        coarse_shares(shares, labels.size), rounded - rounded.mean(axis=1, keepdims=True)
    )


def _by_occurrence(labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return the classes by their first node, so that draws do not depend on their numbers."""
    found, first = np.unique(labels, return_index=True)
    absent = np.setdiff1d(np.arange(classes), found)
    return np.concatenate([found[np.argsort(first)], absent])


def coarse_profile(
    logits: FloatArray, labels: NDArray[np.int64], secret: int, weight: float = 1.0
) -> ClassProfile | None:
    """Measure the class profile with rounded limits, counts, slope and biases.

    ``weight`` is the part of a node that a node counts for (`graphtemper.card.private_labels`).
    """
    exact = ClassProfile.measure(logits, labels, round_edge=coarse_quantile)
    if exact is None:
        return None
    root = float(np.sqrt(labels.size))
    counts = np.rint(weight * exact.counts).astype(np.int64)
    if not counts.any():
        return None
    order = _by_occurrence(labels, counts.shape[1])
    cells = np.ix_((order[:, None] * THIRDS + np.arange(THIRDS)).ravel(), order)
    rounded = np.empty_like(counts)
    rounded[cells] = rounded_counts(counts[cells], stream(secret, "class profile"))
    return replace(
        exact,
        counts=rounded,
        rounded=True,
        slope=coarse_log(exact.slope, labels.size),
        biases=coarse(exact.biases, np.full(exact.biases.size, 1.0 / root)),
    )


def with_dependence(
    profile: ClassProfile | None, observation: Observation, labels: NDArray[np.int64]
) -> ClassProfile | None:
    """Return the class profile with how far predictions depend on each other, rounded."""
    if profile is None:
        return None
    graph, nodes, keys = observation.graph, observation.nodes, observation.node_keys
    exact = dependence.measure(graph, nodes, observation.probabilities, labels, keys)
    parts = coarse(exact, np.full(exact.size, 1.0 / np.sqrt(nodes.size)))
    effect = dependence.design_effect(graph, nodes, parts, keys)
    return replace(profile, dependence=parts, design_effect=coarse_log(effect, nodes.size))


def coarse_population(
    observation: Observation, labels: NDArray[np.int64], probe: Probe, secret: int
) -> DriftBaseline:
    """Measure what class shares are compared with: a short sketch with noise, rounded recalls.

    ``num_nodes`` is the number of nodes whose sampling error is that of the sketch.
    """
    exact = DriftBaseline.measure(
        observation.graph,
        observation.nodes,
        labels,
        observation.predictions,
        observation.num_classes,
        probe.column_std,
    )
    return coarse_baseline(exact, labels, probe.column_std, secret)


def coarse_baseline(
    exact: DriftBaseline, labels: NDArray[np.int64], column_std: FloatArray, secret: int
) -> DriftBaseline:
    """Return a baseline with a shorter sketch that carries noise, and rounded recalls."""
    n = exact.num_nodes
    sketch, extra = noisy_sketch(exact.sketch, n, column_std, secret)
    return DriftBaseline(
        sketch=sketch,
        num_nodes=max(int(n / (1.0 + extra)), 1),
        separation=coarse_log(exact.separation, n),
        recalls=_coarse_recalls(exact.recalls, labels),
    )


def noisy_sketch(
    exact: FloatArray, count: int, column_std: FloatArray, secret: int, most: int = SKETCH_SIZE
) -> tuple[FloatArray, float]:
    """Return a shorter sketch with noise, and the noise in units of the sampling variance.

    ``exact`` holds means over ``count`` nodes; at most ``most`` numbers of it are kept.
    """
    # More numbers than columns would average the noise out.
    most = min(most, max(int((column_std > 0.0).sum()), 1))
    size = min(max(int((1.0 + _LEAST_NOISE) * LEAK * count), _LEAST_SKETCH), most)
    extra = max(_LEAST_NOISE, size / (LEAK * count) - 1.0)
    noise = stream(secret, "feature sketch").standard_normal(size)
    return exact[:size] + noise * np.sqrt(extra / count), extra


def _coarse_recalls(exact: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
    """Round the accuracy within each class; small classes have that of all."""
    counts = np.bincount(labels, minlength=exact.size)
    overall = float(coarse_share(float(exact @ counts) / labels.size, labels.size))
    rounded = [
        float(coarse_share(value, int(count))) if count >= FEWEST else overall
        for value, count in zip(exact, counts, strict=True)
    ]
    return np.array(rounded)


def coarse_response(response: NodeResponse, count: int, secret: int) -> NodeResponse:
    """Round a node response: weights and constants act on log T, in units of the signals.

    Means and spreads of the signals get noise; weights say little about who is a member, because
    the model's own probabilities do not predict them.
    """
    error = 1.0 / np.sqrt(count)
    signals = response.origin.size
    draws = stream(secret, "node signals").standard_normal((2, signals)) * error
    draws *= np.sqrt(extra_noise(2 * signals, count))

    def plain(values: FloatArray) -> FloatArray:
        return coarse(values, np.full(values.shape, error))

    return replace(
        response,
        origin=coarse(response.origin + draws[0] * response.scale, response.scale * error),
        scale=np.exp(plain(np.log(response.scale) + draws[1])),
        weights=plain(response.weights),
        slopes=plain(response.slopes),
        classes=plain(response.classes),
    )
