"""`graphtemper demo` and `paper`: the experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphtemper.cli.output import (
    STYLES,
    Json,
    console,
    print_json,
    print_reasons,
    progress,
    say,
    table,
    tell,
    working,
)


def demo(*, out: Path = Path("artifacts/demo"), seed: int = 0, as_json: Json = False) -> None:
    """Run the main job end to end on an embedded graph: train, card, shift, recalibrate, report.

    Parameters
    ----------
    out
        Folder for the picture and the report.
    seed
        Seed of everything that is drawn.
    as_json
        Print JSON for machines.
    """
    from graphtemper.experiments import demo as job
    from graphtemper.report.html import check_extra
    from graphtemper.report.style import draw

    check_extra()
    with progress(as_json) as show:
        result = job.run(seed, progress=lambda done, total: show("source card", done, total))
    picture = draw(out / "demo.png", lambda figure: job.draw(figure, result))
    page = out / "report.html"
    result.answer.report(page)
    if as_json:
        print_json(result.to_dict() | {"picture": str(picture), "report": str(page)})
        return
    console().print(table("The same predictions at three temperatures", result.scores))
    accuracy = result.accuracy
    tell(
        f"Accuracy: estimated {accuracy.value:.3f} ({accuracy.low:.3f} to {accuracy.high:.3f}), "
        f"true {result.true_accuracy:.3f}"
    )
    tell(f"Verdict: {result.verdict}", STYLES[result.verdict])
    print_reasons(result.reasons)
    say(f"Picture: {picture}\nReport: {page}")


def paper(
    figure: str = "all",
    *,
    out: Path = Path("artifacts/paper"),
    results: Path | None = None,
    as_json: Json = False,
) -> None:
    """Reproduce one figure of the paper, or all: published beside measured.

    Writes FIGURE.png, FIGURE.csv and FIGURE.json, a Markdown page of everything in the folder, and
    beside it the claim-by-claim audit. A run of all that was interrupted goes on after the last
    figure that it finished.

    Parameters
    ----------
    figure
        concept, slope, extensions, bound, temperature, label-free, synthetic, real, sweep,
        rewiring, audit, or all.
    out
        Folder for the files.
    results
        The Markdown page; results.md in the folder unless given.
    as_json
        Print JSON for machines.
    """
    from graphtemper import experiments
    from graphtemper.experiments import unfinished
    from graphtemper.experiments.audit_page import render as render_audit
    from graphtemper.experiments.outcome import write_text
    from graphtemper.experiments.results_page import write_results

    several = figure == "all"
    kept = unfinished.finished(out) if several else {}
    outcomes: dict[str, dict[str, Any]] = {}
    for name in experiments.FIGURES if several else (figure,):
        try:
            if name not in kept:
                with working(f"paper {name}", as_json):
                    outcome = experiments.run(name)
                    outcome.write(out)
                kept[name] = outcome.to_dict()
                if several:
                    unfinished.remember(out, list(kept))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted at {name}; finished figures are kept in {out}: run the same command "
                "again to go on."
            ) from None
        outcomes[name] = kept[name]
        if not as_json:
            rows = [_comparison_row(item) for item in outcomes[name]["comparisons"]]
            console().print(table(outcomes[name]["title"], rows))
    page = results or out / "results.md"
    write_results(out, page)
    write_text(page.with_name("audit.md"), render_audit(out))
    if several:
        unfinished.forget(out)
    if as_json:
        print_json(list(outcomes.values()))
    else:
        say(f"Files: {out}\nPage: {page}")


def _comparison_row(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "quantity": item["quantity"],
        "published": item["published"],
        "measured": item["measured"],
        "bar": item["bar"],
        "met": {True: "yes", False: "NO", None: "-"}[item["met"]],
    }
