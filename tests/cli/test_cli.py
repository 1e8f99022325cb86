import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from graphtemper import Graph, csbm, shifts
from graphtemper.cli import main
from graphtemper.models import SIGN


def environment(**extra):
    # One thread each, so that several processes do not wait for one another.
    quiet = {"NO_COLOR": "1", "COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"}
    return os.environ | quiet | extra


def run(*arguments, cwd=None, **extra):
    return subprocess.run(
        [sys.executable, "-m", "graphtemper", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(**extra),
    )


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command inside this process, which is quicker and otherwise the same."""

    def inner(*arguments, cwd):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setattr(sys, "argv", ["graphtemper", *map(str, arguments)])
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "80")
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        shown = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=shown.out, stderr=shown.err)

    return inner


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, run("demo", cwd=folder), run("demo", "--json", "--out", "d[/b]x", cwd=folder)


def test_demo_ends_with_a_table_a_verdict_a_picture_and_a_report(demo):
    folder, result, _ = demo
    assert result.returncode == 0, result.stderr
    for word in ("ECE", "label-free", "Verdict: ", "over-confident", "Picture:"):
        assert word in result.stdout
    picture, report = result.stdout.split("Picture: ")[1].strip().split("\nReport: ")
    assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert (folder / report).read_bytes().startswith(b"<!doctype html>")


def test_demo_repairs_the_confidence(demo):
    content = json.loads(demo[2].stdout)
    scores = {row["temperature of"]: row for row in content["scores"]}
    assert scores["atlas (label-free)"]["ECE"] < 0.6 * scores["source"]["ECE"]
    assert scores["atlas (label-free)"]["NLL"] < scores["source"]["NLL"]
    low, high = content["accuracy_interval"]
    assert low <= content["true_accuracy"] <= high
    assert content["picture"] == "d[/b]x/demo.png"
    assert content["report"] == "d[/b]x/report.html"


def test_lines_fit_an_80_column_terminal(demo):
    assert max(len(line) for line in demo[1].stdout.splitlines()) <= 80


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A folder as a user has it: source, model, code, target, logits, and the card."""
    folder = tmp_path_factory.mktemp("deployed")
    graph = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
    val = np.zeros((1, 400), dtype=bool)
    val[0, 200:320] = True
    graph.replace(val_masks=val).save(folder / "source.npz")
    model = SIGN(hops=1).fit(graph, range(200))
    model.save(folder / "model.npz")
    SIGN(hops=1, C=0.01).fit(graph, range(100)).save(folder / "other.npz")
    target = shifts.noise(0.8)(graph, seed=12345)
    target.save(folder / "target.npz")
    np.savez(folder / "logits.npz", logits=model(target))
    np.save(folder / "short.npy", model(target)[:-1])
    (folder / "nodes.txt").write_text("\n".join(map(str, range(320, 400))))
    (folder / "junk.txt").write_text("320\nabc\n")
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("")
    (folder / "mine" / "code.py").write_text(
        "from graphtemper import models\n"
        "model = models.load('model.npz')\n"
        "number = 3\n"
        "def predict(graph):\n    return model(graph)\n"
        "def narrow(graph):\n    return model(graph)[:, :1]\n"
        "def fails(graph):\n    raise KeyError('x')\n"
    )
    (folder / "mine" / "broken.py").write_text("raise RuntimeError('boom')\n")
    made = run(
        *("card", "build", "source.npz", "--predict", "mine.code:predict", "--split", "val:0"),
        *("--exclude", "shuffle", "--exclude", "offset", "--out", "model.card.json"),
        cwd=folder,
    )
    text = (folder / "model.card.json").read_text() if made.returncode == 0 else ""
    (folder / "truncated.card.json").write_text(text[: len(text) // 2])
    return folder, made


def test_card_build_and_show(call, deployed):
    folder, made = deployed
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    assert "mine.code:predict: 2 classes, 6 feature columns" in made.stdout
    assert "left out: offset, shuffle" in made.stdout
    assert made.stdout.endswith("Card: model.card.json\n")
    assert not (folder / "model.card.json.part").exists()
    shown = call("card", "show", "model.card.json", cwd=folder)
    assert made.stdout.startswith(shown.stdout)
    facts = json.loads(call("card", "show", "model.card.json", "--json", cwd=folder).stdout)
    assert facts["num_nodes"] == 120
    assert facts["excluded"] == ["offset", "shuffle"]


def test_recalibrate_writes_and_explains(call, deployed):
    folder, _ = deployed
    result = call(
        *("recalibrate", "target.npz", "--predict", "model.npz", "--card", "model.card.json"),
        *("--nodes", "nodes.txt", "--out", "out[/b].npz"),
        cwd=folder,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] in ("Verdict: trust", "Verdict: caution", "Verdict: abstain")
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in result.stdout
    for word in ("Accuracy", "90 % interval", "Confidence", "Temperature", "Written: out[/b].npz"):
        assert word in result.stdout
    with np.load(folder / "out[/b].npz") as found:
        assert found["nodes"].tolist() == list(range(320, 400))
        assert np.allclose(found["probabilities"].sum(axis=1), 1.0)
        assert str(found["verdict"]) == lines[0].removeprefix("Verdict: ")
        assert found["temperature"] > 0
        value, low, high = found["accuracy"]
        assert low <= value <= high


def test_recalibrate_from_code_and_from_logits(call, deployed):
    folder, _ = deployed
    found = {}
    for source in (("--predict", "mine.code:predict"), ("--logits", "logits.npz")):
        result = call(
            *("recalibrate", "target.npz", *source, "--card", "model.card.json", "--json"),
            *("--out", "r.npz"),
            cwd=folder,
        )
        assert result.returncode == 0, result.stderr
        found[source[0]] = json.loads(result.stdout)
    assert found["--predict"]["num_nodes"] == found["--logits"]["num_nodes"] == 400
    assert "noise agreement" not in found["--logits"]["signals"]
    assert found["--predict"]["out"] == "r.npz"


def test_one_temperature_per_node(call, deployed):
    folder, _ = deployed
    arguments = ("recalibrate", "target.npz", "--predict", "model.npz", "--card", "model.card.json")
    told = call(*arguments, "--per-node", "--out", "each.npz", "--json", cwd=folder)
    assert told.returncode == 0, told.stderr
    with np.load(folder / "each.npz") as found:
        assert found["node_temperatures"].shape == (400,)
        assert found["temperature"].shape == ()
        median, graph = float(np.median(found["node_temperatures"])), float(found["temperature"])
    facts = json.loads(told.stdout)
    assert facts["temperature"] == pytest.approx(graph)
    assert facts["node_temperatures"]["0.5"] == pytest.approx(median)
    shown = call(*arguments, "--per-node", "--out", "each.npz", cwd=folder)
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_target_labels_change_nothing(call, deployed, tmp_path):
    folder, _ = deployed
    Graph.load(folder / "target.npz").replace(labels=None).save(tmp_path / "target.npz")
    for name in (folder / "target.npz", tmp_path / "target.npz"):
        out = tmp_path / f"{name.parent.name}.npz"
        call(
            *("recalibrate", name, "--predict", "model.npz", "--card", "model.card.json"),
            *("--out", out),
            cwd=folder,
        )
    one, other = (tmp_path / f"{parent.name}.npz" for parent in (folder, tmp_path))
    assert one.read_bytes() == other.read_bytes()


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
    assert facts["direction"] in ("over-confident", "under-confident", "calibrated within error")
    assert facts["target"]["homophily"] < facts["source"]["homophily"]
    assert 0 < facts["theory"]["slope"] < 1.5
    assert facts["nearest"][0]["distance"] <= facts["nearest"][1]["distance"]
    assert sorted(folder.iterdir()) == before


def test_labels_are_suggested_filled_in_and_used(call, deployed, tmp_path):
    folder, _ = deployed
    model = ("--predict", "model.npz", "--card", "model.card.json", "--nodes", "nodes.txt")
    table = tmp_path / "labels.csv"
    asked = ("suggest-labels", "target.npz", *model, "--count", "30", "--out", table)
    result = call(*asked, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "(30 nodes)" in result.stdout
    check_refusal(call(*asked, cwd=folder))  # a table that may hold labels is not overwritten
    answers = ("recalibrate", "target.npz", *model, "--out", tmp_path / "r.npz", "--json")
    empty = call(*answers, "--labels", table, cwd=folder)
    check_refusal(empty)
    assert "line 2: the class of node" in empty.stderr
    truth = Graph.load(folder / "target.npz").labels
    head, *lines = table.read_text().splitlines()
    rows = [line.split(",") for line in lines]
    assert {int(node) for node, _, _ in rows} <= set(range(320, 400))
    filled = [f"{node},{truth[int(node)]},{weight}" for node, _, weight in rows]
    table.write_text("\n".join([head, *filled]))
    plain = json.loads(call(*answers, cwd=folder).stdout)
    found = json.loads(call(*answers, "--labels", table, cwd=folder).stdout)
    assert (plain["num_labels"], found["num_labels"]) == (0, 30)
    widths = [x["accuracy"]["high"] - x["accuracy"]["low"] for x in (plain, found)]
    assert widths[1] < widths[0]
    text = call(*answers[:-1], "--labels", table, cwd=folder)
    assert "of 30 labelled nodes" in " ".join(text.stdout.split())
    assert max(len(line) for line in text.stdout.split("Written")[0].splitlines()) <= 80
    listed = call(*asked[:-1], tmp_path / "other.csv", "--json", cwd=folder)
    assert [str(node) for node in json.loads(listed.stdout)["nodes"]] == [row[0] for row in rows]


def test_labels_outside_the_chosen_nodes_are_refused(call, deployed, tmp_path):
    folder, _ = deployed
    (tmp_path / "labels.csv").write_text("node,class\n3,0\n")
    result = call(
        *("recalibrate", "target.npz", *GOOD, "--nodes", "nodes.txt"),
        *("--labels", tmp_path / "labels.csv"),
        cwd=folder,
    )
    check_refusal(result)
    assert "node 3, which is not among the chosen nodes" in result.stderr


def test_theory_says_where_it_does_not_apply():
    from graphtemper.recalibration.diagnosis import theory_slope

    two, three = SimpleNamespace(num_classes=2), SimpleNamespace(num_classes=3)
    assert theory_slope(0.8, 0.8, 1.0, two)["slope"] == pytest.approx(1.0)
    for arguments in ((0.8, 0.8, 1.0, three), (0.8, 0.8, None, two), (0.8, 0.8, -0.1, two)):
        assert theory_slope(*arguments)["slope"] is None
    for source in (0.5, 0.51):
        assert "1/2" in theory_slope(0.8, source, 1.0, two)["why"]


def test_a_card_that_was_interrupted_goes_on(deployed):
    folder, _ = deployed
    arguments = ("card", "build", "source.npz", "--predict", "model.npz", "--split", "val:0")
    arguments = (*arguments, "--out", "again.card.json")
    process = subprocess.Popen(
        [sys.executable, "-m", "graphtemper", *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A background job inherits "ignore" for this signal; a person's terminal does not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    part = folder / "again.card.json.part"
    while not (part.exists() and part.stat().st_size):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.strip() == (
        "graphtemper: interrupted; finished environments are kept in again.card.json.part: run the "
        "same command again to go on."
    )
    assert not (folder / "again.card.json").exists()
    facts = json.loads(run(*arguments, "--json", cwd=folder).stdout)
    assert facts["environments"] == 132
    assert not part.exists()


GOOD = ("--predict", "model.npz", "--card", "model.card.json", "--out", "never.npz")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("target.npz", *GOOD[2:]), "--predict or its logits with --logits"),
        (("target.npz", *GOOD, "--logits", "logits.npz"), "--predict or its logits"),
        (("target.npz", "--predict", "nobody:x", *GOOD[2:]), "there is no module 'nobody'"),
        (("target.npz", "--predict", "mine.code:number", *GOOD[2:]), "cannot be called"),
        (("target.npz", "--predict", "mine.broken:x", *GOOD[2:]), "RuntimeError: boom"),
        (("target.npz", "--predict", "mine.code:fails", *GOOD[2:]), "made for another model"),
        (("target.npz", "--predict", "other.npz", *GOOD[2:]), "build a card for this one"),
        (("target.npz", *GOOD[:2], "--card", "truncated.card.json"), "not JSON"),
        (("target.npz", *GOOD[:2], "--card", "nowhere.json"), "nowhere.json"),
        (("target.npz", "--logits", "short.npy", *GOOD[2:]), "short.npy: the logits must have"),
        (("target.npz", *GOOD, "--nodes", "junk.txt"), "junk.txt, line 2: 'abc' is not a node"),
        (("target.npz", *GOOD, "--split", "test:0"), "0 test splits"),
        (("target.npz", *GOOD[:4], "--out", "never.csv"), ".npz or a .parquet"),
        (("nowhere.npz", *GOOD), "nowhere.npz does not exist"),
    ],
)
def test_bad_deployments_are_one_sentence(call, deployed, arguments, message):
    folder, _ = deployed
    result = call("recalibrate", *arguments, cwd=folder)
    check_refusal(result)
    assert message in result.stderr
    assert not list(folder.glob("never*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("source.npz",), "--predict"),
        (("source.npz", "--predict", "model.npz", "--split", "val:7"), "no val:7"),
        (("source.npz", "--predict", "model.npz", "--exclude", "magic"), "unknown family 'magic'"),
        (("source.npz", "--predict", "model.npz", "--seed", "-1"), "seed"),
        (("source.npz", "--predict", "mine.code:narrow"), "must have shape (400, K)"),
        (("source.npz", "--predict", "mine.code:fails"), "mine.code:fails failed: KeyError"),
    ],
)
def test_bad_cards_are_one_sentence(call, deployed, arguments, message):
    folder, _ = deployed
    result = call("card", "build", *arguments, "--out", "never.card.json", cwd=folder)
    check_refusal(result)
    assert message in result.stderr
    assert not list(folder.glob("never*"))


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


def test_bench_says_what_it_does_not_know(call, tmp_path):
    check_refusal(call("bench", "atlas", "--models", "MLP", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "atlas", "--graphs", "nonsense", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "natural", "--groups", "mars", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "controls", "--seeds", "0", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "sets", "--models", "MLP", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "all", "--models", "MLP", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "--retrain", "RBT", "--out", tmp_path, cwd=tmp_path))
    refused = call("bench", "paper-setting", "--graphs", "x.npz", "--out", tmp_path, cwd=tmp_path)
    check_refusal(refused)


def scored(method):
    """Return the scores of one method as a cell holds them."""
    numbers = {"temperature": 1.0, "ece": 0.02, "nll": 0.5, "accuracy": 0.8, "estimate": 0.8}
    numbers |= {"low": 0.7, "high": 0.9, "nodes": 100, "card_nodes": 100}
    return numbers | {"method": method, "verdict": "trust" if "atlas" in method else None}


def cell(folder, title, rows, **head):
    (folder / "cells").mkdir(exist_ok=True)
    text = json.dumps({"compositions": 10, "rows": rows, **head})
    (folder / "cells" / f"{title}.json").write_text(text)


def atlas_cells(folder):
    from graphtemper_research.trials import known_shifts, summary

    names = [known_shifts.title(shift) for shift in known_shifts.SHIFTS]
    rows = [{"shift": name, **scored(method)} for name in names for method in summary.METHODS]
    cell(folder, "g-SIGN-1", rows, schema=known_shifts.SCHEMA, graph="g", model="SIGN", seed=1)
    return ("atlas", "--graphs", "g.npz"), "atlas_bench"


def natural_cells(folder):
    from graphtemper import datasets
    from graphtemper_research.trials import natural_shifts as natural
    from graphtemper_research.trials.trial import METHODS

    if not all(datasets.find(f"county_{year}") for year in (2012, 2016)):
        pytest.skip("county_2012.npz and county_2016.npz are not on this machine")
    rows = [{"target": "county_2016", **scored(method)} for method in METHODS]
    head = {"schema": natural.SCHEMA, "source": "county_2012", "model": "SIGN", "seed": 1}
    cell(folder, "county_2012-SIGN-1", rows, group="counties", **head)
    return ("natural", "--groups", "counties"), "natural_shifts"


def label_cells(folder):
    from graphtemper import datasets
    from graphtemper_research.trials import label_budgets as labels
    from graphtemper_research.trials.trial import ATLAS, ORACLE, SOURCE

    if not all(datasets.find(f"county_{year}") for year in (2012, 2016)):
        pytest.skip("county_2012.npz and county_2016.npz are not on this machine")
    names = [f"{count} labels{how}, draw 1" for count in (50, 200) for how in ("", " alone")]
    rows = [{"target": "county_2016", **scored(m)} for m in (SOURCE, ATLAS, ORACLE, *names)]
    head = {"schema": labels.SCHEMA, "source": "county_2012", "model": "SIGN", "seed": 1}
    cell(folder, "county_2012-SIGN-1", rows, group="counties", **head)
    return ("labels", "--groups", "counties"), "labels"


def control_cells(folder):
    from graphtemper_research.trials import negative_controls as controls
    from graphtemper_research.trials.trial import METHODS

    names = [control.name for control in controls.CONTROLS]
    rows = [{"control": name, **scored(method)} for name in names for method in METHODS]
    cell(folder, "g-SIGN-1", rows, schema=controls.SCHEMA, graph="g", model="SIGN", seed=1)
    return ("controls", "--graphs", "g.npz"), "controls"


def paper_cells(folder):
    from graphtemper_research.trials import paper_setting

    rows = [{"split": 0, **scored(method)} for method in paper_setting.METHODS]
    cell(folder, "g", rows, schema=paper_setting.SCHEMA, graph="g", splits=1)
    return ("paper-setting", "--graphs", "g.npz"), "paper_setting"


def sets_cells(folder):
    from graphtemper_research.trials import known_shifts
    from graphtemper_research.trials import prediction_sets as sets
    from graphtemper_research.trials.sets_summary import LEVEL, METHODS, SCORES, SHARE_TARGETS

    names = [*(known_shifts.title(shift) for shift in known_shifts.SHIFTS), *SHARE_TARGETS]
    covered = {
        f"{kind} {key}": 0.9 for kind in SCORES for key in ("coverage", "size", "singletons")
    }
    rows = [{"target": name, **scored(m), **covered} for name in names for m in METHODS]
    head = {"schema": sets.SCHEMA, "graph": "g", "model": "SIGN", "seed": 1, "level": LEVEL}
    cell(folder, "g-SIGN-1", rows, **head)
    return ("sets", "--graphs", "g.npz"), "sets"


def per_node_cells(folder):
    from graphtemper_research.trials import known_shifts
    from graphtemper_research.trials import per_node_temperatures as per_node

    kinds = {known_shifts.title(s): "none" if s is None else s.family for s in known_shifts.SHIFTS}
    more = {"brier": 0.3, "auroc": 0.7}
    rows = [
        {"shift": name, "family": kind, **scored(method), **more}
        for name, kind in kinds.items()
        for method in per_node.METHODS
    ]
    cell(folder, "g-SIGN-1", rows, schema=per_node.SCHEMA, graph="g", model="SIGN", seed=1)
    return ("per-node", "--graphs", "g.npz"), "per_node"


@pytest.mark.parametrize(
    "make",
    [
        atlas_cells,
        natural_cells,
        label_cells,
        control_cells,
        paper_cells,
        sets_cells,
        per_node_cells,
    ],
)
def test_bench_from_finished_cells(call, tmp_path, make):
    """Cells as a run leaves them; what is tested is the way from there to tables and files."""
    arguments, name = make(tmp_path)
    result = call("bench", *arguments, "--quick", "--out", tmp_path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert max(len(line) for line in result.stdout.split("Files:")[0].splitlines()) <= 80
    assert "…" not in result.stdout
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == [f"{name}.{kind}" for kind in ("csv", "json", "md", "png")]
    told = call("bench", *arguments, "--quick", "--json", "--out", tmp_path, cwd=tmp_path)
    assert json.loads(told.stdout)["name"] == name


def check_refusal(result):
    """One sentence on standard error, nothing on standard output, exit code 2."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("graphtemper: ")
    assert "Traceback" not in result.stderr


def test_paper_writes_its_files(call, tmp_path):
    result = call("paper", "concept", "--out", tmp_path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.md", "concept.csv", "concept.json", "concept.png", "results.md"]


def test_data_list():
    entries = json.loads(run("data", "list", "--json").stdout)
    assert {"cora", "roman_empire", "questions"} <= {entry["name"] for entry in entries}
    assert all(entry["licence"] for entry in entries)


@pytest.mark.parametrize(
    "arguments",
    [
        ("paper", "nonsense"),
        ("nonsense",),
        ("demo", "--seed", "x"),
        ("demo", "--nonsense"),
        ("demo", "--seed", "-1"),
        ("data", "inspect", "nowhere.npz"),
        ("data", "fetch", "nonsense"),
        ("paper", "concept", "--out", "/dev/null/folder"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(call, arguments, tmp_path):
    check_refusal(call(*arguments, cwd=tmp_path))


def test_version_and_help(call):
    import graphtemper

    assert call("--version", cwd=".").stdout.strip() == graphtemper.__version__
    text = call("--help", cwd=".").stdout
    commands = ("demo", "card", "recalibrate", "diagnose", "suggest-labels")
    for command in (*commands, "paper", "bench", "data"):
        assert command in text


def test_a_damaged_outcome_is_named(call, tmp_path):
    (tmp_path / "slope.json").write_text("{")
    result = call("paper", "concept", "--out", tmp_path, cwd=tmp_path)
    assert result.returncode == 2
    assert "slope.json is not an outcome" in result.stderr
    assert "Traceback" not in result.stderr


def test_odd_environments_end_well(tmp_path):
    assert run("data", "list", GRAPHTEMPER_DATA="x" * 5000).returncode == 0
    assert run("data", "list", PYTHONIOENCODING="ascii").returncode == 0
