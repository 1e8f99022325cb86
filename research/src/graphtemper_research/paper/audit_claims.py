"""Claims of the paper about its tables, figures and method."""

from __future__ import annotations

from graphtemper import theory
from graphtemper_research.paper.audit_claim import (
    Claim,
    Outcomes,
    count,
    measured,
    number,
    rows,
    value,
)

BINARY = ("tolokers", "minesweeper")


def _doubling(o: Outcomes) -> str:
    parts = [
        f"{name}: {number(o, 'real', f'{name}, uncalibrated, as published')} with [-g, g] (printed "
        f"{value(o, 'real', f'{name}, uncalibrated, as published')['published']}), "
        f"{number(o, 'real', f'{name}, uncalibrated, corrected')} with [0, g]"
        for name in ("tolokers", "minesweeper")
    ]
    return "; ".join(parts) + "."


def _not_algorithm(o: Outcomes) -> str:
    parts = [
        f"{name}: ECE {number(o, 'real', f'{name}, STAC, as published')} as in the table, "
        f"{number(o, 'real', f'{name}, STAC, corrected')} with Algorithm 1"
        for name in ("tolokers", "minesweeper")
    ]
    overshoot = value(o, "real", "all graphs, Algorithm 1")
    worse = count(o, "real", "graphs where Algorithm 1 is worse")
    return (
        "; ".join(parts) + ". Over all graphs here Algorithm 1 still overshoots the accuracy by "
        f"{overshoot['measured']:.3f} on average, and is worse than source-T on {worse}."
    )


def _source_helps(o: Outcomes) -> str:
    parts = [
        f"{name}: {number(o, 'real', f'{name}, uncalibrated, corrected')} uncalibrated, "
        f"{number(o, 'real', f'{name}, source-T, corrected')} with source-T"
        for name in ("tolokers", "minesweeper")
    ]
    helps = value(o, "real", "binary graphs where source-T helps")
    of = helps.get("quantity", "").rpartition("of ")[2]
    return (
        "with correct logits, " + "; ".join(parts) + f". Source-T helps on "
        f"{helps['measured']:.0f} of {of} binary graphs under this shift"
        + (f" ({helps['note']})." if helps["note"] else ".")
    )


def _limits(o: Outcomes) -> str:
    row = rows(o, "audit", study="limits")[0]
    return (
        f"for h_s = 0.8 and h_t = 0.6 the slope tends to {row['low_snr']:.3f} as snr goes to 0 and "
        f"to {row['high_snr']:.3f} as it goes to infinity; the ratio in the text is "
        f"{row['claimed_for_high_snr']:.3f}."
    )


def _rewiring(o: Outcomes) -> str:
    item = value(o, "rewiring", "minesweeper: ECE after the oracle temperature with 75 % rewired")
    released = [
        f"{name} "
        + " and ".join(f"{_released(o, name, share):.3f} at {share:.0%}" for share in (0, 0.75))
        for name in BINARY
    ]
    return (
        f"minesweeper at 75 %: {item['measured']:.3f} ({item['note']}). Rewired as their script does, "
        f"on its two splits: {', '.join(released)}. Above 0.03 at some share: "
        f"{count(o, 'rewiring', 'graphs with an oracle ECE above')}; of these the noise floor of "
        f"ECE does not explain {count(o, 'rewiring', 'of these, graphs where')}."
    )


def _released(o: Outcomes, name: str, share: float) -> float:
    """Return the oracle ECE of a graph that is rewired as in the authors' script."""
    common = {"study": "rewired homophily", "graph": name, "share": share}
    found = rows(o, "audit", method="oracle", **common)
    return float(found[0]["ece"])


def _bound(o: Outcomes) -> str:
    tight, loose = (
        value(o, "bound", f"bound / population ECE, {word}") for word in ("smallest", "largest")
    )
    source = value(o, "bound", "exact ECE at h_t = h_s")
    return (
        "the exact ECE of the Gaussian model exceeds it at "
        f"{measured(o, 'bound', 'points where the exact population ECE exceeds'):.0f} points. It is "
        f"{tight['measured']:.1f} times that ECE at best and {loose['measured']:.0f} times at "
        f"worst on the paper's grid. At finite degree the ECE at the source is "
        f"{source['measured']:.4f} where the bound is zero."
    )


