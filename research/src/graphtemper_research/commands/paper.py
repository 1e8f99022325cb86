"""`graphtemper paper`: reproduce the figures and tables of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphtemper import errors
from graphtemper.cli.options import Json
from graphtemper.cli.output import console, print_json, print_line, table, working
from graphtemper.errors import InputError


def paper(
    figure: str | None = None,
    *,
    out: Path = Path("artifacts/paper"),
    results: Path | None = None,
    as_json: Json = False,
) -> None:
    """Reproduce one figure of the paper, or all: published next to measured.

    Writes FIGURE.png and FIGURE.json, a Markdown page of everything in the folder, and
    the claim-by-claim audit.

    Parameters
    ----------
    figure
        concept (fig1), slope (fig5), extensions (fig6), bound (fig7), temperature (fig8),
        synthetic (fig9), real (fig10, table2), sweep (fig11), rewiring (fig12), label-free,
        diagnostic, audit; or all, which takes minutes.
    out
        Folder for the files.
    results
        The Markdown page; default results.md in the folder.
    as_json
        Print JSON for machines.
    """
    from graphtemper_research import paper as experiments
    from graphtemper_research.harness.outcome import write_text
    from graphtemper_research.paper.audit_page import render as render_audit
    from graphtemper_research.paper.results_page import write_results

    if results is not None and (results.suffix != ".md" or results.name == "audit.md"):
        raise InputError(f"{results} cannot be the page; name an .md file other than audit.md.")
    if figure is None:
        names = ", ".join(experiments.FIGURES)
        raise errors.missing(f"name a figure, or all, which takes minutes: {names}.")
    figure = experiments.named(figure)
    outcomes: dict[str, dict[str, Any]] = {}
    for name in experiments.FIGURES if figure == "all" else (figure,):
        with working(f"paper {name}", as_json):
            outcome = experiments.run(name)
            outcome.write(out)
        outcomes[name] = outcome.to_dict()
        if not as_json:
            rows = [_comparison_row(item) for item in outcomes[name]["comparisons"]]
            console().print(table(outcomes[name]["title"], rows))
    page = results or out / "results.md"
    write_results(out, page)
    write_text(page.with_name("audit.md"), render_audit(out))
    if as_json:
        print_json(list(outcomes.values()))
    else:
        print_line(f"Files: {out}\nPage: {page}")


def _comparison_row(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "quantity": item["quantity"],
        "published": item["published"] if item["script"] is None else f"{item['script']} (script)",
        "measured": item["measured"],
        "bar": item["bar"],
        "met": {True: "yes", False: "NO", None: "-"}[item["met"]],
    }
