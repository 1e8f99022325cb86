"""`graphtemper label`: batches out, labels in, and nothing lost in between."""

import csv
import json
import re

import numpy as np
import pytest
from tests.helpers import check_refusal

from graphtemper import Graph, LabelSession

MODEL = ("--predict", "model.npz", "--card", "model.card.json")


@pytest.fixture
def loop(call, deployed, tmp_path):
    """Call the command with files of its own, and fill in its batch as an expert would."""
    folder, _ = deployed
    labels = Graph.load(folder / "target.npz").labels
    session, out = tmp_path / "june.session.json", tmp_path / "batch.csv"

    def label(*arguments):
        files = ("--session", session, "--out", out)
        return call("label", "target.npz", *MODEL, *files, *arguments, cwd=folder)

    def fill(answer=lambda node: labels[node]):
        rows = list(csv.DictReader(out.open()))
        for row in rows:
            row["class"] = answer(int(row["node"]))
        with out.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        return [int(row["node"]) for row in rows]

    label.fill, label.session, label.out, label.truth = fill, session, out, labels
    return label


def test_a_loop_ends_with_code_0_and_an_interval(loop, tmp_path):
    first = loop("--goal", "0.1", "--batch", "25")
    assert first.returncode == 3, first.stderr
    words = " ".join(first.stdout.split())
    assert re.match(r"0 labels: about \d+ are expected; without them the accuracy is \d", words)
    head = loop.out.read_text().splitlines()[0]
    assert head == "node,predicted,probability,class"
    seen = []
    for _ in range(20):
        seen += loop.fill()
        again = loop("--batch", "25", "--json", "--result", tmp_path / "r.npz")
        facts = json.loads(again.stdout)
        assert facts["num_labels"] == len(set(seen)) == len(seen)
        assert again.returncode == (0 if facts["done"] else 3)
        if facts["done"]:
            break
    assert facts["accuracy"]["high"] - facts["accuracy"]["low"] <= 0.2
    assert np.load(tmp_path / "r.npz")["probabilities"].shape[0] == 400
    finished = loop()
    assert finished.returncode == 0
    assert f"{len(seen)} labels: accuracy" in finished.stdout


def test_nothing_is_lost_between_two_calls(loop):
    """Killed after the session was written and before the next batch was."""
    loop("--at-least", "0.6")
    asked = loop.fill()
    batch = loop.out.read_text()
    loop()
    loop.out.write_text(batch)
    assert loop().returncode == 3
    assert LabelSession.load(loop.session).num_labels == len(asked)
    loop.out.unlink()
    loop()
    assert not {int(row["node"]) for row in csv.DictReader(loop.out.open())} & set(asked)


def test_open_and_impossible_nodes(loop):
    loop("--goal", "0.1")
    asked = loop.fill(lambda node: "?" if node % 2 else "")
    loop()
    known = LabelSession.load(loop.session).labels
    assert known == {node: None for node in asked if node % 2}
    following = [int(row["node"]) for row in csv.DictReader(loop.out.open())]
    assert following[: len(asked) - len(known)] == [node for node in asked if node % 2 == 0]


def test_bad_batches_change_nothing(loop, call, deployed, tmp_path):
    folder, _ = deployed
    loop("--goal", "0.1")
    loop.fill()
    loop()
    before = loop.session.read_bytes()
    first = next(iter(LabelSession.load(loop.session).labels))
    wrong = 1 - int(loop.truth[first])
    for text in (
        f"node,class\n{first},{wrong}\n",
        "node,class\n9999,0\n",
        "node,class\n3,7\n",
        "x\n",
    ):
        (tmp_path / "bad.csv").write_text(text)
        check_refusal(loop("--labels", tmp_path / "bad.csv"))
        assert loop.session.read_bytes() == before
    check_refusal(loop("--goal", "0.2"))
    check_refusal(loop("--labels", tmp_path / "nowhere.csv"))
    arguments = ("--session", loop.session, "--out", tmp_path / "other.csv")
    chosen = ("--nodes", "nodes.txt")
    check_refusal(call("label", "target.npz", *MODEL, *arguments, *chosen, cwd=folder))
    check_refusal(call("label", "source.npz", *MODEL, *arguments, cwd=folder))
    assert loop.session.read_bytes() == before


def test_a_session_about_precision(loop):
    first = loop("--goal", "0.15", "--metric", "precision", "--positive", "1", "--json")
    assert first.returncode == 3, first.stderr
    assert {row["predicted"][0] for row in csv.DictReader(loop.out.open())} == {"1"}
    assert json.loads(first.stdout)["precision"]["high"] == 1.0
    loop.fill()
    assert "10 labels: precision" in loop().stdout
    assert loop("--metric", "precision", "--positive", "1").returncode == 3
    before = loop.session.read_bytes()
    for other in (("--at-least", "0.7"), ("--metric", "accuracy"), ("--positive", "0")):
        refused = loop(*other)
        check_refusal(refused)
        assert f"the session was begun with {other[0][2:].replace('-', '_')}=" in refused.stderr
    assert loop.session.read_bytes() == before


def test_a_new_session_needs_a_goal(loop):
    for goals in ((), ("--goal", "0.1", "--at-least", "0.7")):
        refused = loop(*goals)
        check_refusal(refused)
        assert "give one goal" in refused.stderr
    unnamed = loop("--goal", "0.1", "--metric", "recall")
    check_refusal(unnamed)
    assert "positive" in unnamed.stderr
    assert not loop.session.exists()
