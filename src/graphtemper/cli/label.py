"""`graphtemper label`: a labelling session, one batch per call."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphtemper.cli import result_file
from graphtemper.cli.deploy import check_written, run
from graphtemper.cli.ends import CLOSED, end
from graphtemper.cli.options import Deployed, Earlier, Target
from graphtemper.cli.output import print_json, print_line, print_sentence

if TYPE_CHECKING:
    from graphtemper import LabelSession, Recalibration


def label(
    graph: Target,
    deployed: Deployed,
    *,
    session: Path,
    goal: float | None = None,
    at_least: float | None = None,
    metric: str | None = None,
    positive: str | None = None,
    threshold: float | None = None,
    batch: int = 10,
    labels: Path | None = None,
    out: Path = Path("batch.csv"),
    result: Path | None = None,
    earlier: Earlier = None,
) -> None:
    """Label a target in batches until a metric is known well enough.

    Each call reads the batch that was filled in, and writes the next one. The exit code is 3 while
    more labels are needed and 0 when the goal is reached. Nothing is lost between two calls: labels
    are in the session before the next batch is written.

    Parameters
    ----------
    session
        File of the session, which is begun if it does not exist. It holds node numbers and labels.
    goal
        Stop when the 90 % interval reaches at most this far to each side, such as 0.05. A new
        session needs this or --at-least.
    at_least
        Stop when the metric is decided to be above or below this gate, such as 0.8.
    metric
        accuracy (the default), precision or recall; for precision the batch has flagged nodes
        only.
    positive
        The class that precision or recall is about, by name or number.
    threshold
        The probability of that class from which a node is flagged. Default: those predicted as it.
    batch
        Number of nodes of the next batch.
    labels
        Table to read, with the columns node and class, next to that of --out, which is read if it
        exists. A class may be empty (not labelled yet) or a question mark (it cannot be labelled).
    out
        Table to write for the next batch: node, its prediction, the probability of that, and an
        empty class to fill in.
    result
        When the goal is reached, also write the recalibrated probabilities to this .npz, .parquet
        or .csv file.
    """
    from graphtemper import LabelSession
    from graphtemper._core.files import atomic_write
    from graphtemper.recalibration.labels.given import read_label_file

    if result is not None:
        result_file.check_path(result)
    outputs = {"--out": out, "--session": session, "--result": result}
    check_written(outputs, graph, deployed, earlier)
    found, card = run(graph, deployed, earlier=earlier)
    asked: dict[str, Any] = {"goal": goal, "at_least": at_least, "metric": metric}
    asked |= {"positive": positive, "threshold": threshold}
    asked = {name: value for name, value in asked.items() if value is not None}
    if session.exists():
        state = LabelSession.load(session, found)
        state.check_asked(asked)
    else:
        state = LabelSession(found, seed=deployed.seed, **asked)
    assert found.graph is not None
    for table in dict.fromkeys([*filter(None, [labels]), *filter(Path.exists, [out])]):
        known = state.labels
        given = read_label_file(table, found.graph.num_nodes, card.num_classes)
        # A call that was killed may have added them.
        state.add({node: k for node, k in given.items() if known.get(node, "new") != k})
    state.save(session)
    done = state.done
    if done and result is not None:
        result_file.write(result, state.result)
    if not done:
        words = found.graph.class_names
        rows = csv.writer(text := io.StringIO(), lineterminator="\n")
        rows.writerow(["node", "predicted", "probability", "class"])
        place = {int(node): row for row, node in enumerate(found.nodes)}
        for node in state.next(batch).tolist():
            predicted = int(found.predictions[place[node]])
            word = f"{predicted}" if words is None else f"{predicted} {words[predicted]}"
            rows.writerow([node, word, f"{found.probabilities[place[node]].max():.3f}", ""])
        with atomic_write(out) as stream:
            stream.write(text.getvalue().encode())

    def show() -> None:
        if deployed.as_json:
            names = ("done", "num_labels", "waiting", "more", "decision")
            facts = {name: getattr(state, name) for name in names}
            facts[state.metric] = asdict(state.estimate)
            print_json(facts | {"session": str(session), "out": None if done else str(out)})
            return
        begun = state.labels or done
        print_sentence(state.summary() if begun else _begun(state, found))
        if not done:
            print_line(f"Fill in the column class of {out}, then run the same command again.")

    end(0 if done else CLOSED, show)


def _begun(state: LabelSession, found: Recalibration) -> str:
    """Return where a session stands before its first label: where the card alone does."""
    text = f"0 labels: about {state.more} are expected"
    if state.metric == "accuracy":
        text += f"; without them the accuracy is {found.summary_rows()['Accuracy']}"
    return f"{text}."
