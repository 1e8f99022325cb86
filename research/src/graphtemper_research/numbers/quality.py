"""How good the answers are: errors, coverage and decisions, from the results of the benches."""

from __future__ import annotations

from statistics import mean
from typing import Any

from graphtemper_research.harness.frame import grouped, select
from graphtemper_research.numbers.tables import (
    ABSENT,
    BEST,
    NOTHING,
    REFERENCES,
    SOURCE,
    Results,
    average,
    by_family,
    cell,
    compared,
    grid,
    table,
)


def natural_pairs(results: Results) -> list[dict[str, Any]]:
    """Return the pairs with labels of other places or periods."""
    return results.rows("atlas/natural_environments", model="SIGN")


def settings(results: Results) -> dict[str, list[float | None]]:
    """Return five errors in each of four settings: the columns of `summary`."""
    simulated = results.rows("atlas/atlas_bench", trial="SIGN")
    methods = ("uncalibrated", "source-T", None, "atlas, unknown family", "oracle-T")
    rule = results.rows("atlas/natural_rule", model="SIGN")
    places, few = natural_pairs(results), results.rows("atlas/labels")
    labels = ("mean gap", "pooled-T", "latest-T")
    simple = min(labels, key=lambda name: average(places, f"ece {name}") or 1.0)

    def errors(
        rows: list[dict[str, Any]], *names: str | None, head: str = "ece "
    ) -> list[float | None]:
        return [None if name is None else average(rows, head + name) for name in names]

    def count(rows: list[dict[str, Any]]) -> int:
        return len({row["family"] for row in rows})

    return {
        "simulated shift of a kind that the card has not seen, no label": [
            average(select(simulated, method=name), "ece") if name else None for name in methods
        ],
        f"{count(rule)} families of graphs from other months, places or releases, no label": errors(
            rule, "uncalibrated", "source-T", None, "answer", "true accuracy", head=""
        ),
        f"{count(places)} of them, with labels of further months, places or releases": errors(
            places, "uncalibrated", "source-T", simple, "all environments", "oracle-T"
        ),
        f"{len(few)} pairs of months, places or years, with 50 labels of the second": errors(
            few, "uncalibrated", "source-T", "50 alone", "50", "oracle-T"
        ),
    }


def summary(results: Results) -> str:
    """Return the table of the README; the least error is bold, but for what needs the truth."""
    head = ["mean calibration error (ECE)", NOTHING, SOURCE, "same labels, no graphtemper"]
    rows = []
    for name, errors in settings(results).items():
        least = min(error for error in errors[:4] if error is not None)
        cells = [ABSENT if error is None else f"{error:.3f}" for error in errors]
        bold = [f"**{x}**" if e == least else x for x, e in zip(cells, errors, strict=True)]
        rows.append([name, *bold[:4], cells[4]])
    return table([*head, "graphtemper", BEST], rows)


def known(results: Results) -> str:
    """Return errors under known shifts over those of the best single temperature."""
    names = {
        "uncalibrated": NOTHING,
        "source-T": SOURCE,
        "STAC": "STAC, as printed in the paper",
        "atlas, known family": "**graphtemper**, kind of shift in the card",
        "atlas, unknown family": "**graphtemper**, kind of shift not in the card",
        "labelled quarter": "*labels of a quarter of the target*",
    }

    def ratio(trial: str, method: str) -> str:
        own, best = (
            average(results.rows("atlas/atlas_bench", trial=trial, method=name), "ece")
            for name in (method, "oracle-T")
        )
        return f"{own / best:.2f}" if own and best else ABSENT

    rows = []
    for method, name in names.items():
        own = results.rows("atlas/atlas_bench", trial="SIGN", method=method)
        errors, held = cell(own, "accuracy_error"), cell(own, "coverage:.0%")
        rows.append([name, ratio("SIGN", method), errors, ratio("GCN", method), held])
    head = ["mean ECE over that of the best temperature", "SIGN", "error of the accuracy", "GCN"]
    return table([*head, "coverage of the 90 % interval"], rows)


def known_words(results: Results) -> str:
    """Return on how many graphs the known shifts were measured."""
    sign, gcn = (
        len({row["graph"] for row in results.rows("atlas/atlas_bench", trial=trial)} - {"average"})
        for trial in ("SIGN", "GCN")
    )
    return f"Graphs measured: {sign} with SIGN and {gcn} with a GCN, each under every shift."


