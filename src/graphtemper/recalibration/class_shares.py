r"""Class shares of a target without labels, and the logits that fit them.

Under label shift only the class shares change, :math:`p_t(x, y) = p_s(x \mid y)\, \pi_y`. With the
source's shares s and probabilities p that are calibrated for each of its classes, the shares have
the log-likelihood

.. math:: \ell(\pi) = \sum_i \log \sum_k \frac{\pi_k}{s_k} p_{ik},

and :math:`z + (b + \log(\pi / s)) / \beta` are the logits that fit them, at the temperature
:math:`1/\beta`: by Bayes' rule the target's posterior. Its mean top probability is the accuracy.
The slope :math:`\beta` and the biases b are those of the card's class profile.

All of this is wrong if :math:`p(x \mid y)` itself changed, which unlabelled nodes can refute but
never prove. A correction changes predictions, so it needs all of these:

1. the new shares explain the table of predictions and confidences (`shares_fit`), so that no other
   change of the class-conditional distributions is visible;
2. the change is at least three times its sampling error, which allows for neighbours that err alike
   (`design_effect`);
3. no other signal points to a different shift: the target is within the distance from the atlas at
   which the verdict abstains, and the signal gain (`graphtemper.signals.gains`), if it can be
   measured, is at least 0.75. New shares change the gain with the variance between classes;
   shuffled features or rewired edges change it more;
4. given the new shares, the answer without them has an expected calibration error of at least 0.03,
   or they improve the expected accuracy by at least 0.05;
5. labels that the caller gave are not less likely with it, and the resulting accuracy is known well
   enough not to abstain.

Some novelty is no objection, nor is an abstention without a correction: the atlas contains no new
class shares, so they look new to it. A class that the source lacks cannot be recognised, and its
share stays 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import chi2

from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds
from graphtemper._core.reproducible import mixed
from graphtemper.card.class_profile import ClassProfile
from graphtemper.card.reading import Reading
from graphtemper.graph.operators import multiply
from graphtemper.metrics import nll
from graphtemper.metrics.binned import bin_index, equal_width_edges, weighted_count
from graphtemper.recalibration.answer import Answer, about, caveat_of, judged, with_labels
from graphtemper.recalibration.labels.few_labels import Labels
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.verdict import ABSTAIN_NOVELTY
from graphtemper.signals.observation import Observation

PRIOR_NODES = 10.0
"""Weight of the source's shares, in nodes of the target."""
FIT_LEVEL = 0.05
"""Level of the test of fit."""
LEAST_ERRORS = 3.0
"""Smallest change, in sampling errors."""
LEAST_GAIN = 0.75
"""Smallest signal gain that new class shares can explain."""
WORTH, GAIN = 0.03, 0.05
"""Smallest expected calibration error without the new shares, and smallest expected gain in
accuracy with them; a correction needs one of the two to be worth its risk."""
_RELATIVE_RANK = 1e-9
# Cells are merged until each expects this number of nodes.
_SMALL_COUNT = 5.0
_BINS, _NAMED, _PROBES, _HOPS = 15, 3, 16, 2


@dataclass(frozen=True, eq=False)
class ShareEstimate:
    """Class shares of a target, and what a correction for them would do.

    Attributes
    ----------
    shares : (K,) array or None
        None if no shares explain the predictions.
    error : float
        Expected L1 error of the shares, due to sampling of the target's nodes.
    objection : str
        Why the logits should not be corrected; empty if they should be.
    offsets : (K,) array
        What a correction adds to logits at the source temperature.
    temperature : float
        Temperature of the corrected logits, relative to the source's.
    accuracy : float
        Accuracy of the corrected predictions that the new shares imply.
    changed : float
        Fraction of the predictions that the correction changes.
    """

    shares: FloatArray | None
    error: float
    objection: str
    offsets: FloatArray
    temperature: float
    accuracy: float
    changed: float