def _classes(o: Outcomes) -> str:
    row = rows(o, "audit", study="classes")[0]
    binary = 1 / float(theory.slope(0.6, 0.8, 1.0))
    ratio = 1 / float(theory.signal_ratio(0.6, 0.8, 2))
    return (
        f"Theorem 1 itself disagrees for K = 2: h 0.8 to 0.6 at snr 1 gives T* = {binary:.2f}, the "
        f"ratio of coefficients {ratio:.2f}. Measured for K = {row['num_classes']}, h "
        f"{row['h_source']} to {row['h_target']} at degree 25: {row['measured']:.2f} +- "
        f"{row['spread']:.2f} against a ratio of {row['signal_ratio']:.2f}, so at finite degree the "
        "two can be close. A single temperature does suffice (ECE "
        f"{number(o, 'extensions', 'largest ECE after one oracle')} at worst)."
    )


def _covariate(o: Outcomes) -> str:
    return (
        "with correct logits, under-confident at some level: "
        f"{count(o, 'sweep', 'corrected: graphs that are under-confident')}; sign changes: "
        f"{count(o, 'sweep', 'corrected: graphs whose gap changes sign')}; gap falls somewhere: "
        f"{count(o, 'sweep', 'corrected: graphs whose gap falls')}. In the published convention "
        f"sign changes: {count(o, 'sweep', 'as-published: graphs whose gap changes sign')}."
    )


def _per_node(o: Outcomes) -> str:
    item = value(o, "synthetic", "mixed shift: change of error-detection AUROC")
    return f"mean change {item['measured']:+.3f} ({item['note']})."


def _ranking(o: Outcomes) -> str:
    one, cold = rows(o, "audit", study="ranking")
    item = value(o, "synthetic", "largest change of AUROC")
    return (
        f"logits (0, -1, -1) and (0, -0.5, -10) have confidence {one['first']:.2f} and "
        f"{one['second']:.2f} at T = 1 but {cold['first']:.2f} and {cold['second']:.2f} at T = 0.2. "
        f"In the synthetic study (K = 3) one temperature moves the AUROC by up to "
        f"{item['measured']:.4f}."
    )


def _degree(o: Outcomes) -> str:
    found = rows(o, "audit", study="degree")
    parts = [
        f"degree {row['degree']}: {row['measured']:.2f} (exact {row['finite_degree']:.2f})"
        for row in found
    ]
    return "source degree 25, same homophily and snr; measured slope at " + ", ".join(parts) + "."


def _passes(o: Outcomes) -> str:
    found = {row["M"]: row for row in rows(o, "audit", study="passes")}
    return (
        f"the estimate's standard deviation is {found[6]['spread']:.4f} at M = 6 and "
        f"{found[50]['spread']:.4f} at M = 50, its error {found[6]['measured'] - found[6]['accuracy']:+.3f} "
        f"and {found[50]['measured'] - found[50]['accuracy']:+.3f}."
    )


def _halving(o: Outcomes) -> str:
    script, printed = (
        value(o, "synthetic", f"{name}: ECE left above the oracle")
        for name in ("STAC-global", "STAC (Algorithm 1)")
    )
    published, fresh = (
        measured(o, "synthetic", f"{name}: ECE above the oracle, as a share of the control")
        for name in ("STAC-global", "STAC-global, fresh validation graph")
    )
    return (
        f"{script['measured']:.2f} of source-T's excess ECE over the oracle is left by the script's "
        f"global stage ({script['note']}), {printed['measured']:.2f} by Algorithm 1. Against a "
        f"source-T whose validation nodes lie in a fresh graph it is {published:.2f}, and "
        f"{fresh:.2f} if STAC's threshold is fitted there too."
    )


def _no_shift(o: Outcomes) -> str:
    share, ours = (
        value(
            o, "synthetic", f"feature 0 (no shift): ECE of source-T, as a share of that at 1.4{end}"
        )
        for end in (", authors' seeds", "")
    )
    panel = value(o, "synthetic", "right panel: share")
    control = value(o, "synthetic", "feature 1.4: ECE, source-T with validation nodes")
    return (
        f"without any shift source-T already has {share['measured']:.0%} of its ECE at 1.4 on the "
        f"authors' seeds ({share['note']}) and {ours['measured']:.0%} on ours, the oracle "
        f"temperature is {number(o, 'synthetic', 'feature 0 (no shift): oracle')}, and "
        f"{panel['measured']:.0%} of the fall of accuracy is there ({panel['note']}). With "
        f"validation nodes in a fresh graph source-T has ECE {control['measured']:.3f} at 1.4 "
        f"({control['note']})."
    )


