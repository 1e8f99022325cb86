"""`graphtemper card`: build a source card, teach it another environment, or show it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from graphtemper import errors
from graphtemper.cli import result_file
from graphtemper.cli.options import (
    CardPath,
    GraphPath,
    Json,
    NodesFile,
    Predict,
    Repeated,
    Split,
    read_budget,
)
from graphtemper.cli.output import print_json, print_line, print_sentence, progress, working

if TYPE_CHECKING:
    from graphtemper.card.card import SourceCard
    from graphtemper.graph.graph import Graph, Nodes
    from graphtemper.models.predictor import Predictor

card = App(name="card", help="Build a source card from labelled graphs, or show one.")


@card.command(name="build")
def build_card(
    graph: GraphPath,
    *,
    predict: Predict,
    out: Path = Path("model.card.json"),
    nodes: Path | None = None,
    split: Split = None,
    seed: int = 0,
    exclude: Repeated | None = None,
    budget: str | None = None,
    privacy: float | None = None,
    as_json: Json = False,
) -> None:
    """Measure a frozen model on its labelled source graph under known shifts.

    Parameters
    ----------
    out
        The card.
    nodes
        File with one node index per line: labelled nodes that were not used for training.
        Default: those outside the graph's training mask if it has one.
    seed
        Seed of the shifts.
    exclude
        A family of shifts to leave out; may be repeated.
    budget
        The most forward passes of the model to take, or thorough. Default: 500, and thorough for
        models with fast passes.
    privacy
        Make the card differentially private in each label, with this epsilon, such as 3.
    """
    from graphtemper import SourceCard
    from graphtemper.cli.arguments import choose_nodes, resolve
    from graphtemper.graph.graph import Graph

    result_file.check_outputs({"--out": out}, (graph, predict, nodes))
    source = Graph.load(graph)
    chosen = choose_nodes(source, nodes, split, labelled=True)
    predictor = resolve(predict)
    _check_model(predictor, source, chosen, predict)
    with progress(as_json) as show:
        built = SourceCard.build(
            predictor,
            source,
            chosen,
            seed=seed,
            exclude=tuple(exclude or ()),
            progress=lambda done, total: show("shifts", done, total),
            budget=read_budget(budget),
            privacy=privacy,
        )
    built.save(out)
    _print(built, as_json, out)


@card.command(name="learn")
def learn_environment(
    card: CardPath,
    graph: GraphPath,
    *,
    predict: Predict,
    out: Path = Path("learned.card.json"),
    nodes: NodesFile = None,
    split: Split = None,
    name: str | None = None,
    when: str | None = None,
    as_json: Json = False,
) -> None:
    """Let a card learn from another labelled graph: a later month, another country or release.

    Parameters
    ----------
    out
        The card that has learned; another file than CARD.
    name
        What people call the environment. Default: the name of the graph.
    when
        Its place in time, as a text that sorts by time, such as 2026-05.
    """
    from graphtemper import SourceCard
    from graphtemper.cli.arguments import choose_nodes, resolve
    from graphtemper.graph.graph import Graph

    result_file.check_outputs({"--out": out}, (card, graph, predict, nodes))
    known, labelled = SourceCard.load(card), Graph.load(graph)
    chosen = choose_nodes(labelled, nodes, split, labelled=True)
    with working("measuring", as_json):
        wiser = known.learn(resolve(predict), labelled, chosen, name=name, when=when)
    wiser.save(out)
    _print(wiser, as_json, out)


def _check_model(predictor: Predictor, graph: Graph, nodes: Nodes, spec: str) -> None:
    """Raise an error if a model is not better than a guess: it is probably not the trained one."""
    from graphtemper.graph.graph import select_labelled
    from graphtemper.models.predictor import predict

    chosen, labels = select_labelled(graph, nodes)
    logits = predict(predictor, graph)
    accuracy = float((logits[chosen].argmax(axis=1) == labels).mean())
    if accuracy <= 1.0 / logits.shape[1]:
        raise errors.predictor(
            f"{spec} is right on {accuracy:.1%} of the {chosen.size} labelled nodes, not more "
            f"often than a guess among its {logits.shape[1]} classes; name the trained model, "
            "whose columns are the classes 0, 1, ... of the labels."
        )


@card.command(name="show")
def show_card(path: Path, *, as_json: Json = False) -> None:
    """Summarise a source card.

    Parameters
    ----------
    path
        The card.
    """
    from graphtemper import SourceCard

    _print(SourceCard.load(path), as_json)


def _print(card: SourceCard, as_json: bool, out: Path | None = None) -> None:
    if as_json:
        print_json(_facts(card) | ({} if out is None else {"card": str(out)}))
        return
    print_sentence(card.summary())
    if out is not None:
        print_line(f"Card: {out}")


def _facts(card: SourceCard) -> dict[str, Any]:
    names = ("predictor", "num_classes", "num_features", "num_nodes", "passes")
    return {name: getattr(card, name) for name in names} | {
        "accuracy": card.reference.accuracy,
        "temperature": card.probe.temperature,
        "atlas": len(card.atlas),
        "families": list(card.families),
        "excluded": list(card.excluded),
        "environments": [item.name for item in card.environments],
    }