def trust(results: Results) -> str:
    """Return how many trusted answers did harm, and where trusted intervals hold least."""
    ours = results.bar("atlas/atlas_bench", "SIGN, known family: harmful trust")
    other = "SIGN, labels of the card's nodes at the target: harmful trust"
    harm = results.bar("atlas/atlas_bench", other)["measured"]
    kinds = [(trial, kind) for kind in ("known", "unknown") for trial in ("SIGN", "GCN")]
    bars = [f"{t}, homophily, {kind} family: coverage of trusted intervals" for t, kind in kinds]
    held = [f"{results.bar('atlas/atlas_bench', bar)['measured']:.0%}" for bar in bars]
    return (
        "Is `trust` earned? With SIGN and the kind of shift in the card, "
        f"{ours['measured']:.0f} of {ours['note'].partition(' trust')[0]} trusted answers are "
        "worse than the source temperature by more than 0.02 ECE. For a temperature fitted to "
        f"labels of a quarter of the target, the number is {harm:.0f}.\n\n"
        "Its weakest place is a change of homophily alone: edges link equal classes more or less "
        "often, and features stay. There the trusted 90 % intervals hold in "
        f"{held[0]} of cases with SIGN and {held[1]} with a GCN if the card knows such shifts, as "
        f"every card does by default, and in {held[2]} and {held[3]} if they are left out."
    )


def natural(results: Results) -> str:
    """Return errors under natural shifts by family."""
    columns = {
        NOTHING: "uncalibrated",
        SOURCE: "source-T",
        "graphtemper": "answer",
        "accuracy known": "true accuracy",
        "coverage": "held:.0%",
    }
    families = by_family(results.rows("atlas/natural_rule", model="SIGN"))
    return grid("mean ECE", families, columns, "mean of the families")


def natural_words(results: Results) -> str:
    """Return the means of the table of natural shifts as a sentence."""
    rows = results.rows("atlas/natural_rule", model="SIGN")
    ours, source = average(rows, "answer") or 0.0, average(rows, "source-T") or 0.0
    return (
        f"The mean ECE of the answers, {ours:.3f}, is {'above' if ours > source else 'below'} that "
        f"of the source temperature, {source:.3f}, and the 90 % interval covers the truth in "
        f"{cell(rows, 'held:.0%')} of the pairs."
    )


def environments(results: Results) -> str:
    """Return errors with labels of other places or periods, beside simple uses of them."""
    rows = natural_pairs(results)
    names = REFERENCES | {
        "temperature of the latest environment": "ece latest-T",
        "temperature of all environments together": "ece pooled-T",
        "their mean gap between confidence and accuracy": "ece mean gap",
        "graphtemper without them": "ece no environment",
        "**graphtemper**, one environment": "ece one environment",
        "**graphtemper**, all environments": "ece all environments",
        BEST: "ece oracle-T",
    }
    head = ["method", f"mean ECE ({len(rows)} pairs)"]
    return table(head, ([name, cell(rows, key)] for name, key in names.items()))


def labels(results: Results) -> str:
    """Return errors under natural shifts with labels of the target."""
    rows = results.rows("atlas/labels")
    columns = REFERENCES | {"no label": "ece atlas", "50 labels": "ece 50", "200 labels": "ece 200"}
    columns[BEST] = "ece oracle-T"
    ours = [f"graphtemper ({len(rows)} pairs)", *(cell(rows, key) for key in columns.values())]
    alone = [cell(rows, f"{key} alone") if key[-1] == "0" else "" for key in columns.values()]
    lines = [ours, ["a temperature fitted to the labels alone", *alone]]
    return table(["mean ECE", *columns], lines)


def labels_words(results: Results) -> str:
    """Return whether a temperature fitted to the labels alone has the smaller error."""
    rows, words = results.rows("atlas/labels"), []
    for count in (50, 200):
        alone, ours = cell(rows, f"ece {count} alone"), cell(rows, f"ece {count}")
        name = "that temperature" if alone < ours else "graphtemper"
        less, more = sorted((alone, ours))
        words.append(f"with {count}, {name} has the smaller error ({less} against {more})")
    return (
        "Against a temperature fitted to the same labels and nothing else, on these pairs: "
        f"{'; '.join(words)}. What graphtemper adds to labels is an interval, a verdict, and an "
        "answer when there are none."
    )


