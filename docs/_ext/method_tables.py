"""The tables of the pages on the method, computed from the committed results as `evidence` does.

Every comparison has a row or a column for doing nothing and for the source temperature.
"""

from collections import defaultdict
from statistics import mean

from evidence import NOTHING, Results, average, kinds, shown, table

SOURCE = "source-T"
KNOWN, UNKNOWN = "known family", "unknown family"


def tables(results: Results) -> dict[str, str]:
    """Return Markdown by file name."""
    return {
        "environments_families": environments_families(results),
        "past_environments": past_environments(results),
        "per_node": per_node(results),
        "class_shares": class_shares(results),
        "natural_labels": natural_labels(results),
        "sets": sets(results),
        "sets_shares": sets_shares(results),
    }


def environments_families(results: Results) -> str:
    """Return the ECE with other environments by family, and what else to know of it."""
    rows = [row for row in results.rows("natural_environments") if row["model"] == "SIGN"]
    columns = {
        NOTHING: "doing nothing",
        SOURCE: "source temperature",
        "mean gap": "mean gap alone",
        "no environment": "no environment",
        "one environment": "one",
        "all environments": "all",
        "constants left out": "all, constants left out",
        "one environment with wrong labels": "one of all with wrong labels",
        "oracle-T": "best temperature",
    }
    families = defaultdict(list)
    for row in rows:
        families[row["family"]].append(row)
    named = {f"{name} ({len(own)} pairs)": own for name, own in sorted(families.items())}
    lines = [
        [name, *(shown(average(own, f"ece {key}")) for key in columns)]
        for name, own in (named | {"mean of the families": rows}).items()
    ]
    worse = {name: _harmed(rows, f"ece {name}") for name in ("all environments", "mean gap")}
    errors = [average(rows, f"error {name}") for name in ("all environments", "no environment")]
    words = (
        f"The error of the accuracy is {errors[0]:.3f} with all environments and {errors[1]:.3f} "
        "without any. The 90 % interval with all covers the truth in "
        f"{average(rows, 'held all environments'):.0%} of the pairs. "
        f"{worse['all environments']:.0%} of them end up worse than at the source temperature by "
        f"more than 0.02, and {worse['mean gap']:.0%} with the mean gap alone."
    )
    return table(["mean ECE", *columns.values()], lines) + f"\n{words}\n"


def _harmed(rows, name: str) -> float:
    """Return the share of pairs with an ECE of 0.02 above that of the source temperature."""
    return mean(row[name] - row[f"ece {SOURCE}"] > 0.02 for row in rows)


def past_environments(results: Results) -> str:
    """Return the ECE with earlier environments only, where the families have times."""
    columns = {
        NOTHING: "doing nothing",
        SOURCE: "source temperature",
        "latest past-T": "temperature of the latest one",
        "past environments": "earlier environments",
    }
    families = defaultdict(list)
    for row in results.rows("natural_environments"):
        if row["model"] == "SIGN" and row["ece past environments"] is not None:
            families[row["family"]].append(row)
    lines = [
        [f"{name} ({len(own)} pairs)", *(shown(average(own, f"ece {key}")) for key in columns)]
        for name, own in sorted(families.items())
    ]
    return table(["mean ECE", *columns.values()], lines)


PER_NODE = {
    "uncalibrated": "doing nothing",
    SOURCE: "source temperature",
    "STAC-full": "STAC-full",
    "atlas": "one temperature, {}",
    "per node, logits only": "logits only (the paper's ablation), {}",
    "atlas per node": "one per node, {}",
    "oracle-T": "best single temperature",
}


def per_node(results: Results) -> str:
    """Return scores with one temperature per node, averaged over graphs, and where they help."""
    found = {
        (row["shifts"], row["method"]): row
        for row in results.rows("per_node")
        if row["model"] == "SIGN" and row["graph"] == "average"
    }
    rows = []
    for method, name in PER_NODE.items():
        for kind in (KNOWN, UNKNOWN) if "{}" in name else ("",):
            row = found.get(("all shifts", f"{method}, {kind}" if kind else method))
            scores = ("brier", "nll", "auroc", "ece")
            cells = ["–"] * 4 if row is None else [_score(row[key]) for key in scores]
            rows.append([name.format(kind), *cells])

    def below(quantity: str) -> str:
        note = results.measured("per_node", f"SIGN, {quantity}")["note"]
        return note.removeprefix("below zero on ").removesuffix(" graphs")

    part = [
        found["shifts of a part", name]["auroc"]
        for name in (f"atlas, {KNOWN}", f"atlas per node, {KNOWN}", f"atlas per node, {UNKNOWN}")
    ]
    words = (
        "With a known family, one temperature per node has a smaller Brier score than the best "
        f"single temperature on {below(KNOWN + ': Brier against the oracle' + chr(39) + 's')} "
        f"graphs. With an unknown family, it has a smaller Brier score than the atlas's single one "
        f"on {below(UNKNOWN + ': Brier against one temperature')}. Where half of the nodes are "
        f"shifted, the AUROC rises from {part[0]:.3f} to {part[1]:.3f} (known) and {part[2]:.3f} "
        "(unknown). The price is a larger binned ECE than with one temperature."
    )
    head = ["", "Brier", "NLL", "AUROC of error detection", "ECE"]
    return table(head, rows) + f"\n{words}\n"


