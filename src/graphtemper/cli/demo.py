"""`graphtemper demo`: the main job end to end on a built-in graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from graphtemper.cli.options import Flag, Json
from graphtemper.cli.output import (
    STYLES,
    console,
    print_json,
    print_line,
    print_reasons,
    print_sentence,
    progress,
    table,
)
from graphtemper.errors import MissingExtraError

_HEADS = {
    "temperature_of": "temperature of",
    "temperature": "T",
    "mean_confidence": "mean confidence",
    "ece": "ECE",
    "nll": "NLL",
}


def demo(
    *,
    out: Path = Path("artifacts/demo"),
    seed: int = 0,
    fraud: Flag = False,
    as_json: Json = False,
) -> None:
    """Run the main job end to end on a built-in graph: train, card, shift, recalibrate, report.

    The picture needs the extra [plots] and the report the extra [report]; without them the demo
    prints its results only.

    Parameters
    ----------
    out
        Folder for the picture and the report, which is made if it does not exist.
    seed
        Seed of all random draws.
    fraud
        Find a rare class instead: precision, recall and cost, next to the true values.
    """
    from graphtemper.cli import demo_job as job
    from graphtemper.recalibration.report import html, style

    no_picture, no_report = _missing(style.check_extra), _missing(html.check_extra)
    if no_picture is None or no_report is None:
        out.mkdir(parents=True, exist_ok=True)
    with progress(as_json) as show:
        shown = partial(show, "source card")
        result = job.run(seed, fraud=fraud, progress=shown)
    picture = report = None
    if no_picture is None:
        picture = style.draw(out / "demo.png", lambda figure: job.draw(figure, result))
    if no_report is None:
        report = out / "report.html"
        result.answer.report(report, metrics=result.metrics)
    if as_json:
        paths = {"picture": picture, "report": report}
        written = {name: None if path is None else str(path) for name, path in paths.items()}
        print_json(result.to_dict() | written)
        return
    if result.metrics is not None:
        console().print(table("Fraud on the changed graph, flagged from 0.5", result.decided))
    rows = [{_HEADS[name]: value for name, value in row.items()} for row in result.scores]
    console().print(table("The same predictions at three temperatures", rows))
    answer, accuracy = result.answer, result.answer.accuracy
    print_sentence(
        f"Accuracy: estimated {accuracy.value:.3f} ({accuracy.low:.3f} to {accuracy.high:.3f}), "
        f"true {result.true_accuracy:.3f}"
    )
    print_sentence(f"Verdict: {answer.verdict}", STYLES[answer.verdict])
    print_reasons(answer.reasons)
    print_line(f"Picture: {picture or no_picture}\nReport: {report or no_report}")


def _missing(check: Callable[[], None]) -> str | None:
    """Return why an output cannot be written, or None if it can."""
    try:
        check()
    except MissingExtraError as error:
        return f"none; {error}"
    return None