def correct(
    before: Answer, reading: Reading, observation: Observation, labels: Labels
) -> tuple[Answer, FloatArray | None, FloatArray | None]:
    """Return an answer corrected for new class shares, the shares, and what it adds to logits.

    Where the evidence does not support a correction, the answer says why, and nothing is added.
    """
    profile, logits, unit = reading.card.class_profile, observation.logits, reading.card.temperature
    if profile is None:
        text = (
            "no correction for class shares: the card holds no class profile, because its model "
            "has too many classes or hardly separates them."
        )
        return before.saying(Reason(ReasonCode.CLASS_PROFILE_MISSING, text)), None, None
    plain = about(reading, logits)
    moved = estimate(profile, logits / unit, 1.0 / plain.slope, design_effect(observation))
    shifted = logits + unit * moved.offsets
    prior = Estimate.of_log_odds(
        log_odds(moved.accuracy), _deviation(reading, moved.error), "class shares"
    )
    confidence = temperatures.mean_confidence(shifted, unit)
    corrected = judged(reading, confidence, prior, unit * moved.temperature, None)
    better = with_labels(corrected, reading, prior, shifted, labels)
    less, more = (
        nll(temperatures.apply(z[labels.rows], t), labels.classes) if labels.rows.size else 0.0
        for z, t in ((logits, plain.temperature), (shifted, corrected.temperature))
    )
    gains = reading.gains
    signal = 0.0 if gains is None or gains.signal is None else gains.signal
    strange = reading.novelty > ABSTAIN_NOVELTY or reading.blind or caveat_of(plain) is not None
    objections = {
        moved.objection: bool(moved.objection),
        "the other signals are too far from the source's to rule out other changes": strange,
        f"only {np.exp(signal):.0%} of the source's signal is left, so other things have "
        "changed": signal < np.log(LEAST_GAIN),
        "the labels are less likely with it than without": more > less,
        "the accuracy would not be known well enough": not better.settled,
    }
    objection = next((text for text, holds in objections.items() if holds), None)
    if objection is not None:
        text = f"no correction for class shares: {objection}."
        refused = Reason(ReasonCode.CLASS_SHARES_NOT_CORRECTED, text)
        return before.saying(refused), moved.shares, None
    # That nothing else has changed is assumed, so a correction alone earns no trust.
    if better.verdict == "trust" and before.verdict != "trust":
        better = replace(better, verdict="caution")
    assert moved.shares is not None
    change = moved.shares - profile.shares
    moves = ", ".join(
        f"class {k} from {profile.shares[k]:.0%} to {moved.shares[k]:.0%}"
        for k in np.argsort(-np.abs(change), kind="stable")[:_NAMED]
    )
    text = (
        f"the class shares seem to have moved: {moves}; correcting for it changes "
        f"{moved.changed:.1%} of the predictions, and is right only if nothing else has changed."
    )
    said = better.saying(Reason(ReasonCode.CLASS_SHARES_CORRECTED, text))
    return said, moved.shares, unit * moved.offsets


def _deviation(reading: Reading, error: float) -> float:
    """Return the deviation of the accuracy's log-odds if shares are known up to an L1 error."""
    recalls, value = reading.card.population.recalls, reading.card.reference.accuracy
    one = error / recalls.size * float(np.sqrt(np.pi / 2.0))  # of one share
    spread = float(np.sqrt(recalls.size / (recalls.size - 1) * recalls.var() * recalls.size))
    shares = one * spread / max(value * (1.0 - value), 0.01)
    deviation = float(np.sqrt(reading.atlas_variance + shares**2))
    return deviation if reading.expected is None else max(deviation, reading.expected.deviation)


def design_effect(observation: Observation) -> float:
    r"""Return how far neighbours that err alike may widen the error of shares, as a variance ratio.

    A model that averages over neighbours gives nodes with common neighbours similar errors. With
    errors that are independent noise, averaged over two hops by the mean P over a node and what it
    receives from, a sum over nodes has the variance of independent ones times

    .. math:: d = \frac{1^\top K 1}{\operatorname{tr} K}, \qquad K = P^2 (P^2)^\top.

    This is a bound for models that read two hops, and larger than what is measured between graphs
    of one generator. The trace is estimated with random signs.

    References
    ----------
    Kish, "Survey Sampling", 1965 (design effects); Hutchinson, Communications in Statistics 1990
    (traces).
    """
    graph, nodes = observation.graph, observation.nodes
    size, (senders, receivers) = graph.num_nodes, graph.edges.T
    links = sp.csr_matrix((np.ones(graph.num_edges), (senders, receivers)), (size, size))
    links = sp.csr_matrix((links if graph.directed else links + links.T) + sp.identity(size))
    received = np.asarray(links.sum(axis=0)).reshape(-1, 1)
    bits = mixed(mixed(nodes.astype(np.uint64)))[:, None] >> np.arange(_PROBES, dtype=np.uint64)
    columns: FloatArray = np.zeros((size, _PROBES + 1))
    columns[nodes] = np.column_stack([2.0 * (bits & np.uint64(1)) - 1.0, np.ones(nodes.size)])
    for _ in range(_HOPS):
        columns = np.asarray(multiply(links, columns / received), dtype=np.float64)
    squares = (columns**2).sum(axis=0)
    return max(float(squares[-1] / squares[:-1].mean()), 1.0)