def controls(results: Results) -> str:
    """Return the error of the accuracy and the verdicts under changes that are hard to see."""
    found = grouped(results.rows("atlas/controls"), "control")
    rows = [
        [
            name,
            f"{mean(abs(row['estimate'] - row['accuracy']) for row in own):.2f}",
            ", ".join(row["verdict"] for row in own),
        ]
        for (name,), own in found.items()
    ]
    graphs = ", ".join(row["graph"] for row in next(iter(found.values())))
    return table([f"change ({graphs})", "mean error of the accuracy", "verdicts"], rows)


def months_caption(results: Results) -> str:
    """Say what the picture of the README shows."""
    months = results.read("months")["months"]
    card, learned = (
        sum(row[kind]["low"] <= row["true"] <= row[kind]["high"] for row in months)
        for kind in ("card", "learned")
    )
    errors = [row["ece"] for row in months]
    nothing, source, ours, earlier, few = (
        cell(errors, key) for key in ("nothing", "source", "card", "learned", "labels")
    )
    count = len(months)
    return (
        f"A GCN trained on US counties in July 2020, and {count} later months of the data. Black: "
        "the true accuracy, known a month later. Orange: estimated without any label; the 90 % "
        f"interval holds the truth in {card} of {count} months. Blue: with the labels of the "
        f"months before; it does in {learned} of {count}. Mean calibration error (ECE: the gap "
        f"between confidence and accuracy): {nothing} doing nothing, {source} at the source "
        f"temperature (calibrated once, in July), {ours} by graphtemper without labels, {earlier} "
        f"with those of the months before, and {few} with 50 labels of the month itself."
    )


def months_printed(results: Results) -> str:
    """Return what the lines of the README print."""
    return f"```text\n{results.read('months')['printed']}\n```"


def months_truth(results: Results) -> str:
    """Return the truth behind what the lines of the README print."""
    truth = results.read("months")["true_accuracy"]
    return f"The true accuracy of that month, which nothing above has seen: {truth:.1%}."


# ----- what the pages on the method show -----


def atlas(results: Results) -> str:
    """Return what every trial of the known shifts gave, beside labels of the target."""
    averages = results.rows("atlas/atlas_bench", graph="average")
    trials = list(dict.fromkeys(row["trial"] for row in averages))
    seen, unseen, quarter = "atlas, known family", "atlas, unknown family", "labelled quarter"
    lines = {
        f"ECE over the oracle's, {NOTHING}": ("uncalibrated", "ece_ratio:.2f"),
        f"ECE over the oracle's, {SOURCE}": ("source-T", "ece_ratio:.2f"),
        "ECE over the oracle's, STAC as printed": ("STAC", "ece_ratio:.2f"),
        "ECE over the oracle's, **atlas, known family**": (seen, "ece_ratio:.2f"),
        "ECE over the oracle's, *labelled quarter*": (quarter, "ece_ratio:.2f"),
        "ECE over the oracle's, **atlas, unknown family**": (unseen, "ece_ratio:.2f"),
        "error of the accuracy, known": (seen, "accuracy_error"),
        "the same of the labelled quarter": (quarter, "accuracy_error"),
        "error of the accuracy, unknown": (unseen, "accuracy_error"),
        "NLL above the oracle's, known": (seen, "nll_regret:.4f"),
        "NLL above the oracle's, unknown": (unseen, "nll_regret:.4f"),
        "coverage of the 90 % interval, unknown": (unseen, "coverage:.0%"),
        "trusted answers, known": (seen, "trust:.0f"),
        "harmful ones of these, known": (seen, "harmful:.0f"),
        "trusted answers, unknown": (unseen, "trust:.0f"),
        "harmful ones of these, unknown": (unseen, "harmful:.0f"),
    }
    rows = [
        [name, *(cell(select(averages, trial=trial, method=method), key) for trial in trials)]
        for name, (method, key) in lines.items()
    ]
    return table(["mean over graphs", *trials], rows)


def paper_words(results: Results) -> str:
    """Return how close the atlas comes to the oracle in the paper's own setting."""
    rows = results.rows("atlas/paper_setting")
    near = sum(row["excess"] <= 0.005 for row in rows)
    parts = [
        "on {graph} the ECE is {ece atlas:.3f} with the atlas, {ece oracle-T:.3f} with the "
        "oracle's temperature, {ece source-T:.3f} with the source's and {ece STAC:.3f} with STAC "
        "(printed: {printed:.3f})".format_map(row)
        for row in rows
        if row["graph"] in ("minesweeper", "tolokers")
    ]
    words = f"Of {len(rows)} graphs, the atlas is within 0.005 of the oracle on {near}."
    return f"{'; '.join(parts)}. {words}"