def _gap_without_shift(o: Outcomes) -> bool:
    """Say whether most of the figure's gap is there at level 0 and goes with the control."""
    share = measured(o, "synthetic", "feature 0 (no shift): ECE of source-T")
    panel = measured(o, "synthetic", "right panel: share")
    control = measured(o, "synthetic", "feature 1.4: ECE, source-T with validation nodes")
    plain = measured(o, "synthetic", "feature 1.4: ECE, source-T, 8 seeds")
    return min(share, panel) > 0.5 and control < 0.5 * plain


def _halves_only_that(o: Outcomes) -> bool:
    """Say whether STAC halves source-T's excess as published, and exceeds that of the control."""
    published = measured(o, "synthetic", "STAC-global: ECE left above the oracle")
    return published <= 0.6 and measured(o, "synthetic", "STAC-global: ECE above the oracle") > 1


def _raised_by_source(o: Outcomes) -> bool:
    """Say whether source-T raises the ECE of correct logits on both graphs."""
    return all(
        measured(o, "real", f"{name}, source-T, corrected")
        > measured(o, "real", f"{name}, uncalibrated, corrected")
        for name in BINARY
    )


def _stacking_explains(o: Outcomes) -> bool:
    return all(
        measured(o, "real", f"{name}, uncalibrated, as published")
        > 2 * measured(o, "real", f"{name}, uncalibrated, corrected")
        for name in BINARY
    )


def _algorithm_is_better(o: Outcomes) -> bool:
    better = all(
        measured(o, "real", f"{name}, STAC, corrected")
        < measured(o, "real", f"{name}, STAC, as published")
        for name in BINARY
    )
    return better and measured(o, "real", "all graphs, Algorithm 1") > 0


def _limit_is_at_zero(o: Outcomes) -> bool:
    row = rows(o, "audit", study="limits")[0]
    claimed = row["claimed_for_high_snr"]
    return bool(abs(row["low_snr"] - claimed) < 1e-3 < abs(row["high_snr"] - claimed))


def _degree_matters(o: Outcomes) -> bool:
    found = rows(o, "audit", study="degree")
    return all(abs(row["measured"] - row["finite_degree"]) <= 3 * row["error"] for row in found)


def _passes_leave_bias(o: Outcomes) -> bool:
    row = rows(o, "audit", study="passes", M=50)[0]
    return bool(abs(row["measured"] - row["accuracy"]) > 3 * row["spread"])


def _coefficient_is_right(o: Outcomes) -> bool:
    return measured(o, "extensions", "largest |c_K theory - measured|") <= 0.01


