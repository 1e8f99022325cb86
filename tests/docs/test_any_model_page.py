"""The README's five lines and every block of docs/any_model.md, run as they are printed."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.helpers import FEW_SHIFTS

pytest.importorskip("vl_convert", reason="vl_convert is not installed (extra [report])")
torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")
nn = pytest.importorskip("torch_geometric.nn", reason="torch_geometric is not installed")
nx = pytest.importorskip("networkx")

from graphtemper import SourceCard, csbm, recalibrate, shifts  # noqa: E402
from graphtemper.models import SIGN  # noqa: E402

ROOT = Path(__file__).parents[2]


def sample(homophily, seed):
    return csbm.sample(400, degree=8, homophily=homophily, snr=1.0, num_features=4, seed=seed)


@pytest.fixture(scope="module")
def script():
    """The variables of a PyG training script."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        data = sample(0.8, 1).to_pyg()
        new_data = shifts.noise(2.0)(sample(0.8, 2), 5).to_pyg()
        data.train_mask = torch.arange(400) < 200
        data.val_mask = ~data.train_mask
        net = nn.SGConv(4, 2, K=2)
        optimiser = torch.optim.Adam(net.parameters(), lr=0.1)
        for _ in range(60):
            optimiser.zero_grad()
            logits = net(data.x, data.edge_index)[data.train_mask]
            torch.nn.functional.cross_entropy(logits, data.y[data.train_mask]).backward()
            optimiser.step()
    return {"net": net, "data": data, "new_data": new_data}


def blocks(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


@pytest.mark.cpu(10)
def test_five_lines_calibrate_an_existing_script(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "README.md").read_text("utf-8")
    section = page.partition("## In a PyG script\n")[2].partition("\n## ")[0]
    (block,) = blocks(section)
    lines = [line for line in block.splitlines() if line.strip() and "import" not in line]
    assert len(lines) == 5
    namespace = dict(script)
    exec(block, namespace)
    result = namespace["result"]
    assert result.probabilities.shape == (400, 2)


class TakesLists(torch.nn.Module):
    """SIGN as PyG's example has it: one linear map for each power of the operator."""

    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Linear(4, 2) for _ in range(3))

    def forward(self, data):
        return sum(part(data[key]) for part, key in zip(self.parts, ("x", "x1", "x2"), strict=True))


class TakesDgl(torch.nn.Module):
    def forward(self, graph, x):
        assert graph.num_nodes == len(x)
        mean = torch.zeros_like(x).index_add_(0, graph.ends[1], x[graph.ends[0]])
        return mean[:, :2]


def stub(name, monkeypatch, **functions):
    module = types.ModuleType(name)
    vars(module).update(functions)
    monkeypatch.setitem(sys.modules, name, module)
    return module


@pytest.mark.cpu(10)
def test_every_block_of_the_page_runs(script, monkeypatch):
    if "dgl" not in sys.modules:
        stub(
            "dgl",
            monkeypatch,
            graph=lambda ends, num_nodes: types.SimpleNamespace(ends=ends, num_nodes=num_nodes),
        )
    logged = {}

    def keep(value, path):
        logged[path] = value

    stub(
        "mlflow",
        monkeypatch,
        log_metrics=logged.update,
        log_text=keep,
        log_dict=keep,
        set_tag=lambda key, value: keep(value, key),
    )
    source = sample(0.8, 1)
    own = SIGN(hops=1).fit(source, range(200))
    card = SourceCard.build(own, source, range(200, 400), compositions=0, shifts=FEW_SHIFTS)
    result = recalibrate(own, sample(0.6, 2), card)
    adjacency = sp.random(30, 30, density=0.1, random_state=0, format="csr")
    pairs = nx.path_graph(30)
    nx.set_node_attributes(pairs, {node: [float(node)] for node in pairs}, "x")
    namespace = script | {
        "sign_net": TakesLists(),
        "dgl_net": TakesDgl(),
        "nx_graph": pairs,
        "adjacency": adjacency,
        "features": np.ones((30, 1)),
        "weights": np.ones((4, 2)),
        "card": card,
        "result": result,
        "graph": source,
        "val_nodes": range(200, 400),
        "target": sample(0.6, 2),
    }
    page = (ROOT / "docs" / "any_model.md").read_text("utf-8")
    answers = []
    for block in blocks(page):
        exec(block, namespace)
        answers.append(np.asarray(namespace["model"](source)))
    first, by_sign, in_batches, _, _, by_dgl = answers[:6]
    result = namespace["result"]
    assert result.passes <= 12
    assert namespace["card"].passes <= 400
    np.testing.assert_array_equal(first, namespace["logits"])
    np.testing.assert_allclose(in_batches, first, atol=1e-5)
    assert by_sign.shape == (400, 2)
    from graphtemper.graph.operators import adjacency as edges

    np.testing.assert_allclose(by_dgl, (edges(source) @ source.features)[:, :2], atol=1e-4)
    assert namespace["graph"].num_nodes == 30
    assert logged["graphtemper.verdict"] == result.verdict
    assert logged["temperature"] == result.temperature
    assert logged["graphtemper/recalibration.json"] == result.to_dict()