def environments_families(results: Results) -> str:
    """Return errors with other environments by family, and what else to know of them."""
    rows = natural_pairs(results)
    columns = REFERENCES | {
        "mean gap alone": "ece mean gap",
        "no environment": "ece no environment",
        "one": "ece one environment",
        "all": "ece all environments",
        "one of all with wrong labels": "ece one environment with wrong labels",
        BEST: "ece oracle-T",
    }
    ours, gap = (
        mean(row[name] - row["ece source-T"] > 0.02 for row in rows)
        for name in ("ece all environments", "ece mean gap")
    )
    words = (
        f"The error of the accuracy is {cell(rows, 'error all environments')} with all of them "
        f"and {cell(rows, 'error no environment')} without any. The 90 % interval with all covers "
        f"the truth in {cell(rows, 'held all environments:.0%')} of the pairs. {ours:.0%} of them "
        "end up worse than at the source temperature by more than 0.02, and "
        f"{gap:.0%} with the mean gap alone."
    )
    return grid("mean ECE", by_family(rows), columns, "mean of the families") + f"\n\n{words}"


def past_environments(results: Results) -> str:
    """Return errors with earlier environments only, where families have times."""
    columns = REFERENCES | {
        "temperature of the latest one": "ece latest past-T",
        "earlier environments": "ece past environments",
    }
    rows = [row for row in natural_pairs(results) if row["ece past environments"] is not None]
    return grid("mean ECE", by_family(rows), columns)


def per_node(results: Results) -> str:
    """Return scores with one temperature per node, over all shifts and over those of a part."""
    methods = {
        "uncalibrated": NOTHING,
        "source-T": SOURCE,
        "STAC-full": "STAC-full",
        "atlas, known family": "one temperature, known family",
        "atlas, unknown family": "one temperature, unknown family",
        "atlas per node, known family": "one per node, known family",
        "atlas per node, unknown family": "one per node, unknown family",
        "oracle-T": "best single temperature",
    }
    rows = results.rows("atlas/per_node", model="SIGN", graph="average")
    part = select(rows, shifts="shifts of a part")
    body = []
    for method, name in methods.items():
        own = select(rows, shifts="all shifts", method=method)
        cells = [cell(own, f"{key}:.4f") for key in ("brier", "nll", "auroc", "ece")]
        # Files have no infinity, which is the NLL of a method that is certain and wrong.
        cells[1] = cells[1].replace(ABSENT, "∞")
        body.append([name, *cells, cell(select(part, method=method), "auroc")])
    head = ["", "Brier", "NLL", "AUROC of error detection", "ECE"]
    return table([*head, "AUROC where half of the nodes are shifted"], body)


def class_shares(results: Results) -> str:
    """Return what a correction for class shares does."""
    rows = results.rows("atlas/class_shares")
    pure = [row for row in rows if row["shift"] == "none" and row["strength"] > 0.0]
    corrected = [row for row in pure if row["applied"]]
    columns = REFERENCES | {"without a correction": "ece before", "corrected": "ece after"}
    graphs = len({row["graph"] for row in rows})
    return (
        f"{graphs} graphs, {len(pure)} pure share shifts, {len(corrected)} of them corrected. In "
        f"these:\n\n{grid('', {'mean ECE': corrected}, columns)}\n\nOver all of them:\n\n"
        + compared(results, "atlas/class_shares", "SIGN: ", leave_out="mean ECE")
    )


def natural_labels(results: Results) -> str:
    """Return errors with 20 and 50 labels over all natural families."""
    rows = results.rows("atlas/natural_labels", model="SIGN")
    names = REFERENCES | {
        "a temperature fitted to the labels alone": "ece {}, temperature alone",
        "graphtemper without labels": "ece no environment",
        "**graphtemper**": "ece {}",
        BEST: "ece oracle-T",
    }
    few = ("20 labels", "50 labels")
    families = len({row["family"] for row in rows})
    head = [f"mean ECE, {families} families ({len(rows)} pairs)", *few]
    return table(
        head, ([name, *(cell(rows, key.format(n)) for n in few)] for name, key in names.items())
    )


