"""The program as a whole: errors, help, versions, pipes, and commands of the research package."""

import os
import platform
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from tests.helpers import check_refusal, command_environment, needs

from graphtemper import cli
from graphtemper.errors import GraphTemperWarning


def test_bench_alone_lists_the_benches(call, tmp_path):
    shown = call("bench", cwd=tmp_path)
    assert shown.returncode == 0
    assert {"all", "atlas", "natural"} <= set(shown.stdout.split())
    assert list(tmp_path.iterdir()) == []


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
