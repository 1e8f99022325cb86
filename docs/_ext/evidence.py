"""Tables of what was measured, computed from the committed results, for the pages that cite them.

The numbers of *How good is it?* and of the method page are read here from ``docs/results`` whenever
the site is built, so a new measurement changes the pages.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean


def tables(source: Path) -> dict[str, str]:
    """Return Markdown by file name: one table per question, and all of them together."""
    results = Results(source / "results")
    parts = {
        "known": known(results),
        "natural": natural(results),
        "labels": labels(results),
        "controls": controls(results),
        "cost": cost(results),
        "trust": trust(results),
        "natural_words": natural_words(results),
    }
    titles = {
        "known": "Known shifts (`graphtemper bench atlas`):",
        "natural": "Natural shifts without labels (`graphtemper bench natural-prior`):",
        "labels": "Natural shifts with labels of the target (`graphtemper bench labels`):",
        "controls": "Controls (`graphtemper bench controls`):",
    }
    together = "\n\n".join(f"{title}\n\n{parts[name]}" for name, title in titles.items())
    return {f"evidence_{name}": text for name, text in parts.items()} | {"evidence": together}


class Results:
    """The rows of result files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def rows(self, name: str) -> list[dict]:
        """Return the rows of a benchmark."""
        return json.loads((self._folder / "atlas" / f"{name}.json").read_text("utf-8"))["rows"]

    def measured(self, name: str, quantity: str) -> dict:
        """Return one of the comparisons of a benchmark."""
        file = json.loads((self._folder / "atlas" / f"{name}.json").read_text("utf-8"))
        return next(item for item in file["comparisons"] if item["quantity"] == quantity)

    def plain(self, name: str):
        """Return another file as it is."""
        return json.loads((self._folder / f"{name}.json").read_text("utf-8"))


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table whose columns after the first are aligned to the right."""
    line = "| --- |" + " ---: |" * (len(head) - 1)
    body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(head) + " |", line, *body]) + "\n"


def known(results: Results) -> str:
    """Return the ECE under known shifts, relative to the best single temperature."""
    names = {
        "source-T": "source temperature",
        "STAC": "STAC, as printed in the paper",
        "atlas, known family": "**graphtemper**, kind of shift in the card",
        "atlas, unknown family": "**graphtemper**, kind of shift not in the card",
        "labelled quarter": "*labels of a quarter of the target*",
    }
    cells_of = defaultdict(list)
    for row in results.rows("atlas_bench"):
        cells_of[row["trial"], row["method"]].append(row)
    best = {
        trial: mean(row["ece"] for row in cells_of[trial, "oracle-T"]) for trial in ("SIGN", "GCN")
    }
    rows = []
    for method, name in names.items():
        cells = [name]
        for trial in ("SIGN", "GCN"):
            found = cells_of[trial, method]
            cells.append(f"{mean(row['ece'] for row in found) / best[trial]:.2f}")
            if trial == "SIGN":
                covered = [row["coverage"] for row in found if row["coverage"] is not None]
                errors = [row["accuracy_error"] for row in found if row["accuracy_error"]]
                cells.append(f"{mean(errors):.3f}" if errors else "")
                interval = f"{mean(covered):.0%}" if covered else ""
        cells.append(interval)
        rows.append(cells)
    head = [
        "mean ECE over that of the best temperature",
        "SIGN",
        "error of the accuracy",
        "GCN",
        "coverage of the 90 % interval",
    ]
    return table(head, rows)


def trust(results: Results) -> str:
    """Return how many trusted answers did harm."""
    known = results.measured("atlas_bench", "SIGN, known family: harmful trust")
    of_labels = "SIGN, labels of the card's nodes at the target: harmful trust"
    count = known["note"].partition(" trust")[0]
    return (
        "Is `trust` earned? With SIGN and the kind of shift in the card, "
        f"{known['measured']:.0f} of {count} trusted answers are worse than the source temperature "
        "by more than 0.02 ECE. "
        "For a temperature fitted to labels of a quarter of the target, the number is "
        f"{results.measured('atlas_bench', of_labels)['measured']:.0f}.\n"
    )


NATURAL = {
    "source-T": "source temperature",
    "ece": "graphtemper, family left out",
    "shipped": "graphtemper",
    "true accuracy": "accuracy known",
}


def natural_families(results: Results) -> dict[str, dict[str, float]]:
    """Return means by family under natural shifts."""
    families = defaultdict(list)
    for row in results.rows("natural_prior"):
        families[row["family"]].append(row)
    return {
        family: {name: mean(float(row[name]) for row in found) for name in (*NATURAL, "held")}
        | {"pairs": len(found)}
        for family, found in sorted(families.items())
    }


def natural_means(results: Results) -> dict[str, float]:
    """Return the means over families under natural shifts."""
    families = natural_families(results).values()
    return {name: mean(family[name] for family in families) for name in (*NATURAL, "held")}


def natural(results: Results) -> str:
    """Return the ECE under natural shifts by family, and the mean over families."""
    rows = [
        [
            f"{family} ({found['pairs']} pairs)",
            *(f"{found[name]:.3f}" for name in NATURAL),
            f"{found['held']:.0%}",
        ]
        for family, found in natural_families(results).items()
    ]
    means = natural_means(results)
    total = [f"**{means[name]:.3f}**" for name in NATURAL]
    rows.append(["**mean of the families**", *total, f"**{means['held']:.0%}**"])
    return table(["mean ECE", *NATURAL.values(), "coverage, family left out"], rows)


def natural_words(results: Results) -> str:
    """Return the table of natural shifts as a sentence."""
    means = natural_means(results)
    relation = "above" if means["ece"] > means["source-T"] else "below"
    return (
        "*Family left out* is the column to read: there the prior's numbers were chosen on the "
        f"other families. Its mean ECE, {means['ece']:.3f}, is {relation} that of the source "
        f"temperature, {means['source-T']:.3f}, and the 90 % interval covers the truth in "
        f"{means['held']:.0%} of the pairs.\n"
    )


def labels(results: Results) -> str:
    """Return the ECE under natural shifts with labels of the target."""
    found = results.rows("labels")
    columns = {
        "ece source-T": "source temperature",
        "ece atlas": "no label",
        "ece 50": "50 labels",
        "ece 200": "200 labels",
        "ece oracle-T": "best temperature",
    }
    cells = [f"{mean(row[name] for row in found):.3f}" for name in columns]
    alone = [
        "",
        "",
        *(f"{mean(row[f'ece {n} alone'] for row in found):.3f}" for n in (50, 200)),
        "",
    ]
    rows = [
        [f"graphtemper ({len(found)} pairs)", *cells],
        ["a temperature fitted to the labels alone", *alone],
    ]
    return table(["mean ECE", *columns.values()], rows)


def controls(results: Results) -> str:
    """Return the error of the accuracy and the verdicts under changes that are hard to see."""
    found = defaultdict(list)
    for row in results.rows("controls"):
        found[row["control"]].append(row)
    rows = [
        [
            name,
            f"{mean(abs(row['estimate'] - row['accuracy']) for row in group):.2f}",
            ", ".join(row["verdict"] for row in group),
        ]
        for name, group in found.items()
    ]
    graphs = ", ".join(row["graph"] for row in next(iter(found.values())))
    return table([f"change ({graphs})", "mean error of the accuracy", "verdicts"], rows)


def cost(results: Results) -> str:
    """Return what the main job costs, next to one plain pass of the model."""
    rows = [
        [
            f"`recalibrate`, {row['size'].partition('<br>')[0]}",
            f"{row['seconds']:.3g} s",
            f"{row['peer_seconds']:.3g} s",
            f"{row['seconds'] / row['peer_seconds']:.1f}",
        ]
        for row in results.plain("benchmarks")
        if row["what"] == "recalibrate" and row["peer"].startswith("one naive SIGN pass")
    ]
    return table(["job", "time", "one plain pass of the model", "ratio"], rows)


def draw(figure, source: Path) -> None:
    """Draw the mean ECE in four settings: as it was, with graphtemper, and at its best."""
    from graphtemper.recalibration.report import style

    results = Results(source / "results")
    means, pairs = natural_means(results), results.rows("labels")
    known = {
        method: mean(
            row["ece"]
            for row in results.rows("atlas_bench")
            if (row["trial"], row["method"]) == ("SIGN", method)
        )
        for method in ("source-T", "atlas, unknown family", "oracle-T")
    }
    groups = {
        "known shifts, kind\nnot in the card": tuple(known.values()),
        "natural shifts, no label,\nfamily left out": (
            means["source-T"],
            means["ece"],
            means["true accuracy"],
        ),
        **{
            f"natural shifts,\n{count} labels": tuple(
                mean(row[name] for row in pairs)
                for name in ("ece source-T", f"ece {count}", "ece oracle-T")
            )
            for count in (50, 200)
        },
    }
    axes = figure.subplots()
    bars = ("source temperature", style.RED), ("graphtemper", style.BLUE), ("best", style.GREY)
    for number, (name, colour) in enumerate(bars):
        heights = [group[number] for group in groups.values()]
        places = [0.27 * (number - 1) + place for place in range(len(groups))]
        drawn = axes.bar(places, heights, 0.25, color=colour, label=name)
        axes.bar_label(drawn, fmt="%.3f", fontsize=7.5, padding=1)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_ylabel("mean ECE")
    axes.grid(axis="x", visible=False)
    axes.legend(ncols=3, loc="upper right")