SETS = {"source-T": f"{NOTHING} ({SOURCE})", "atlas": "recalibrated", "oracle-T": BEST}


def _sets(results: Results, score: str, method: str) -> list[dict[str, Any]]:
    having = {"model": "SIGN", "graph": "average", "score": score, "method": method}
    return results.rows("atlas/sets", **having)


def sets(results: Results) -> str:
    """Return what prediction sets cover under shift."""
    groups = {
        f"{score.upper()}, {name}": _sets(results, score, method)
        for score in ("aps", "raps", "daps")
        for method, name in SETS.items()
    }
    columns = {
        "mean coverage": "coverage",
        "mean shortfall from 0.9": "shortfall",
        "lowest": "lowest",
        "mean size": "size:.2f",
    }
    return grid("", groups, columns)


def sets_shares(results: Results) -> str:
    """Return what prediction sets cover where class shares changed."""
    methods = {
        "source-T": f"{NOTHING} ({SOURCE})",
        "atlas": "recalibrated",
    }
    rows = [
        [score.upper(), *(cell(_sets(results, score, method), "moved") for method in methods)]
        for score in ("aps", "raps", "daps")
    ]
    return table(["mean coverage, goal 0.9", *methods.values()], rows)


DECISIONS = ("no labels", "environments", "50 labels", "50 labels and environments")
METRICS = ("precision", "recall", "f1")


def decisions(results: Results) -> str:
    """Return errors of estimated metrics and how often their intervals hold."""
    rows = results.rows("atlas/decisions", model="SIGN")
    real, drawn, rare = (select(rows, kind=kind) for kind in ("natural", "drawn", "rare"))
    named = {"uncalibrated": NOTHING, "source-T": SOURCE} | {name: name for name in DECISIONS}
    groups = {f"natural shift, {name}": select(real, method=key) for key, name in named.items()}
    groups["drawn shifts of a kind that the card has not seen"] = select(drawn, method="no labels")
    groups["0.5, 2 and 10 % positives"] = select(rare, method="no labels")
    body = []
    for name, own in groups.items():
        ratios = [
            sum(row[f"error {metric}"] for metric in METRICS)
            / sum(row[f"source {metric}"] for metric in METRICS)
            for row in own
            if row["source precision"] is not None
        ]
        errors, before = (
            [average(own, f"{what} {metric}") for metric in METRICS] for what in ("error", "source")
        )
        overall = ABSENT
        if None not in before and None not in errors:
            overall = f"{sum(filter(None, errors)) / sum(filter(None, before)):.2f}"
        body.append(
            [
                name,
                *(cell(own, f"error {metric}") for metric in METRICS),
                overall,
                f"{mean(ratios):.2f}" if ratios else ABSENT,
                *(cell(own, f"held {metric}:.0%") for metric in METRICS),
            ]
        )
    worse = [
        row["family"]
        for row in select(real, method="no labels")
        if sum(row[f"error {metric}"] - row[f"source {metric}"] for metric in METRICS) > 0.0
    ]
    head = ["", "error of precision", "recall", "F1", f"over {SOURCE}", "by family"]
    return (
        table(
            [*head, "interval holds: precision", "recall", "F1"],
            (r for r in body if r[1] != ABSENT),
        )
        + "\n\nWithout labels, the source temperature has the smaller mean error in: "
        f"{', '.join(sorted(worse)) or 'none'}."
    )


def decisions_families(results: Results) -> str:
    """Return how often intervals of metrics hold, by family of natural shifts."""
    rows = results.rows("atlas/decisions", model="SIGN", kind="natural")
    body, seen = [], []
    for (family,), own in sorted(grouped(rows, "family").items()):
        line = [f"{family} ({own[0]['pairs']} pairs)"]
        for method in DECISIONS:
            (row,) = select(own, method=method) or [{}]
            held = [row[key] for m in METRICS if row.get(key := f"held {m}") is not None]
            shown = (f"**{share:.0%}**" if share < 0.85 else f"{share:.0%}" for share in held)
            line.append(" / ".join(shown) or ABSENT)
            seen += held
        body.append(line)
    low = sum(share < 0.85 for share in seen)
    words = f"Bold: below 85 %, in {low} of {len(seen)} cases."
    return table(["precision / recall / F1", *DECISIONS], body) + f"\n\n{words}"
