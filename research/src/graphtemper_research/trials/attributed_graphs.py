"""Four graphs with directions, weights, attributes or types under known shifts.

Half of the labelled nodes train a PyTorch Geometric module, a quarter makes the source card, and a
quarter is scored under shifts whose seeds the atlas never used.

============  ========================================  ==========================================
graph         source                                    module
============  ========================================  ==========================================
trust         ``bitcoin_otc``: ratings as directed      GATv2 with edge attributes
              edges, their day as edge feature
dependencies  ``ud_en``: the first 6,000 words; next    R-GCN
              word and head to dependent as two types
weighted      ``county_2012``: a border weighs          GCN with edge weights
              exp(-d^2 / median d^2), d the distance
              of the two counties' features
two types     ``villages_1``: households and their      HGT
              villages, whose features are the means
              of the households'
============  ========================================  ==========================================

``python -m graphtemper_research.trials.attributed_graphs`` prints the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch_geometric.nn import GATv2Conv, GCNConv, HGTConv, RGCNConv

from graphtemper import Graph, SourceCard, metrics, recalibrate, shifts, temperature
from graphtemper.errors import InputError
from graphtemper.pyg import predictor
from graphtemper_research.graphs.datasets import find

ATLAS: dict[str, tuple[float, ...]] = {
    "noise": (0.3, 0.7, 1.5),
    "mask": (0.3, 0.7),
    "shuffle": (0.2, 0.6),
    "rewire": (0.25, 0.6),
    "drop": (0.3, 0.7),
    "add": (0.5, 1.5),
    "scale": (0.5, 1.5),
}
COMPOSITIONS = 8
TARGETS = (
    shifts.noise(1.0),
    shifts.mask(0.5),
    shifts.shuffle(0.4),
    shifts.rewire(0.4),
    shifts.drop(0.5),
    shifts.add(1.0),
)
METHODS = ("source T", "known family", "unknown family", "oracle")


class Case(NamedTuple):
    """A graph and the module that reads all of it."""

    graph: Callable[[], Graph]
    module: Callable[[Graph], nn.Module]


class Row(NamedTuple):
    """The error of every method on one target."""

    case: str
    shift: str
    accuracy: float
    ece: dict[str, float]


class Attention(nn.Module):
    """Two layers of GATv2 that read edge attributes."""

    def __init__(self, graph: Graph, width: int = 16) -> None:
        super().__init__()
        assert graph.edge_features is not None
        self.first = GATv2Conv(graph.num_features, width, heads=2, edge_dim=1)
        self.second = GATv2Conv(2 * width, graph.num_classes, edge_dim=1)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor
    ) -> torch.Tensor:
        """Return logits (N, K)."""
        hidden = F.elu(self.first(x, edge_index, edge_attr))
        hidden = F.dropout(hidden, training=self.training)
        out: torch.Tensor = self.second(hidden, edge_index, edge_attr)
        return out


class Relational(nn.Module):
    """Two layers of R-GCN."""

    def __init__(self, graph: Graph, width: int = 32) -> None:
        super().__init__()
        assert graph.edge_type is not None
        relations = int(graph.edge_type.max()) + 1
        self.first = RGCNConv(graph.num_features, width, relations)
        self.second = RGCNConv(width, graph.num_classes, relations)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor
    ) -> torch.Tensor:
        """Return logits (N, K)."""
        hidden = F.relu(self.first(x, edge_index, edge_type))
        hidden = F.dropout(hidden, training=self.training)
        out: torch.Tensor = self.second(hidden, edge_index, edge_type)
        return out


class Weighted(nn.Module):
    """Two layers of GCN that read edge weights."""

    def __init__(self, graph: Graph, width: int = 32) -> None:
        super().__init__()
        self.first = GCNConv(graph.num_features, width)
        self.second = GCNConv(width, graph.num_classes)

    def forward(
        self, x: torch.Tensor, edge_index: torch.Tensor, edge_weight: torch.Tensor
    ) -> torch.Tensor:
        """Return logits (N, K)."""
        hidden = F.relu(self.first(x, edge_index, edge_weight))
        hidden = F.dropout(hidden, training=self.training)
        out: torch.Tensor = self.second(hidden, edge_index, edge_weight)
        return out


class Transformer(nn.Module):
    """A layer of HGT and a linear head for households."""

    def __init__(self, graph: Graph, width: int = 32) -> None:
        super().__init__()
        data: Any = graph.to_pyg()
        sizes = {kind: int(x.shape[1]) for kind, x in data.x_dict.items()}
        self.conv = HGTConv(sizes, width, data.metadata(), heads=2)
        self.head = nn.Linear(width, graph.num_classes)

    def forward(
        self, x_dict: dict[str, torch.Tensor], edge_index_dict: dict[Any, torch.Tensor]
    ) -> torch.Tensor:
        """Return logits of the households."""
        hidden = F.relu(self.conv(x_dict, edge_index_dict)["household"])
        hidden = F.dropout(hidden, training=self.training)
        out: torch.Tensor = self.head(hidden)
        return out


def _path(name: str) -> Path:
    path = find(name)
    if path is None:
        raise InputError(f"{name}.npz is not in a folder of GRAPHTEMPER_DATA; put it there.")
    return path


def _dense(graph: Graph) -> NDArray[np.float32]:
    features = graph.features
    return features if isinstance(features, np.ndarray) else features.toarray()


def trust() -> Graph:
    """Return the directed trust network with the standardised day of each rating."""
    graph = Graph.load(_path("bitcoin_otc"), arcs=True)
    assert graph.edge_features is not None
    day = graph.edge_features.astype(np.float64)
    return graph.replace(edge_features=((day - day.mean()) / day.std())[:, None])


def dependencies(num_nodes: int = 6000) -> Graph:
    """Return the first words of the English trees with two kinds of directed edges."""
    graph = Graph.load(_path("ud_en"), arcs=True).subgraph(np.arange(num_nodes))
    return graph.replace(features=_dense(graph))


def weighted() -> Graph:
    """Return the counties with borders weighed by how similar the two counties are."""
    graph = Graph.load(_path("county_2012"))
    ends = graph.features[graph.edges]
    distance = ((ends[:, 0] - ends[:, 1]) ** 2).sum(axis=1)
    return graph.replace(edge_weight=np.exp(-distance / np.median(distance)))


def two_types() -> Graph:
    """Return the households and villages of one quarter of the villages."""
    path = _path("villages_1")
    plain = Graph.load(path)
    place = plain.environment
    assert place is not None
    villages, village = np.unique(place, return_inverse=True)
    members = np.eye(villages.size)[village]
    count, number = members.sum(axis=0), np.arange(plain.num_nodes)
    own = _dense(plain)
    means = (members.T @ own) / count[:, None]
    width = plain.num_features
    features = np.zeros((plain.num_nodes + villages.size, 2 * width), dtype=np.float32)
    features[: plain.num_nodes, :width], features[plain.num_nodes :, width:] = own, means
    inside = np.column_stack([number, plain.num_nodes + village])
    parts = [plain.edges, plain.edges[:, ::-1], inside, inside[:, ::-1]]
    assert plain.labels is not None
    return Graph(
        features=features,
        edges=np.concatenate(parts),
        directed=True,
        labels=np.append(plain.labels, np.full(villages.size, -1)),
        edge_type=np.repeat([0, 0, 1, 2], [len(part) for part in parts]),
        edge_type_names=(
            "household__tie__household",
            "household__in__village",
            "village__has__household",
        ),
        node_type=np.repeat([0, 1], [plain.num_nodes, villages.size]),
        node_type_names=("household", "village"),
        target_type=0,
        type_columns=np.array([[0, width], [width, 2 * width]]),
    )


CASES = {
    "trust": Case(trust, Attention),
    "dependencies": Case(dependencies, Relational),
    "weighted": Case(weighted, Weighted),
    "two types": Case(two_types, Transformer),
}


def train(
    module: nn.Module, graph: Graph, nodes: NDArray[np.int64], epochs: int = 150
) -> nn.Module:
    """Train on the labels of some nodes and return the module."""
    data: Any = graph.to_pyg()
    place = np.searchsorted(graph.classified, nodes)
    assert graph.labels is not None
    labels = torch.from_numpy(graph.labels[nodes])
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01, weight_decay=5e-4)
    by_type = graph.node_type_names is not None
    names = ("edge_weight", "edge_attr", "edge_type")
    fields = () if by_type else [data[name] for name in names if name in data]
    inputs = (data.x_dict, data.edge_index_dict) if by_type else (data.x, data.edge_index, *fields)
    module.train()
    for _ in range(epochs):
        optimiser.zero_grad()
        loss = F.cross_entropy(module(*inputs)[place], labels)
        torch.autograd.backward(loss)
        optimiser.step()
    return module.eval()


def measure(
    name: str,
    seed: int = 0,
    *,
    graph: Graph | None = None,
    epochs: int = 150,
    compositions: int = COMPOSITIONS,
    atlas: dict[str, tuple[float, ...]] | None = None,
    targets: Sequence[shifts.Shift] = TARGETS,
) -> Iterator[Row]:
    """Yield the calibration error of every method under each target shift of one case."""
    case = CASES[name]
    graph = case.graph() if graph is None else graph
    order = np.random.default_rng([seed, 1]).permutation(graph.labelled)
    half, most = order.size // 2, 3 * order.size // 4
    training, val, test = (np.sort(part) for part in np.split(order, [half, most]))
    torch.manual_seed(seed)
    model = predictor(train(case.module(graph), graph, training, epochs))
    card = SourceCard.build(
        model,
        graph,
        val,
        seed=seed,
        shifts=atlas or ATLAS,
        compositions=compositions,
        budget="thorough",
    )
    assert graph.labels is not None
    labels = graph.labels[test]
    at_home = np.asarray(model(graph), dtype=np.float64)[val]
    source = temperature.fit(at_home, graph.labels[val])  # the card's own is rounded
    for number, shift in enumerate(targets):
        target = shift(graph, seed=10_000 + 100 * seed + number)
        logits = np.asarray(model(target), dtype=np.float64)[test]
        answers = {
            "source T": source,
            "known family": recalibrate(model, target, card, test).temperature,
            "unknown family": recalibrate(
                model, target, card.without(shift.family), test
            ).temperature,
            "oracle": temperature.fit(logits, labels),
        }
        ece = {
            method: metrics.ece(temperature.apply(logits, value), labels)
            for method, value in answers.items()
        }
        accuracy = float((logits.argmax(axis=1) == labels).mean())
        yield Row(name, repr(shift), accuracy, ece)


def table(rows: Sequence[Row]) -> str:
    """Return means per case as a Markdown table."""
    lines = [
        f"| graph | accuracy | {' | '.join(METHODS)} |",
        f"| --- | --: | {' | '.join('--:' for _ in METHODS)} |",
    ]
    for name in dict.fromkeys(row.case for row in rows):
        own = [row for row in rows if row.case == name]
        means = [float(np.mean([row.ece[method] for row in own])) for method in METHODS]
        accuracy = float(np.mean([row.accuracy for row in own]))
        cells = " | ".join(f"{mean:.3f}" for mean in means)
        lines.append(f"| {name} | {accuracy:.3f} | {cells} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table of some or all cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], default=list(CASES))
    parser.add_argument("--seeds", type=int, default=1, help="number of splits")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for name in options.cases:
        for seed in range(options.seeds):
            rows += measure(name, seed)
            print(table(rows), flush=True)


if __name__ == "__main__":
    main()
