"""A command line inside this process, and a folder as a user has it."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tests.helpers import run_command

from graphtemper import csbm, shifts
from graphtemper.cli import main
from graphtemper.models import SIGN


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command inside this process, which is faster and otherwise the same."""

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
        output = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=output.out, stderr=output.err)

    return inner


@pytest.fixture(scope="session")
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
    (folder / "project").mkdir()
    (folder / "project" / "__init__.py").write_text("")
    (folder / "project" / "code.py").write_text(
        "from graphtemper import models\n"
        "model = models.load('model.npz')\n"
        "number = 3\n"
        "def predict(graph):\n    return model(graph)\n"
        "def narrow(graph):\n    return model(graph)[:, :1]\n"
        "def fails(graph):\n    raise KeyError('x')\n"
    )
    (folder / "project" / "broken.py").write_text("raise RuntimeError('boom')\n")
    built = run_command(
        *("card", "build", "source.npz", "--predict", "project.code:predict", "--split", "val:0"),
        *("--exclude", "shuffle", "--exclude", "offset", "--out", "model.card.json"),
        cwd=folder,
    )
    text = (folder / "model.card.json").read_text() if built.returncode == 0 else ""
    (folder / "truncated.card.json").write_text(text[: len(text) // 2])
    return folder, built
