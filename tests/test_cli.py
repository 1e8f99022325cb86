import json
import os
import subprocess
import sys

import pytest


def run(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "graphtemper", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "80"} | environment,
        timeout=120,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, run("demo", cwd=folder)


def test_demo_ends_with_a_table_a_verdict_and_a_picture(demo):
    folder, result = demo
    assert result.returncode == 0, result.stderr
    for word in ("ECE", "label-free", "Verdict: trust", "over-confident", "Picture:"):
        assert word in result.stdout
    picture = result.stdout.split("Picture: ")[1].strip()
    assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def test_demo_repairs_the_confidence(tmp_path):
    result = run("demo", "--json", "--out", str(tmp_path))
    content = json.loads(result.stdout)
    scores = {row["temperature of"]: row for row in content["scores"]}
    assert scores["label-free"]["ECE"] < 0.5 * scores["source temperature"]["ECE"]
    assert abs(content["estimated_accuracy"] - content["true_accuracy"]) < 0.02


def test_lines_fit_an_80_column_terminal(demo):
    assert max(len(line) for line in demo[1].stdout.splitlines()) <= 80


def test_paper_writes_its_files(tmp_path):
    result = run("paper", "concept", "--out", str(tmp_path))
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
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, tmp_path):
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("graphtemper: ")
    assert "Traceback" not in result.stderr


def test_version_and_help():
    import graphtemper

    assert run("--version").stdout.strip() == graphtemper.__version__
    text = run("--help").stdout
    for command in ("demo", "paper", "data"):
        assert command in text


def test_a_folder_name_with_markup_is_printed_as_it_is(tmp_path):
    result = run("demo", "--out", "d[/b]x", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "d[/b]x" in result.stdout


def test_a_damaged_outcome_is_named(tmp_path):
    (tmp_path / "slope.json").write_text("{")
    result = run("paper", "concept", "--out", str(tmp_path))
    assert result.returncode == 2
    assert "slope.json is not an outcome" in result.stderr
    assert "Traceback" not in result.stderr


def test_odd_environments_end_well(tmp_path):
    assert run("data", "list", GRAPHTEMPER_DATA="x" * 5000).returncode == 0
    assert run("data", "list", PYTHONIOENCODING="ascii").returncode == 0