def estimate(
    profile: ClassProfile, logits: FloatArray, relative: float, effect: float = 1.0
) -> ShareEstimate:
    """Estimate the class shares of a target and decide whether to correct for them.

    Parameters
    ----------
    profile
        The class profile of the card.
    logits : (n, K) array
        Logits of the target's nodes, divided by the source temperature.
    relative
        Their temperature without a correction, relative to the source's.
    effect
        See `design_effect`.

    Examples
    --------
    Two classes; the second has a share of 20 % at the source and of 80 % at the target:

    >>> rng = np.random.default_rng(0)
    >>> def draw(share, n=4000):
    ...     y = (rng.random(n) < share).astype(int)
    ...     g = 2.0 * (2 * y - 1) + 2.0 * rng.standard_normal(n) - np.log(4.0)
    ...     return np.column_stack([np.zeros(n), g]), y
    >>> profile = ClassProfile.measure(*draw(0.2))
    >>> logits, _ = draw(0.8)
    >>> found = estimate(profile, logits, 1.0)
    >>> found.objection, bool(abs(found.shares[1] - 0.8) < 0.03)
    ('', True)
    """
    source, z, predictions = profile.shares, profile.calibrated(logits), logits.argmax(axis=1)
    shares, error = likeliest(z, source)
    error *= float(np.sqrt(effect))
    fits = shares_fit(profile.counts, profile.cells(logits), shares) >= FIT_LEVEL
    # A share without a single node among n may still be 1/n.
    ratio = np.log(np.maximum(shares, 1.0 / len(z))) - np.log(np.maximum(source, 1.0 / len(z)))
    posterior = temperatures.apply(z + ratio)
    confidence, right = (
        temperatures.apply(logits, relative).max(axis=1),
        posterior[np.arange(len(z)), predictions],
    )
    index = bin_index(confidence, equal_width_edges(_BINS), closed="left")
    worth = float(np.abs(weighted_count(index, confidence - right, _BINS)).sum() / len(z))
    gain = float((posterior.max(axis=1) - right).mean())
    objection = ""
    if not fits:
        objection = "new class shares alone do not explain the predictions"
    elif float(np.abs(shares - source).sum()) < LEAST_ERRORS * error:
        objection = "the shares have not moved beyond what chance and alike neighbours explain"
    elif worth < WORTH and gain < GAIN:
        objection = (
            f"it would repair an expected calibration error of only {worth:.3f} and gain only "
            f"{gain:.1%} in accuracy"
        )
    return ShareEstimate(
        shares=shares if fits else None,
        error=error,
        objection=objection,
        offsets=np.asarray((ratio + profile.biases) / profile.slope),
        temperature=1.0 / profile.slope,
        accuracy=float(posterior.max(axis=1).mean()),
        changed=float((posterior.argmax(axis=1) != predictions).mean()),
    )


def likeliest(
    logits: FloatArray, source: FloatArray, prior: float = PRIOR_NODES
) -> tuple[FloatArray, float]:
    r"""Return the likeliest class shares, and their expected L1 error.

    The likelihood is concave in the shares. EM climbs in every step but takes thousands where
    classes overlap, so logarithms of shares are found by a quasi-Newton method. The error is
    :math:`\sqrt{2/\pi} \sum_k \sqrt{\Sigma_{kk}}` with the inverse :math:`\Sigma` of the observed
    information in the directions that keep the sum of the shares; errors of the source's
    calibration come on top.

    Parameters
    ----------
    logits : (n, K) array
        Logits of the target's nodes whose softmax is calibrated for each class of the source. One
        temperature would not do: overconfident classes pull the shares to the predictions'.
    source : (K,) array
        The class shares of the source.
    prior : float
        Number of pseudo-nodes with the source's shares, which hold the shares in place where
        classes look alike.

    References
    ----------
    Saerens, Latinne & Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori
    Probabilities", Neural Computation 2002; Alexandari, Kundaje & Shrikumar, "Maximum Likelihood
    with Bias-Corrected Calibration is Hard-To-Beat at Label Shift Adaptation", ICML 2020.

    Examples
    --------
    Three of four nodes are predicted as class 1 by a model that is right nine times in ten:

    >>> z = np.log([[0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1]])
    >>> likeliest(z, np.array([0.5, 0.5]), prior=0.0)[0].round(4)
    array([0.1875, 0.8125])
    >>> likeliest(z, np.array([0.5, 0.5]))[0].round(4)
    array([0.4366, 0.5634])
    """
    known, count = source > 0.0, len(logits) + prior
    if known.sum() == 1:  # nothing else is possible
        return source / source.sum(), 0.0
    gaps = logits[:, known] - np.log(source[known])
    # Likelihood ratios over their largest keep rare classes from overflowing; each class has one
    # labelled pseudo-node.
    ratios = np.hstack([np.exp(gaps - gaps.max(axis=1, keepdims=True)).T, np.eye(gaps.shape[1])])
    weights = np.append(np.full(len(logits), 1.0), prior * source[known]) / count
    ratios, weights = ratios[:, weights > 0.0], weights[weights > 0.0]

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        pi = temperatures.apply(point[None])[0]
        mixture = np.maximum(pi @ ratios, 1e-300)
        gradient = ratios @ (weights / mixture)
        return -float(weights @ np.log(mixture)), pi * (pi @ gradient - gradient)

    best = minimize(loss, np.log(source[known]), jac=True, options={"gtol": 1e-9, "maxiter": 2000})
    shares = np.zeros(source.size)
    shares[known] = temperatures.apply(best.x[None])[0]
    scaled = ratios / np.maximum(shares[known] @ ratios, 1e-300)
    basis = np.linalg.qr(np.eye(len(scaled))[:, 1:] - 1.0 / len(scaled))[0]
    information = basis.T @ ((scaled * weights) @ scaled.T) @ basis * count
    variances = np.diag(basis @ np.linalg.pinv(information, hermitian=True) @ basis.T)
    return shares, float(np.sqrt(2.0 / np.pi) * np.sqrt(np.maximum(variances, 0.0)).sum())


