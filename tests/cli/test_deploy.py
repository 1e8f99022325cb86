"""`graphtemper recalibrate` and `diagnose`."""

import json
import shlex

import numpy as np
import pytest
from tests.helpers import check_refusal, schema_errors

from graphtemper import Graph

GOOD = ("--predict", "model.npz", "--card", "model.card.json", "--out", "never.npz")


def test_recalibrate_writes_and_explains(call, deployed):
    folder, _ = deployed
    (folder / "out[").mkdir(exist_ok=True)
    result = call(
        *("recalibrate", "target.npz", "--predict", "model.npz", "--card", "model.card.json"),
        *("--nodes", "nodes.txt", "--out", "out[/b].npz"),
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] in ("Verdict: trust", "Verdict: caution", "Verdict: abstain")
    commands = [line for line in lines if line.startswith("  graphtemper ")]
    assert max(len(line) for line in lines if line not in commands) <= 80
    assert "\x1b" not in result.stdout
    for word in ("Accuracy", "90 % interval", "Confidence", "Temperature", "Written: out[/b].npz"):
        assert word in result.stdout
    assert ("Next: one of these" in lines) == bool(commands) == (lines[0] != "Verdict: trust")
    assert "recalibrate(" not in result.stdout
    with np.load(folder / "out[/b].npz") as arrays:
        assert arrays["nodes"].tolist() == list(range(320, 400))
        assert np.allclose(arrays["probabilities"].sum(axis=1), 1.0)
        assert str(arrays["verdict"]) == lines[0].removeprefix("Verdict: ")
        assert arrays["temperature"] > 0
        value, low, high = arrays["accuracy"]
        assert low <= value <= high


def test_the_commands_to_type_next_can_be_typed(call, deployed):
    folder, _ = deployed
    target = Graph.load(folder / "target.npz")
    moved = target.replace(features=np.asarray(target.features) + 1.0, labels=None)
    moved.save(folder / "may.npz")
    files = ("may.npz", "--predict", "model.npz", "--card", "model.card.json")
    result = call("recalibrate", *files, "--nodes", "nodes.txt", cwd=folder)
    assert result.stdout.startswith("Verdict: caution"), result.stderr
    steps = [line for line in result.stdout.splitlines() if line.startswith("  graphtemper ")]
    label, learn = (shlex.split(step)[1:] for step in steps)
    begun = call(*label, cwd=folder)
    assert begun.returncode == 3, begun.stderr
    assert "0 labels" in begun.stdout
    assert (folder / "may.session.json").is_file()
    learn[learn.index("EARLIER.npz")] = "target.npz"
    assert call(*learn, cwd=folder).returncode == 0


@pytest.mark.parametrize("option", ["--out", "--report"])
def test_no_folder_is_made_for_a_mistyped_path(call, deployed, option):
    folder, _ = deployed
    if option == "--report":
        pytest.importorskip("vl_convert")
    files = ("target.npz", "--logits", "logits.npz", "--card", "model.card.json")
    end = {"--out": "x.npz", "--report": "x.html"}[option]
    result = call("recalibrate", *files, option, f"mistyped/{end}", cwd=folder)
    check_refusal(result)
    assert "there is no folder mistyped; create it, or choose another" in result.stderr
    assert not (folder / "mistyped").exists()


def test_recalibrate_from_code_and_from_logits(call, deployed):
    folder, _ = deployed
    answers = {}
    for source in (("--predict", "project.code:predict"), ("--logits", "logits.npz")):
        result = call(
            *("recalibrate", "target.npz", *source, "--card", "model.card.json", "--json"),
            *("--out", "r.npz"),
            cwd=folder,
        )
        assert result.returncode == 0, result.stderr
        answers[source[0]] = json.loads(result.stdout)
    assert answers["--predict"]["num_nodes"] == answers["--logits"]["num_nodes"] == 400
    assert "noise agreement" not in answers["--logits"]["signals"]
    assert answers["--predict"]["out"] == "r.npz"


def test_diagnose(call, deployed):
    folder, _ = deployed
    arguments = ("diagnose", "target.npz", "--predict", "model.npz", "--card", "model.card.json")
    before = sorted(folder.iterdir())
    text = call(*arguments, cwd=folder)
    assert text.returncode == 0, text.stderr
    assert max(len(line) for line in text.stdout.splitlines()) <= 80
    for word in ("Slope", "theory", "Direction", "Severity", "Looks like", "Homophily", "SNR"):
        assert word in text.stdout
    facts = json.loads(call(*arguments, "--json", cwd=folder).stdout)
    assert schema_errors(facts) == []
    assert facts["target"]["homophily"] < facts["source"]["homophily"]
    assert 0 < facts["theory"]["slope"] < 1.5
    assert facts["nearest"][0]["distance"] <= facts["nearest"][1]["distance"]
    assert sorted(folder.iterdir()) == before


