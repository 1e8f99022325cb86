"""`graphtemper card`, `recalibrate`, `diagnose`, `suggest-labels`: from training to deployment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from graphtemper.cli import result_file
from graphtemper.cli.diagnosis import diagnosis_rows
from graphtemper.cli.output import (
    STYLES,
    Json,
    print_json,
    print_reasons,
    print_rows,
    progress,
    say,
    tell,
    working,
)
from graphtemper.errors import InputError

if TYPE_CHECKING:
    from graphtemper.card.card import SourceCard
    from graphtemper.recalibration.job import Recalibration

Families = Annotated[list[str], Parameter(negative="")]
Flag = Annotated[bool, Parameter(negative="")]
Labels = Annotated[
    Path | None,
    Parameter(
        help="A few labels of the target: CSV with the columns node,class, or node,class,weight as "
        "`suggest-labels` writes it."
    ),
]
Target = Annotated[
    str,
    Parameter(
        help="The target: a name from `data list`, or the path of an .npz file. Its labels are "
        "not read."
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Deployed:
    """A model with its card, and where to look at it."""

    card: Annotated[Path, Parameter(help="The model's source card.")]
    predict: Annotated[
        str | None,
        Parameter(
            help="The model: package.module:callable (the predictor itself), or a saved model "
            "(.npz)."
        ),
    ] = None
    logits: Annotated[
        Path | None,
        Parameter(
            help="Its logits instead: .npz with the key `logits`, or .npy. Fewer signals, wider "
            "interval."
        ),
    ] = None
    nodes: Annotated[
        Path | None, Parameter(help="File with one node index a line; all nodes unless given.")
    ] = None
    split: Annotated[
        str | None, Parameter(help="A split stored in the graph instead, as in test:0.")
    ] = None
    seed: Annotated[int, Parameter(help="Seed of the perturbed passes.")] = 0
    as_json: Json = False


# Temperatures closer than this to the source's are the same to a reader.
_SAME = 0.02

card = App(name="card", help="Build a source card from a labelled graph, or read one.")


@card.command(name="build")
def build_card(
    graph: str,
    *,
    predict: str,
    out: Path = Path("model.card.json"),
    nodes: Path | None = None,
    split: str | None = None,
    seed: int = 0,
    exclude: Families | None = None,
    resume: Path | None = None,
    as_json: Json = False,
) -> None:
    """Watch a frozen model on its labelled source graph under known shifts.

    Parameters
    ----------
    graph
        The labelled source: a name from `data list`, or the path of an .npz file.
    predict
        The model: package.module:callable (the predictor itself, graph -> logits; not a function
        that makes one), or the path of a saved model (.npz).
    out
        The card.
    nodes
        File with one node index a line: labelled nodes that were not used for training.
    split
        A split stored in the graph instead, as in val:0.
    seed
        Seed of the shifts.
    exclude
        A family of shifts to leave out; may be repeated.
    resume
        File that keeps finished environments; OUT.part unless given, and then removed at the end.
    as_json
        Print JSON for machines.
    """
    from graphtemper import SourceCard
    from graphtemper.cli.arguments import choose_nodes, load_graph, resolve

    source = load_graph(graph)
    chosen = choose_nodes(source, nodes, split, labelled=True)
    predictor = resolve(predict)
    journal = out.with_name(f"{out.name}.part") if resume is None else resume
    try:
        with progress(as_json) as show:
            made = SourceCard.build(
                predictor,
                source,
                chosen,
                seed=seed,
                exclude=tuple(exclude or ()),
                resume=journal,
                progress=lambda done, total: show("environments", done, total),
            )
        made.save(out)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; finished environments are kept in {journal}: run the same command again "
            "to go on."
        ) from None
    if resume is None:
        journal.unlink(missing_ok=True)
    if as_json:
        print_json(_card_facts(made) | {"card": str(out)})
        return
    tell(made.summary())
    say(f"Card: {out}")


@card.command(name="show")
def show_card(path: Path, *, as_json: Json = False) -> None:
    """Say what is in a source card.

    Parameters
    ----------
    path
        The card.
    as_json
        Print JSON for machines.
    """
    from graphtemper import SourceCard

    found = SourceCard.load(path)
    if as_json:
        print_json(_card_facts(found))
    else:
        tell(found.summary())


def recalibrate(
    graph: Target,
    deployed: Deployed,
    *,
    labels: Labels = None,
    out: Path = Path("recalibrated.npz"),
    class_shares: Literal["report", "estimate"] = "report",
    per_node: Flag = False,
    report: Path | None = None,
) -> None:
    """Make a model's probabilities on an unlabelled graph honest, and say how far to trust them.

    Parameters
    ----------
    out
        Result: .npz with probabilities, nodes, temperature, accuracy and verdict; or .parquet.
    class_shares
        estimate also corrects predictions for class shares that have moved, where the evidence
        supports it; predictions may change. report only says so.
    per_node
        One temperature per node, for shifts that hit a part of the graph.
    report
        An .html page that explains the answer to people; needs the extra [report].
    """
    result_file.check_path(out)
    if report is not None:
        result_file.check_report(report)
    result, source = _run(graph, deployed, labels, class_shares=class_shares, per_node=per_node)
    result_file.write(out, result)
    page = {}
    if report is not None:
        result.report(report)
        page = {"report": str(report)}
    if deployed.as_json:
        print_json(result.to_dict() | {"out": str(out)} | page)
        return
    _print_answer(result, source.probe.temperature)
    say(f"Written: {out} ({len(result.probabilities)} nodes)")
    if report is not None:
        say(f"Report: {report}")


def diagnose(graph: Target, deployed: Deployed, *, labels: Labels = None) -> None:
    """Say what happened to a model on an unlabelled graph: how far, in which direction, and why."""
    result, source = _run(graph, deployed, labels)
    from graphtemper.recalibration.diagnosis import diagnosis

    facts = diagnosis(result, source)
    if deployed.as_json:
        print_json(result.to_dict() | facts)
        return
    _print_answer(result, source.probe.temperature)
    print_rows(diagnosis_rows(result, facts))


def suggest_labels(
    graph: Target, deployed: Deployed, *, count: int = 50, out: Path = Path("labels.csv")
) -> None:
    """Pick nodes to label, spread over confidence, and write the table to fill in.

    Parameters
    ----------
    count
        How many nodes.
    out
        CSV with the columns node,class,weight; the classes are empty. A file that is there already
        is kept.
    """
    from graphtemper import suggest_labels as pick
    from graphtemper.recalibration.label_files import write_plan

    if out.exists():
        raise InputError(f"{out} is already there and may hold labels; choose another --out.")
    result, _ = _run(graph, deployed)
    plan = pick(result, count, deployed.seed)
    write_plan(out, plan)
    if deployed.as_json:
        rows = {"nodes": plan.nodes.tolist(), "weights": plan.weights.tolist()}
        print_json({"out": str(out), **rows})
        return
    say(f"Written: {out} ({count} nodes)")
    tell(f"Fill in the column class, then run recalibrate with --labels {out}.")


def _run(
    graph: str, deployed: Deployed, labels: Path | None = None, **options: Any
) -> tuple[Recalibration, SourceCard]:
    from graphtemper import SourceCard
    from graphtemper import recalibrate as job
    from graphtemper.cli.arguments import choose_nodes, load_graph, read_logits, resolve
    from graphtemper.recalibration.label_files import read_label_file

    if (deployed.predict is None) == (deployed.logits is None):
        raise InputError("name the model with --predict or its logits with --logits, one of them.")
    source = SourceCard.load(deployed.card)
    target = load_graph(graph)
    chosen = choose_nodes(target, deployed.nodes, deployed.split)
    predictor: Any = None
    if deployed.predict is not None:
        predictor = resolve(deployed.predict)
    elif deployed.logits is not None:
        predictor = read_logits(deployed.logits, target.num_nodes)
    given, plan = None, None
    if labels is not None:
        given, plan = read_label_file(labels, target.num_nodes, source.num_classes)
    with working("measuring", deployed.as_json):
        result = job(
            predictor,
            target,
            source,
            chosen,
            seed=deployed.seed,
            labels=given,
            plan=plan,
            **options,
        )
    return result, source


def _print_answer(result: Recalibration, source_temperature: float) -> None:
    accuracy, (before, after) = result.accuracy, result.mean_confidence
    tell(f"Verdict: {result.verdict}", STYLES[result.verdict])
    rows = {
        "Accuracy": f"{accuracy.value:.1%} (90 % interval {accuracy.low:.1%} to "
        f"{accuracy.high:.1%})",
        "Confidence": f"{before:.1%} at the source temperature, {after:.1%} now",
        "Temperature": _temperature(result, source_temperature),
    }
    print_rows(rows)
    print_reasons(result.reasons)


def _temperature(result: Recalibration, source: float) -> str:
    import numpy as np

    value = result.temperature
    if result.node_temperatures is not None and result.verdict != "abstain":
        low, high = np.quantile(result.node_temperatures, (0.05, 0.95))
        return f"one a node, {low:.3g} to {high:.3g} for nine in ten; {value:.3g} for all of them"
    if result.verdict == "abstain":
        return f"{value:.3g}, the source's own: nothing is changed"
    if abs(value / source - 1.0) < _SAME:
        return f"{value:.3g}, as at the source: confidence stays as it is"
    word = "lowered" if value > source else "raised"
    return f"{value:.3g} (source {source:.3g}): confidence is {word}"


def _card_facts(card: SourceCard) -> dict[str, Any]:
    return {
        "predictor": card.predictor,
        "num_classes": card.num_classes,
        "num_features": card.num_features,
        "num_nodes": card.num_nodes,
        "accuracy": card.reference.accuracy,
        "temperature": card.probe.temperature,
        "environments": len(card.environments),
        "families": sorted(frozenset().union(*(item.families for item in card.environments))),
        "excluded": list(card.excluded),
    }
