"""The program as a whole: errors, help, versions, pipes, and commands of the research package."""

import json
import os
import platform
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from tests.helpers import check_refusal, command_environment, needs, run_command

from graphtemper import cli, csbm
from graphtemper.errors import GraphTemperWarning

GRAPH = "graphs/g.npz"


def test_bench_alone_lists_the_benches(call, tmp_path):
    shown = call("bench", cwd=tmp_path)
    assert shown.returncode == 0
    assert {"all", "atlas", "natural"} <= set(shown.stdout.split())
    assert list(tmp_path.iterdir()) == []


def test_paper_alone_names_the_figures(call, tmp_path):
    refused = call("paper", cwd=tmp_path)
    check_refusal(refused)
    assert "name a figure, or all" in refused.stderr
    assert "concept, slope" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_bench_says_what_it_does_not_know(call, tmp_path):
    check_refusal(call("bench", "atlas", "--models", "MLP", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "atlas", "--graphs", "nonsense", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "natural", "--families", "mars", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "controls", "--seeds", "0", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "sets", "--models", "MLP", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "all", "--models", "MLP", "--out", tmp_path, cwd=tmp_path))
    check_refusal(call("bench", "all", "--retrain", "RBT", "--out", tmp_path, cwd=tmp_path))
    refused = call("bench", "paper-setting", "--graphs", "x.npz", "--out", tmp_path, cwd=tmp_path)
    check_refusal(refused)


def scored(method):
    """Return the scores of one method as a cell holds them."""
    numbers = {"temperature": 1.0, "ece": 0.02, "nll": 0.5, "accuracy": 0.8, "estimate": 0.8}
    numbers |= {"low": 0.7, "high": 0.9, "nodes": 100, "card_nodes": 100}
    return numbers | {"method": method, "verdict": "trust" if "atlas" in method else None}


def cell(folder, title, rows, graphs=None, **head):
    """Write a cell as a run leaves it, of the named graphs or of one of its own."""
    from graphtemper_research.harness.uses import key
    from graphtemper_research.trials import graph_names

    if graphs is None:
        graphs = [str(folder / GRAPH)]
        (folder / GRAPH).parent.mkdir()
        csbm.sample(60, 4, 0.8, 1.0, num_features=3, seed=1).save(folder / GRAPH)
    (folder / "cells").mkdir(exist_ok=True)
    content = graph_names.content(*graphs)
    code = {"uses": [], "code": key()}
    text = json.dumps({"compositions": 10, "content": content, **code, "rows": rows, **head})
    (folder / "cells" / f"{title}.json").write_text(text)


def atlas_cells(folder):
    from graphtemper_research.trials import known_shifts

    rows = [{**identity, **scored(identity["method"])} for identity in known_shifts.expected()]
    cell(folder, "g-SIGN-1", rows, schema=known_shifts.SCHEMA, graph="g", model="SIGN", seed=1)
    return ("atlas", "--graphs", GRAPH), "atlas_bench"


@pytest.mark.cpu(4)
def test_bench_from_finished_cells(call, tmp_path):
    """Cells as a run leaves them; what is tested is the way from there to tables and files."""
    arguments, name = atlas_cells(tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    result = call("bench", *arguments, "--quick", "--out", tmp_path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # nothing is measured again
    assert max(len(line) for line in result.stdout.split("Files:")[0].splitlines()) <= 80
    assert "…" not in result.stdout
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == [f"{name}.{kind}" for kind in ("json", "md", "png")]
    result = call("bench", *arguments, "--quick", "--json", "--out", tmp_path, cwd=tmp_path)
    assert json.loads(result.stdout)["name"] == name


def test_paper_writes_its_files(call, tmp_path):
    needs("graphtemper_research", "matplotlib")
    result = call("paper", "concept", "--out", tmp_path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.md", "concept.json", "concept.png", "results.md"]


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
        ("paper", "concept", "--out", "pages", "--results", "pages/audit.md"),
        ("paper", "concept", "--out", "pages", "--results", "pages/concept.json"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(call, arguments, tmp_path):
    check_refusal(call(*arguments, cwd=tmp_path))


def test_version(call):
    import graphtemper

    for flag in ("--version", "-V"):
        printed = call(flag, cwd=".").stdout.strip()
        assert printed == graphtemper.__version__


def test_help_groups_the_commands(call):
    text = call("--help", cwd=".").stdout
    groups = dict(re.findall(r"─ (\w+) ─+╮\n(.*?)╰", text, flags=re.S))
    commands = {
        title: re.findall(r"^│ ([a-z]\S+) ", block, flags=re.M) for title, block in groups.items()
    }
    assert commands == {
        "Use": ["card", "recalibrate", "label", "diagnose", "monitor"],
        "Evidence": ["demo", "data", "bench"],
        "Research": ["paper", "explore"],
        "Options": ["completion", "info"],
    }


def test_info_names_system_and_versions(call):
    version = call("--version", cwd=".").stdout.strip()
    first, *packages = call("info", cwd=".").stdout.splitlines()
    assert first.startswith(f"graphtemper {version}, Python {platform.python_version()} ")
    assert first.endswith(f", {sys.platform}")
    assert f"numpy {np.__version__}" in packages
    assert packages == sorted(packages)


@pytest.mark.parametrize("name", ["data", "paper", "bench", "explore"])
def test_commands_of_the_research_package_say_how_to_install_it(name, monkeypatch):
    from graphtemper.cli import research
    from graphtemper.errors import MissingExtraError

    monkeypatch.setattr(research, "entry_points", lambda **_: [])
    command = research.research_command(name)
    assert command.__name__ == name
    with pytest.raises(MissingExtraError):
        command("--anything")


@pytest.mark.parametrize(
    "arguments", [("data", "list"), ("data", "list", "--json"), ("--help",), ("card", "--help")]
)
def test_a_closed_pipe_is_no_error(arguments):
    if arguments[0] == "data":
        needs("graphtemper_research")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "graphtemper", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=command_environment(),
        )
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_knows_commands_and_options(call, tmp_path, shell):
    result = call("completion", shell, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for word in ("recalibrate", "label", "logits", "report"):
        assert word in result.stdout
    assert call("completion", "ksh", cwd=tmp_path).returncode == 2


def test_a_damaged_outcome_is_named(call, tmp_path):
    needs("graphtemper_research", "matplotlib")
    (tmp_path / "slope.json").write_text("{")
    result = call("paper", "concept", "--out", tmp_path, cwd=tmp_path)
    assert result.returncode == 2
    assert "slope.json is not an outcome" in result.stderr
    assert "Traceback" not in result.stderr


def test_odd_environments_end_well(tmp_path):
    needs("graphtemper_research")
    assert run_command("data", "list", GRAPHTEMPER_DATA="x" * 5000).returncode == 0
    assert run_command("data", "list", PYTHONIOENCODING="ascii").returncode == 0


def test_warnings_of_this_package_are_one_line(monkeypatch, capsys):
    def command(*_, **__):
        warnings.warn("something\nis odd.", GraphTemperWarning, stacklevel=1)
        warnings.warn("other", RuntimeWarning, stacklevel=1)

    monkeypatch.setattr(cli, "app", command)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shown, told = warnings.showwarning, []
        monkeypatch.setattr(warnings, "showwarning", lambda *given: told.append(given[1]))
        cli.main()
        monkeypatch.undo()
        assert warnings.showwarning is shown
    assert capsys.readouterr().err == "graphtemper: warning: something is odd.\n"
    assert told == [RuntimeWarning]