def test_labels_and_earlier_labels_are_used(call, deployed, tmp_path):
    folder, _ = deployed
    model = ("--predict", "model.npz", "--card", "model.card.json", "--nodes", "nodes.txt")
    truth = Graph.load(folder / "target.npz").labels
    (tmp_path / "labels.csv").write_text(
        "node,class\n" + "".join(f"{k},{truth[k]}\n" for k in range(330, 360)) + "361,?\n362,\n"
    )
    (tmp_path / "old.csv").write_text("node,class,period\n350,1,2026-05\n350,0,2026-04\n")
    answers = ("recalibrate", "target.npz", *model, "--out", tmp_path / "r.npz", "--json")
    labels = ("--labels", tmp_path / "labels.csv")
    plain = json.loads(call(*answers, cwd=folder).stdout)
    labelled = json.loads(call(*answers, *labels, cwd=folder).stdout)
    assert (plain["num_labels"], labelled["num_labels"]) == (0, 30)
    widths = [x["accuracy"]["high"] - x["accuracy"]["low"] for x in (plain, labelled)]
    assert widths[1] < widths[0]
    text = call(*answers[:-1], *labels, "--earlier", tmp_path / "old.csv", cwd=folder)
    assert "of 30 labelled nodes" in " ".join(text.stdout.split())
    assert "1 of 80 nodes have an earlier label" in " ".join(text.stdout.split())
    assert max(len(line) for line in text.stdout.split("Written")[0].splitlines()) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("target.npz", *GOOD[2:]), "--predict, its logits with --logits, or both"),
        (("target.npz", *GOOD, "--budget", "3"), "a budget of 3 passes is too small"),
        (("target.npz", *GOOD, "--budget", "few"), "budget must be a number of forward passes"),
        (("target.npz", "--predict", "missing:x", *GOOD[2:]), "there is no module 'missing'"),
        (("target.npz", "--predict", "project.code:number", *GOOD[2:]), "cannot be called"),
        (("target.npz", "--predict", "project.broken:x", *GOOD[2:]), "RuntimeError: boom"),
        (("target.npz", "--predict", "project.code:fails", *GOOD[2:]), "project.code:fails failed"),
        (("target.npz", "--predict", "other.npz", *GOOD[2:]), "build a card for this one"),
        (("target.npz", *GOOD[:2], "--card", "truncated.card.json"), "not JSON"),
        (("target.npz", *GOOD[:2], "--card", "nowhere.json"), "nowhere.json"),
        (("target.npz", "--logits", "short.npy", *GOOD[2:]), "short.npy: the logits must have"),
        (("target.npz", *GOOD, "--nodes", "junk.txt"), "junk.txt, line 2: 'abc' is not a node"),
        (("target.npz", *GOOD, "--split", "test:0"), "0 test splits"),
        (("target.npz", *GOOD[:4], "--out", "never.xlsx"), ".npz, .parquet or .csv"),
        (("nowhere.npz", *GOOD), "nowhere.npz does not exist"),
    ],
)
def test_bad_deployments_are_one_sentence(call, deployed, arguments, message):
    folder, _ = deployed
    result = call("recalibrate", *arguments, cwd=folder)
    check_refusal(result)
    assert message in result.stderr
    assert not list(folder.glob("never*"))


def test_a_result_as_csv_holds_the_numbers_of_the_npz(call, deployed, tmp_path):
    folder, _ = deployed
    arguments = ("recalibrate", "target.npz", *GOOD[:4], "--nodes", "nodes.txt", "--per-node")
    for name in ("result.csv", "result.npz"):
        assert call(*arguments, "--out", tmp_path / name, cwd=folder).returncode == 0
    rows = np.genfromtxt(tmp_path / "result.csv", delimiter=",", names=True)
    with np.load(tmp_path / "result.npz") as arrays:
        assert np.array_equal(rows["node"], arrays["nodes"])
        assert np.array_equal(rows["probability_1"], arrays["probabilities"][:, 1])
        assert np.array_equal(rows["temperature"], arrays["node_temperatures"])


def test_parquet_needs_pyarrow(call, deployed):
    folder, _ = deployed
    arguments = ("recalibrate", "target.npz", *GOOD[:4], "--out", "result.parquet")
    result = call(*arguments, cwd=folder)
    try:
        from pyarrow import parquet
    except ImportError:
        check_refusal(result)
        assert "pip install pyarrow" in result.stderr
    else:
        table = parquet.read_table(folder / "result.parquet")
        assert table.column_names == ["node", "probability_0", "probability_1"]
        assert table.num_rows == 400