CLAIMS = (
    Claim(
        "Uncalibrated ECE on binary graphs",
        "0.132 on tolokers, 0.123 on minesweeper under feature noise.",
        "stacks the decision value g of a binary classifier as [-g, g], so the softmax reports "
        "sigma(2g): the model at temperature one half.",
        ("real",),
        _doubling,
        "the column measures the stacking. Fitted columns absorb the factor and stand.",
        _stacking_explains,
    ),
    Claim(
        "STAC on real graphs is Algorithm 1",
        "Table 2 reports STAC, defined by Algorithm 1 (minimum of ATC and disagreement).",
        "the real-graph script computes neither ATC nor the minimum: only disagreement under six "
        "feature-noise passes at 0.3 standard deviations.",
        ("real",),
        _not_algorithm,
        "the table's STAC is a different method. On these two graphs Algorithm 1 has the lower ECE, "
        "and it still overshoots the accuracy.",
        _algorithm_is_better,
    ),
    Claim(
        "Source temperature scaling helps on binary graphs",
        "source-T lowers ECE on tolokers, minesweeper and questions (Table 2).",
        "compares it with doubled logits.",
        ("real",),
        _source_helps,
        "reversed on tolokers and minesweeper, where it helps only against the doubled logits; "
        "questions is not measured here and is not judged.",
        _raised_by_source,
    ),
    Claim(
        "The noiseless limit of the slope",
        "as snr goes to infinity the slope reduces to (2h_t-1)/(2h_s-1).",
        "uses the general formula.",
        ("audit",),
        _limits,
        "a slip: that is the limit as snr goes to 0.",
        _limit_is_at_zero,
    ),
    Claim(
        "One temperature repairs rewiring",
        "the oracle temperature recovers ECE <= 0.03 on all five graphs at up to 75 % rewired edges.",
        "plots the means of two splits and replaces the second end of an edge.",
        ("audit", "rewiring"),
        _rewiring,
        "does not hold on minesweeper at 75 %; minesweeper and tolokers are above 0.03 already "
        "without any rewiring. The other three graphs are not available here.",
        lambda o: (
            min(_released(o, "minesweeper", 0.75), *(_released(o, name, 0.0) for name in BINARY))
            > 0.03
        ),
    ),
    Claim(
        "The ECE bound is never violated",
        "holds throughout.",
        "compares it with a binned ECE.",
        ("bound",),
        _bound,
        "true in the model it is proved for; zero where a finite-degree model is not perfectly "
        "calibrated.",
        lambda o: measured(o, "bound", "points where the exact population ECE exceeds") == 0,
    ),
    Claim(
        "K classes: the mean logits are rescaled",
        "homophily shift rescales the whole logit vector by c_K(h_t)/c_K(h_s), so that a single "
        "temperature suffices. No T* is claimed for K classes.",
        "checks the means.",
        ("audit", "extensions"),
        _classes,
        "the coefficient is right for the means. The optimal temperature also carries the change of "
        "the covariance within classes, so it is not the ratio of coefficients in general.",
        _coefficient_is_right,
    ),
    Claim(
        "Covariate shift never makes a model under-confident",
        "the gap grows monotonically with the noise and never changes sign, on five graphs.",
        "doubled logits lift the whole curve of binary graphs.",
        ("sweep",),
        _covariate,
        "the direction is right, the sign is not: a model that starts under-confident crosses zero.",
        lambda o: measured(o, "sweep", "corrected: graphs whose gap changes sign") > 0,
    ),
    Claim(
        "The per-node stage",
        "moves the error-detection ranking only marginally under heterogeneous shift.",
        "fits six weights to a label-free proxy.",
        ("synthetic",),
        _per_node,
        "it lowers the ranking's quality on average over the mixed shifts measured.",
        lambda o: measured(o, "synthetic", "mixed shift: change of error-detection AUROC") < 0,
    ),
    Claim(
        "A global temperature cannot change the ranking of nodes",
        "its AUROC exactly matches the uncalibrated model's.",
        "uses three classes.",
        ("audit", "synthetic"),
        _ranking,
        "true for two classes, false for three or more.",
        lambda o: measured(o, "synthetic", "largest change of AUROC") > 0,
    ),
    Claim(
        "The slope is independent of degree",
        "degree cancels in Theorem 1.",
        "always draws source and target with the same degree.",
        ("audit",),
        _degree,
        "only for equal degrees; otherwise the slope carries the ratio d_t/d_s.",
        _degree_matters,
    ),
    Claim(
        "M = 6-10 passes suffice",
        "in its experiments.",
        "6 on real graphs, 8 on synthetic ones.",
        ("audit",),
        _passes,
        "true, and beside the point: the error is bias, which no number of passes removes.",
        _passes_leave_bias,
    ),
    Claim(
        "STAC halves the gap on synthetic shifts",
        "roughly halves the ECE gap to the oracle.",
        "the global stage minimises a binned loss against a per-node proxy, not the mean match of "
        "Algorithm 1.",
        ("synthetic",),
        _halving,
        "holds as printed, as an average with a wide range. What it halves is mostly the step from the "
        "training graph to another one (see the next claim): source-T with validation nodes in a "
        "fresh graph has less ECE than STAC.",
        _halves_only_that,
    ),
    Claim(
        "The gap of source-T is the face of the shift",
        "Fig. mech: the uncalibrated model degrades steadily, and the gap between source and target "
        'accuracy "is the empirical face of kappa moving away from 1 as shift intensity increases".',
        "fits source-T on nodes of the training graph, draws every target as a fresh graph, and "
        "starts at level 0.2.",
        ("synthetic",),
        _no_shift,
        "does not hold: most of the gap is there without any shift. Validation nodes are neighbours "
        "of training nodes and targets are not, so the figure mixes shift with the step from a seen "
        "graph to an unseen one.",
        _gap_without_shift,
    ),
)