def shares_fit(
    source_counts: FloatArray, target_counts: NDArray[np.int64], shares: FloatArray
) -> float:
    r"""Return the p-value of the test that a target's cells mix the source's classes.

    With the source's rates :math:`M_{rj} = P_s(\text{cell } r \mid y = j)` from :math:`m_j` nodes,

    .. math:: d = c - n M\pi, \quad
              S = n (D_{M\pi} - M\pi\pi^\top M^\top)
              + n^2 \sum_j \frac{\pi_j^2}{m_j} (D_{M_j} - M_j M_j^\top), \quad
              \chi^2 = d^\top S^{-1} d,

    with target counts c of n nodes and diagonal matrices D: the sampling errors of the target and
    of the table (there with half a node more in every cell). For fixed shares and R cells the
    statistic is close to chi-squared with R - 1 degrees of freedom, which gives the p-value.
    Estimated shares are fitted to the target's nodes, so that a true label shift is rejected
    somewhat less often than the level says. Cells are merged until each expects five nodes. The
    p-value is 0 if there are then no more cells than classes, so that any shares would fit.

    Nodes are taken to be independent. Where neighbours err alike, true label shift is rejected more
    often than the level says, which costs corrections and adds no wrong ones.

    The test separates label shift from other shifts: noise, rewired edges or scaled features change
    the class-conditional distributions, and then no shares fit. It cannot detect a change that
    looks like another mixture of the source's classes.

    Parameters
    ----------
    source_counts : (R, K) array
        Source nodes by cell and class.
    target_counts : (R,) array
        Target nodes by cell.
    shares : (K,) array
        Class shares that were estimated for the target.

    References
    ----------
    The test of overidentifying restrictions: Hansen, Econometrica 1982.

    Examples
    --------
    >>> source = np.array([[70, 10], [20, 30], [10, 60]])
    >>> shares_fit(source, np.array([16, 19, 45]), np.array([0.1, 0.9])) > 0.05
    True
    >>> shares_fit(source, np.array([40, 0, 40]), np.array([0.5, 0.5])) < 1e-4
    True
    """
    known = source_counts.sum(axis=0) > 0
    nodes, size, pi = source_counts.sum(axis=0)[known], target_counts.sum(), shares[known]
    rates = source_counts[:, known] / nodes
    groups: list[list[int]] = [[]]  # the rarest cells are merged first
    expected = size * (rates @ pi)
    for cell in np.argsort(expected, kind="stable").tolist():
        if float(expected[groups[-1]].sum()) >= _SMALL_COUNT:
            groups.append([])
        groups[-1].append(cell)
    if len(groups) > 1 and float(expected[groups[-1]].sum()) < _SMALL_COUNT:
        groups[-2] += groups.pop()
    rates, cells = (
        np.array([table[group].sum(axis=0) for group in groups]) for table in (rates, target_counts)
    )
    if len(rates) <= pi.size:
        return 0.0
    mixture = rates @ pi
    # An empty cell of a class does not prove that its probability is 0: add half a node each.
    likely = (rates * nodes + 0.5) / (nodes + 0.5 * len(rates))
    weights = pi**2 / nodes
    table_error = np.diag(likely @ weights) - (likely * weights) @ likely.T
    spread = size * (np.diag(mixture) - np.outer(mixture, mixture)) + size**2 * table_error
    deviation = cells - size * mixture
    inverse = np.linalg.pinv(spread, rcond=_RELATIVE_RANK, hermitian=True)
    return float(chi2.sf(deviation @ inverse @ deviation, len(rates) - 1))