def _score(value: float | None) -> str:
    """Return a score; the NLL of a model that was certain and wrong is infinite, and no number."""
    return "∞" if value is None else f"{value:.4f}"


def class_shares(results: Results) -> str:
    """Return what a correction for class shares does, from the comparisons of its bench."""
    rows = results.rows("class_shares")
    pure = [row for row in rows if row["shift"] == "none" and row["strength"] > 0.0]
    corrected = [row for row in pure if row["applied"]]
    file = results.comparisons("class_shares")
    lines = [
        [item["quantity"].removeprefix("SIGN: "), f"{item['measured']:.3g}", item["note"] or ""]
        for item in file
        if item["quantity"].startswith("SIGN: ") and "mean ECE" not in item["quantity"]
    ]
    columns = {
        f"ece {NOTHING}": "doing nothing",
        f"ece {SOURCE}": "source temperature",
        "ece before": "without a correction",
        "ece after": "corrected",
    }
    cells = [shown(average([row | {"family": ""} for row in corrected], name)) for name in columns]
    graphs = len({row["graph"] for row in rows})
    words = (
        f"{graphs} graphs, {len(pure)} pure share shifts, {len(corrected)} of them corrected. In "
        "these:"
    )
    errors = table(["", *columns.values()], [["mean ECE", *cells]])
    return f"{words}\n\n{errors}\nOver all of them:\n\n" + _noted(lines)


def _noted(lines) -> str:
    body = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(["| | measured | |", "| --- | ---: | --- |", *body]) + "\n"


def natural_labels(results: Results) -> str:
    """Return the ECE with 20 and 50 labels over all natural families."""
    rows = [row for row in results.rows("natural_labels") if row["model"] == "SIGN"]
    few = {f"{count} labels": count for count in (20, 50)}
    lines = [
        ["doing nothing", *(shown(average(rows, f"ece {NOTHING}")) for _ in few)],
        ["source temperature", *(shown(average(rows, f"ece {SOURCE}")) for _ in few)],
        [
            "a temperature fitted to the labels alone",
            *(shown(average(rows, f"ece {name}, temperature alone")) for name in few),
        ],
        ["graphtemper without labels", *(shown(average(rows, "ece no environment")) for _ in few)],
        ["**graphtemper**", *(shown(average(rows, f"ece {name}")) for name in few)],
        ["best temperature", *(shown(average(rows, "ece oracle-T")) for _ in few)],
    ]
    return table([f"mean ECE, {kinds(rows)} families ({len(rows)} pairs)", *few], lines)


SETS = {
    SOURCE: "doing nothing (source temperature)",
    "atlas": "recalibrated",
    "oracle-T": "best temperature",
}


def _sets(results: Results) -> dict[tuple[str, str], dict]:
    return {
        (row["score"], row["method"]): row
        for row in results.rows("sets")
        if row["model"] == "SIGN" and row.get("graph") == "average"
    }


def sets(results: Results) -> str:
    """Return what prediction sets cover under shift, averaged over graphs."""
    found, rows = _sets(results), []
    for score in ("aps", "raps", "daps"):
        for method, name in SETS.items():
            row = found[score, method]
            cells = [f"{row[key]:.3f}" for key in ("coverage", "shortfall", "lowest")]
            rows.append([f"{score.upper()}, {name}", *cells, f"{row['size']:.2f}"])
    head = ["", "mean coverage", "mean shortfall from 0.9", "lowest", "mean size"]
    larger = found["aps", "atlas"]["size"] / found["aps", SOURCE]["size"] - 1.0
    words = f"Recalibrated, the sets of APS are {larger:.0%} larger on average."
    return table(head, rows) + f"\n{words}\n"


def sets_shares(results: Results) -> str:
    """Return what prediction sets cover where class shares changed."""
    found = _sets(results)
    methods = {
        SOURCE: "doing nothing (source temperature)",
        "atlas": "recalibrated",
        "atlas, estimated shares": "recalibrated, estimated shares",
        "source-T, true shares": "source temperature, true shares",
    }
    rows = [
        [score.upper(), *(f"{found[score, method]['moved']:.3f}" for method in methods)]
        for score in ("aps", "raps", "daps")
    ]
    return table(["mean coverage, goal 0.9", *methods.values()], rows)
