"""`graphtemper demo`: the main job end to end on an embedded graph."""

from __future__ import annotations

from pathlib import Path

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
    from graphtemper.cli import demo_job as job
    from graphtemper.recalibration.report.html import check_extra
    from graphtemper.recalibration.report.style import draw

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
