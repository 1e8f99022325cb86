"""Commands given hostile names, files of the working directory, and outputs that are inputs."""

import json
import os
import subprocess
import sys

import pytest
from tests.helpers import check_refusal, command_environment


@pytest.fixture
def folder(source, model, card, tmp_path):
    source.replace(labels=None).save(tmp_path / "target.npz")
    source.save(tmp_path / "source.npz")
    model.save(tmp_path / "model.npz")
    card.save(tmp_path / "card.json")
    (tmp_path / "days").mkdir()
    source.save(tmp_path / "days" / "one.npz")
    os.link(tmp_path / "target.npz", tmp_path / "linked.npz")
    (tmp_path / "symlink.npz").symlink_to("model.npz")
    (tmp_path / "symlink.html").symlink_to("days/one.npz")
    (tmp_path / "days" / "gone.npz").symlink_to("nowhere.npz")
    (tmp_path / "days" / "more").mkdir()
    os.link(tmp_path / "target.npz", tmp_path / "days" / "more" / "linked.npz")
    (tmp_path / "code.py").write_text("def predict(graph):\n    return graph.features[:, :2]\n")
    return tmp_path


DEPLOYED = ("--card", "card.json", "--predict", "model.npz")
RECALIBRATE = ("recalibrate", "target.npz", *DEPLOYED)
MONITOR = ("monitor", "days", *DEPLOYED, "--log", "log.sqlite")


@pytest.mark.parametrize(
    "arguments",
    [
        (*RECALIBRATE, "--out", "target.npz"),
        (*RECALIBRATE, "--out", "./days/../target.npz"),
        (*RECALIBRATE, "--out", "symlink.npz"),
        (*RECALIBRATE, "--out", "model.npz"),
        ("label", "target.npz", *DEPLOYED, "--session", "s", "--goal", "0.1", "--out", "card.json"),
        ("label", "target.npz", *DEPLOYED, "--session", "card.json", "--goal", "0.1"),
        ("card", "build", "source.npz", "--predict", "model.npz", "--out", "source.npz"),
        (*MONITOR, "--prometheus", "log.sqlite"),
        (*MONITOR, "--prometheus", "card.json"),
        (*MONITOR, "--prometheus", "days/one.npz"),
        (*MONITOR, "--prometheus", "log.sqlite-journal"),
        (*MONITOR, "--prometheus", "days/more/linked.npz"),
        ("monitor", "labels", *MONITOR[1:], "--of", "one", "--out", "p", "--prometheus", "p"),
        (*MONITOR, "--page", "symlink.html"),
        ("card", "build", "source.npz", "--predict", "code:predict", "--out", "code.py"),
    ],
)
def test_an_input_is_never_overwritten(call, folder, arguments):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    check_refusal(call(*arguments, cwd=folder))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_names_do_not_command_the_terminal(call, folder, card):
    from dataclasses import replace

    name = "SIGN\x1b]0;owned\x07\x1b[2J\u202e"
    replace(card, predictor=name).save(folder / "odd.json")
    shown = call("card", "show", "odd.json", cwd=folder).stdout
    assert "SIGN\\x1b]0;owned\\x1b[2J\\u202e" in shown  # rich drops the bell
    refusal = call("card", "show", "missing\x1b[2J.json", cwd=folder)
    check_refusal(refusal)
    for text in (shown, refusal.stderr):
        assert not set("\x1b\x07\u202e") & set(text)
    facts = json.loads(call("card", "show", "odd.json", "--json", cwd=folder).stdout)
    assert facts["predictor"] == name


STRAY = "raise SystemExit('a stray file was run')\n"
CODE = """
import sys
import numpy as np
import helper

def predict(graph):
    return np.asarray(graph.features)[:, :3] * helper.FACTOR
"""


@pytest.mark.parametrize("start", [["-c", "from graphtemper.cli import main; main()"],
                                   ["-m", "graphtemper"]])  # fmt: skip
def test_only_the_named_module_of_the_working_directory_is_run(source, tmp_path, start):
    """Its own helpers are found; nothing there takes the place of an installed module."""
    source.save(tmp_path / "source.npz")
    (tmp_path / "code.py").write_text(CODE)  # the standard library has a module of this name
    (tmp_path / "helper.py").write_text("FACTOR = -2.0\n")
    for name in ("threadpoolctl", "csv", "scipy", "rich"):
        (tmp_path / f"{name}.py").write_text(STRAY)
    options = ("card", "build", "source.npz", "--predict", "code:predict", "--json")
    environment = command_environment() | {"PYTHONSAFEPATH": ""}
    if start[0] == "-c":
        environment["PYTHONSAFEPATH"] = "1"  # as an installed command, unlike -c
    run = subprocess.run(
        [sys.executable, *start, *options],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["num_nodes"] == 600
