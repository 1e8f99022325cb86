"""`graphtemper card build`, `learn` and `show`."""

import json
import warnings

import numpy as np
import pytest
from tests.helpers import check_refusal

from graphtemper import Graph
from graphtemper.errors import GraphTemperWarning


def test_card_build_and_show(call, deployed):
    folder, built = deployed
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    assert "project.code:predict: 2 classes, 6 feature columns" in built.stdout
    assert "left out: offset, shuffle" in built.stdout
    assert built.stdout.endswith("Card: model.card.json\n")
    summary = call("card", "show", "model.card.json", cwd=folder)
    assert built.stdout.startswith(summary.stdout)
    facts = json.loads(call("card", "show", "model.card.json", "--json", cwd=folder).stdout)
    assert facts["num_nodes"] == 120
    assert facts["excluded"] == ["offset", "shuffle"]


def test_a_card_learns_from_another_graph(call, deployed):
    folder, _ = deployed
    arguments = ("card", "learn", "model.card.json", "target.npz", "--nodes", "nodes.txt")
    arguments = (*arguments, "--predict", "project.code:predict", "--name", "May")
    learned = call(*arguments, "--when", "2026-05", "--out", "wiser.card.json", cwd=folder)
    assert learned.returncode == 0, learned.stderr
    assert learned.stdout.endswith("Card: wiser.card.json\n")
    facts = json.loads(call("card", "show", "wiser.card.json", "--json", cwd=folder).stdout)
    assert facts["environments"] == ["May"]
    assert facts["passes"] > 100
    same = call(*arguments, "--out", "model.card.json", cwd=folder)
    check_refusal(same)
    assert "model.card.json is a file that is read" in same.stderr


def test_a_callable_that_is_not_the_model_gets_no_card(call, deployed):
    """Refused after one pass, before the shifts are measured."""
    folder, _ = deployed
    (folder / "wrong.py").write_text(
        "from graphtemper import models\nmodel = models.load('model.npz')\n"
        "def swapped(graph):\n    return -model(graph)\n"
    )
    arguments = ("card", "build", "source.npz", "--split", "val:0", "--out", "wrong.card.json")
    result = call(*arguments, "--predict", "wrong:swapped", cwd=folder)
    check_refusal(result)
    assert "not more often than a guess among its 2 classes" in result.stderr
    assert not (folder / "wrong.card.json").exists()


def test_by_default_training_nodes_are_left_out(call, deployed):
    folder, _ = deployed
    graph = Graph.load(folder / "source.npz")
    graph.replace(train_masks=np.arange(400)[None] < 200).save(folder / "split.npz")
    model = ("--predict", "model.npz", "--json", "--out", "default.card.json")
    built = call("card", "build", "split.npz", *model, cwd=folder)
    assert (json.loads(built.stdout)["num_nodes"], built.stderr) == (200, "")
    with warnings.catch_warnings():
        warnings.simplefilter("default", GraphTemperWarning)
        told = call("card", "build", "source.npz", *model, cwd=folder)
    assert json.loads(told.stdout)["num_nodes"] == 400
    assert "pass the others (nodes=, --nodes)" in told.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("source.npz",), "--predict"),
        (("source.npz", "--predict", "model.npz", "--split", "val:7"), "no val:7"),
        (("source.npz", "--predict", "model.npz", "--exclude", "magic"), "unknown family 'magic'"),
        (("source.npz", "--predict", "model.npz", "--seed", "-1"), "seed"),
        (("source.npz", "--predict", "project.code:narrow"), "must have shape (400, K)"),
        (("source.npz", "--predict", "project.code:fails"), "project.code:fails failed: KeyError"),
    ],
)
def test_bad_cards_are_one_sentence(call, deployed, arguments, message):
    folder, _ = deployed
    result = call("card", "build", *arguments, "--out", "never.card.json", cwd=folder)
    check_refusal(result)
    assert message in result.stderr
    assert not list(folder.glob("never*"))
