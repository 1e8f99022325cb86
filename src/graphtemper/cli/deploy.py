"""`graphtemper recalibrate` and `diagnose`: a model on an unlabelled graph."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from graphtemper import errors
from graphtemper.cli import result_file
from graphtemper.cli.answers import diagnosis_rows, print_answer
from graphtemper.cli.ends import CLOSED, end
from graphtemper.cli.metric_options import Decisions
from graphtemper.cli.options import Deployed, Earlier, Flag, Labels, Stored, Target, read_budget
from graphtemper.cli.output import (
    print_closed,
    print_json,
    print_line,
    print_rows,
    progress,
    working,
)

if TYPE_CHECKING:
    from graphtemper.card.card import SourceCard
    from graphtemper.recalibration import Recalibration


_NOTHING, _IN_MEMORY = Decisions(), Stored()


def recalibrate(
    graph: Target,
    deployed: Deployed,
    *,
    stored: Stored = _IN_MEMORY,
    labels: Labels = None,
    earlier: Earlier = None,
    out: Path = Path("recalibrated.npz"),
    class_shares: Literal["estimate"] | None = None,
    per_node: Flag = False,
    report: Path | None = None,
    date: str = "",
    budget: str | None = None,
    decisions: Decisions = _NOTHING,
) -> None:
    """Correct a model's probabilities on an unlabelled graph, and say how far to trust them.

    Parameters
    ----------
    out
        Result: .npz with probabilities, nodes, temperature, accuracy and verdict; or .parquet or
        .csv with one row per node.
    class_shares
        estimate corrects predictions for changed class shares where the evidence is sufficient;
        predictions may change. Default: nothing is done about class shares.
    per_node
        One temperature per node, for shifts that affect a part of the graph.
    report
        An .html page that explains the answer; needs the extra [report].
    date
        When the target was observed, as the report should show it.
    budget
        The most forward passes of the model to take. Default: 12 for a card built with a budget.
    """
    from graphtemper.recalibration.gates import why_closed

    in_files = stored.features is not None
    if in_files and (deployed.logits is None or report or decisions.segments or decisions.asked):
        raise errors.conflict(
            "a graph in Parquet needs the --logits of its nodes, and has neither a report nor "
            "metrics of decisions; leave these options out."
        )
    if not in_files:
        result_file.check_path(out)
    check_written({"--out": out, "--report": report}, graph, deployed, labels, earlier)
    gates, _ = decisions.gates, decisions.asked  # refused before anything is measured
    options: dict[str, Any] = {"class_shares": class_shares, "per_node": per_node}
    options["budget"] = read_budget(budget)
    if in_files:
        options["out"] = out
    result, _ = run(graph, deployed, labels, earlier, stored=stored, **options)
    metrics = decisions.metrics(result)
    closed = why_closed(gates, result, metrics)
    if not in_files:
        result_file.write(out, result)
    if report is not None:
        result.report(report, date=date, metrics=metrics)

    def show() -> None:
        if deployed.as_json:
            facts: dict[str, Any] = {} if metrics is None else {"metrics": metrics.to_dict()}
            facts |= {"closed": closed, "out": str(out.absolute() if in_files else out)}
            facts |= {} if report is None else {"report": str(report)}
            print_json(result.to_dict() | facts)
        else:
            steps = [] if in_files else next_steps(graph, deployed, labels, earlier)
            print_answer(result, metrics, steps)
            print_line(f"Written: {out} ({result.num_nodes:,} nodes)")
            if report is not None:
                print_line(f"Report: {report}")

    print_closed(closed)
    end(CLOSED if closed else 0, show)


def diagnose(graph: Target, deployed: Deployed, *, labels: Labels = None) -> None:
    """Describe how much a model is over- or under-confident on an unlabelled graph, and why."""
    from graphtemper.recalibration.diagnosis import diagnosis

    result, source = run(graph, deployed, labels)
    facts = diagnosis(result, source)
    if deployed.as_json:
        print_json(result.to_dict() | facts)
        return
    print_answer(result, steps=next_steps(graph, deployed, labels))
    print_rows(diagnosis_rows(result, facts))


def check_written(
    outputs: dict[str, Path | None], graph: str, deployed: Deployed, *inputs: Path | None
) -> None:
    """Refuse to overwrite a file that the command reads."""
    files = (deployed.card, deployed.predict, deployed.logits, deployed.nodes)
    result_file.check_outputs(outputs, (graph, *inputs, *files))


def next_steps(
    graph: str, deployed: Deployed, labels: Path | None = None, earlier: Path | None = None
) -> list[str]:
    """Return the commands that would make an answer more certain, with the files of this one.

    Examples
    --------
    >>> deployed = Deployed(card=Path("a.json"), logits=Path("b.npy"))
    >>> print(*next_steps("b.npz", deployed))
    graphtemper label b.npz --logits b.npy --card a.json --session b.session.json --goal 0.1
    """
    named = {name: getattr(deployed, name) for name in ("predict", "logits", "card")}
    named |= {"nodes": deployed.nodes, "split": deployed.split, "labels": labels}
    named |= {"earlier": earlier, "session": f"{Path(graph).stem}.session.json", "goal": 0.1}
    options = [(f"--{name}", str(value)) for name, value in named.items() if value is not None]
    words = [["label", graph, *(word for pair in options for word in pair)]]
    if deployed.predict is not None:
        card = str(deployed.card)
        words.append(["card", "learn", card, "EARLIER.npz", "--predict", deployed.predict])
    return [shlex.join(["graphtemper", *line]) for line in words]


def run(
    graph: str,
    deployed: Deployed,
    labels: Path | None = None,
    earlier: Path | None = None,
    *,
    stored: Stored = _IN_MEMORY,
    **options: Any,
) -> tuple[Recalibration, SourceCard]:
    """Recalibrate a graph with what the command line names; return the result and the card."""
    from graphtemper import SourceCard
    from graphtemper import recalibrate as job
    from graphtemper.cli.arguments import choose_nodes, resolve
    from graphtemper.graph.graph import Graph
    from graphtemper.recalibration.labels.given import read_earlier_file, read_label_file
    from graphtemper.scale import StoredGraph, connected
    from graphtemper.scale.logit_tables import read_logits

    if deployed.predict is None and deployed.logits is None:
        raise errors.missing("give the model with --predict, its logits with --logits, or both.")
    source, options = SourceCard.load(deployed.card), {"seed": deployed.seed, **options}
    model = None if deployed.predict is None else resolve(deployed.predict)
    known: Any = None if deployed.logits is None else str(deployed.logits)
    if stored.features is not None:
        whole = StoredGraph.open(stored.features, graph, stored.directed)
        # The library refuses what it cannot do with a graph in files.
        options |= {"nodes": deployed.nodes or deployed.split, "sample": stored.sample}
        options |= {"labels": labels, "earlier": earlier, "logits": known if model else None}
        quiet = deployed.as_json
        with connected(stored.scheduler) as client, progress(quiet, one_bar=True) as show:
            options |= {"client": client, "progress": show}
            return job(model or known, whole, source, **options), source
    target = Graph.load(graph)
    size = target.num_nodes, source.num_classes
    nodes = choose_nodes(target, deployed.nodes, deployed.split)
    known = None if known is None else read_logits(known, *size)
    if labels is not None:
        options["labels"] = read_label_file(labels, *size)
    if earlier is not None:
        options["earlier"] = read_earlier_file(earlier, *size)
    if model is not None:
        options["logits"] = known
    with working("measuring", deployed.as_json):
        return job(known if model is None else model, target, source, nodes, **options), source
