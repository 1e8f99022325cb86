"""Every Python block of the pages runs, and every command line can be parsed.

Blocks with prompts are doctests, which pytest collects from `docs`. Blocks without prompts are run
here, in the order of their page, with the objects and files that the pages assume.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import FEW_SHIFTS

from graphtemper import LabelSession, SourceCard, csbm, recalibrate, shifts
from graphtemper.cli import app
from graphtemper.models import SIGN

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (ROOT / "docs").rglob("*.md")
    if not {"_build", "_generated", "generated", "results"} & set(path.parts)
)
NAMES = {path: str(path.relative_to(ROOT)) for path in [*PAGES, ROOT / "README.md"]}
# Pages that need modules and other libraries have their own tests.
ELSEWHERE = {"docs/any_model.md", "README.md"}
CHEAP = {"card", "recalibrate", "diagnose"}


def python_blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), flags=re.M | re.S)


def plain_blocks(path):
    return [block for block in python_blocks(path) if ">>>" not in block]


PLAIN = [path for path in PAGES if plain_blocks(path) and NAMES[path] not in ELSEWHERE]


@pytest.fixture(scope="module")
def names():
    """The objects that the pages assume."""
    settings = {"degree": 6, "snr": 1.0, "num_features": 6}
    source = csbm.sample(400, homophily=0.8, seed=1, **settings)
    target = shifts.noise(0.5)(csbm.sample(400, homophily=0.7, seed=2, **settings), 5)
    model = SIGN(hops=1).fit(source, range(200))
    card = SourceCard.build(model, source, range(200, 400), compositions=0, shifts=FEW_SHIFTS)
    return {"source": source, "target": target, "model": model, "card": card}


def _write_tables(names, folder):
    """Write the target as the folders that docs/scale.md names."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    target = names["target"]
    tables = {
        "edges": dict(zip(("source", "target"), target.edges.T, strict=True)),
        "nodes": {f"x{j}": column for j, column in enumerate(target.features.T)},
        "logits": {f"logit_{k}": column for k, column in enumerate(names["model"](target).T)},
    }
    for name, columns in tables.items():
        (folder / name).mkdir()
        pq.write_table(pa.table(columns), folder / name / "part.parquet")


@pytest.fixture
def folder(names, tmp_path, monkeypatch):
    """A folder with every file that the pages name."""
    for name in ("source", "target", "model"):
        names[name].save(tmp_path / f"{name}.npz")
    names["card"].save(tmp_path / "model.card.json")
    np.save(tmp_path / "logits.npy", names["model"](names["target"]))
    _write_tables(names, tmp_path)
    (tmp_path / "val_nodes.txt").write_text("\n".join(map(str, range(200, 400))))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def torch_script():
    """Return the variables of a PyG training script."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
    nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        data = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1).to_pyg()
        net = nn.SGConv(6, 2, K=1)
    data.val_mask = torch.arange(300) >= 150
    return {"net": net, "data": data, "new_data": data.clone()}


@pytest.mark.cpu(10)  # one page builds a card of a module
@pytest.mark.parametrize("path", PLAIN, ids=NAMES.get)
def test_plain_blocks_run(path, names, folder, capsys):
    namespace = dict(names) | {"recalibrate": recalibrate}
    if "predictor(net" in "".join(plain_blocks(path)):
        namespace |= torch_script()
    for block in plain_blocks(path):
        exec(compile(block, NAMES[path], "exec"), namespace)
    if "report.html" in path.read_text("utf-8"):
        assert (folder / "report.html").read_bytes().startswith(b"<!doctype html>")


def test_pages_with_plain_blocks_were_found():
    assert {"docs/report.md", "docs/start/pyg_model.md"} <= {NAMES[path] for path in PLAIN}
    assert len(PAGES) > 20


def commands(path):
    """Return the command lines of a page: lines of code blocks that begin with the program."""
    lines = re.findall(
        r"^ *(?:\.venv/bin/)?graphtemper +(\S.*)$", path.read_text("utf-8"), flags=re.M
    )
    return [shlex.split(line, comments=True) for line in lines]


COMMANDS = [
    pytest.param(words, id=f"{NAMES[path]}: {' '.join(words)[:60]}")
    for path in [ROOT / "README.md", *PAGES]
    for words in commands(path)
]


def test_commands_were_found():
    verbs = {param.values[0][0] for param in COMMANDS}
    assert {"card", "recalibrate", "diagnose", "paper", "bench"} <= verbs


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_line_parses(words):
    app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.cpu(6)
def test_cheap_commands_run(folder, names, capsys):
    """Run each distinct command once, with the files of the pages; tutorials have their own."""
    ran = set()
    for param in COMMANDS:
        words = tuple(param.values[0])
        if str(param.id).startswith("docs/tutorials/"):
            continue
        if words[0] not in CHEAP or "--help" in words or words in ran:
            continue
        ran.add(words)
        app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
    assert len(ran) > 6


EXPERT = """import csv, sys
import numpy as np
labels = np.load("target.npz")["labels"]
rows = list(csv.DictReader(open(sys.argv[1])))
for row in rows:
    row["class"] = labels[int(row["node"])]
with open(sys.argv[1], "w", newline="") as stream:
    writer = csv.DictWriter(stream, rows[0])
    writer.writeheader()
    writer.writerows(rows)
"""


@pytest.mark.skipif(os.name == "nt", reason="a loop of a POSIX shell")
@pytest.mark.cpu(40)
def test_the_labelling_loop_runs_as_printed(folder):
    page = (ROOT / "docs" / "howto" / "labelling.md").read_text("utf-8")
    (loop,) = re.findall(r"^```sh\n(.*?)^```", page, flags=re.M | re.S)
    (folder / "expert.py").write_text(EXPERT)
    for name, words in (("graphtemper", "-m graphtemper"), ("ask_experts", "expert.py")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    paths = os.pathsep.join([str(folder), os.environ["PATH"]])
    ran = subprocess.run(
        ["sh", "-c", loop + "exit $?"],
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": paths},
        timeout=300,
        check=False,
    )
    assert ran.stderr == ""
    session = LabelSession.load(folder / "june.session.json")
    assert session.done
    assert session.summary() in " ".join(ran.stdout.split())


def test_targets_of_make_exist():
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M))
    for path, name in NAMES.items():
        named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", path.read_text("utf-8"), flags=re.M))
        assert named <= rules, name
