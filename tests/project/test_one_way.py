"""There is one softmax, one binning kernel, one sparse product and one node selection.

Each test walks the syntax trees of the library and of the research package, lists the places that
do the thing by hand, and compares them with a short list of exceptions, each with its reason. An
exception that is no longer needed fails as well.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "src" / "graphtemper", ROOT / "research" / "src" / "graphtemper_research")

# Module -> why it does not call the shared function.
SOFTMAX_ELSEWHERE = {
    "graphtemper_research/baselines/importance.py": "weights of source nodes, not of classes",
    "graphtemper/theory/aggregated_law.py": "weights of a binomial distribution",
}
BINNING_ELSEWHERE = {
    "graphtemper_research/baselines/importance.py": "slices of nodes by three numbers at once",
    "graphtemper_research/baselines/target_temperature.py": "quantile bins of two samples",
    "graphtemper_research/baselines/stac_per_node.py": "splines share a node among three bins",
    "graphtemper/card/class_profile.py": "thirds of the source's confidence are categories",
    "graphtemper/shifts/structure.py": "a uniform number becomes a random index",
    "graphtemper/signals/sampling.py": "strata of a sample, of which no average is taken",
}
SPARSE_PRODUCT_ELSEWHERE = {
    "graphtemper/cli/demo_job.py": "features of a sampled graph are dense",
}
SELECTION_ELSEWHERE: dict[str, str] = {}


@cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    return tuple(
        (f"{folder.name}/{path.relative_to(folder).as_posix()}", ast.parse(path.read_text("utf-8")))
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.py"))
    )


def _functions(tree: ast.Module) -> Iterator[list[ast.AST]]:
    """Yield the syntax nodes of each function, and of the module, without those of inner ones."""
    stack: list[ast.AST] = [tree]
    while stack:
        root = stack.pop()
        body: list[ast.AST] = []
        queue = list(ast.iter_child_nodes(root))
        while queue:
            node = queue.pop()
            if isinstance(node, ast.FunctionDef):
                stack.append(node)
            else:
                body.append(node)
                queue.extend(ast.iter_child_nodes(node))
        yield body


def _places(breaks_the_rule: Callable[[list[ast.AST]], bool], *, home: str) -> set[str]:
    return {
        module
        for module, tree in _modules()
        if module != home and any(breaks_the_rule(body) for body in _functions(tree))
    }


def _is_call(node: ast.AST, *names: str) -> bool:
    """Whether the node calls ``np.<name>`` or ``<anything>.<name>`` for one of the names."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
    )


def _divides_exponentials_by_their_sum(body: list[ast.AST]) -> bool:
    exponentials = {"exp(...)"}
    for node in body:
        if isinstance(node, ast.Assign) and _is_call(node.value, "exp"):
            exponentials |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in body:
        if not (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)):
            continue
        above, below = (
            (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        )
        exponential = _is_call(above, "exp") or (
            isinstance(above, ast.Name) and above.id in exponentials
        )
        if exponential and any(_is_call(part, "sum") for part in ast.walk(below)):
            return True
    return False


def _imports_a_softmax(body: list[ast.AST]) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("scipy")
        and any(name.name in ("softmax", "log_softmax", "logsumexp") for name in node.names)
        for node in body
    )


def _bins_by_hand(body: list[ast.AST]) -> bool:
    for node in body:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.digitize", "np.histogram"):
            return True
        # (confidence * bins).astype(np.intp)
        if (
            _is_call(node, "astype")
            and isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.args[0]) in ("int", "np.intp", "np.int64")
            and (
                (
                    isinstance(node.func.value, ast.BinOp)
                    and isinstance(node.func.value.op, ast.Mult)
                )
                or ast.unparse(node.func.value) == "position"
            )
        ):
            return True
        # np.searchsorted(edges, confidence)
        if (
            _is_call(node, "searchsorted")
            and isinstance(node, ast.Call)
            and "edges" in ast.unparse(node.args[0])
        ):
            return True
    return False


def _multiplies_a_sparse_matrix(body: list[ast.AST]) -> bool:
    # Types are not in the tree. A matrix may be sparse if SciPy's sparse module made it, or if it
    # is (a part of) the features of a graph.
    names = {"features"}
    for node in body:
        if isinstance(node, ast.Assign) and _may_be_sparse(node.value, names):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.MatMult)
        and (_may_be_sparse(node.left, names) or _may_be_sparse(node.right, names))
        for node in body
    )


def _may_be_sparse(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).startswith("sp.")
    if isinstance(node, ast.Subscript):
        return _may_be_sparse(node.value, names)
    if isinstance(node, ast.Attribute):
        return node.attr in ("features", "operator") or (
            node.attr == "T" and _may_be_sparse(node.value, names)
        )
    return isinstance(node, ast.Name) and node.id in names


def _selects_nodes_by_hand(body: list[ast.AST]) -> bool:
    return any(
        _is_call(node, "flatnonzero", "asarray")
        and isinstance(node, ast.Call)
        and bool(node.args)
        and ast.unparse(node.args[0]) == "nodes"
        for node in body
    )


@pytest.mark.cpu(4)  # the first one parses all files
@pytest.mark.parametrize(
    ("rule", "home", "exceptions"),
    [
        (_imports_a_softmax, "", {}),
        (
            _divides_exponentials_by_their_sum,
            "graphtemper/temperature/scaling.py",
            SOFTMAX_ELSEWHERE,
        ),
        (_bins_by_hand, "graphtemper/metrics/binned.py", BINNING_ELSEWHERE),
        (_multiplies_a_sparse_matrix, "graphtemper/graph/operators.py", SPARSE_PRODUCT_ELSEWHERE),
        (_selects_nodes_by_hand, "graphtemper/graph/graph.py", SELECTION_ELSEWHERE),
    ],
    ids=["softmax import", "softmax", "binning", "sparse product", "node selection"],
)
def test_there_is_one_way(
    rule: Callable[[list[ast.AST]], bool], home: str, exceptions: dict[str, str]
) -> None:
    assert _places(rule, home=home) == set(exceptions)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (_imports_a_softmax, "from scipy.special import softmax"),
        (_divides_exponentials_by_their_sum, "w = np.exp(z)\np = w / w.sum(axis=1)"),
        (_divides_exponentials_by_their_sum, "w = np.exp(z)\nw /= w.sum(axis=0)"),
        (_bins_by_hand, "index = np.minimum((confidence * bins).astype(np.intp), bins - 1)"),
        (_bins_by_hand, "np.histogram(confidence, 15)"),
        (_multiplies_a_sparse_matrix, "members = sp.csr_matrix(x)\nsums = members @ rows"),
        (_multiplies_a_sparse_matrix, "graph.features @ weights"),
        (_selects_nodes_by_hand, "rows = np.flatnonzero(nodes)"),
    ],
)
def test_each_rule_sees_what_it_forbids(rule: Callable[[list[ast.AST]], bool], code: str) -> None:
    (body,) = _functions(ast.parse(code))
    assert rule(body)
