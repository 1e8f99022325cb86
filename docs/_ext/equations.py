"""The table equation -> function -> test, read from docstrings and from the tests.

A docstring states an item of the paper if its first line or a parenthesis cites the item, by label
(``thm:kappa``) or by printed name (Algorithm 1). A test checks a function if it calls it by name.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

# Labels of the paper's source, and what the reader of the paper sees.
ITEMS = {
    "as:csbm": "Assumption 1",
    "as:deg": "Assumption 2",
    "as:clf": "Assumption 3",
    "as:reg": "Assumption 4",
    "lem:agg": "Lemma 1",
    "thm:kappa": "Theorem 1",
    "eq:kappa": "Equation 1",
    "rem:kappa": "Remark on Equation 1",
    "fig:concept": "Figure 1",
    "cor:global": "Corollary 1",
    "prop:sl": "Proposition 1",
    "prop:K": "Proposition 2",
    "prop:cov": "Proposition 3",
    "prop:bound": "Proposition 4",
    "rem:berry": "Remark on finite degree",
    "alg:stac": "Algorithm 1",
}
# The names by which tests import modules, and the modules.
MODULES = {
    "theory": "theory",
    "finite_degree": "theory.finite_degree",
    "csbm": "theory.csbm",
    "stac": "calibrators.stac",
    "stac_variants": "graphtemper_research.baselines.stac_variants",
    "stac_per_node": "graphtemper_research.baselines.stac_per_node",
}
# Everything in these is a statement about the model, cited or not.
THEORY = ("theory", "finite_degree")
LABEL = re.compile(r"``((?:as|lem|thm|eq|rem|fig|cor|prop|alg):\w+)``")
SHOWN_TESTS = 3


@dataclass(frozen=True)
class Row:
    """A function: its public name, the items it states, its formula and its tests."""

    name: str
    items: tuple[str, ...]
    formula: str
    tests: tuple[str, ...]


def rows(tests: Path) -> list[Row]:
    """Return the functions of the theory, with the tests of a folder that call them."""
    called = list(_calls(tests))
    table, functions = [], set()
    for alias, module in MODULES.items():
        for name, function in _functions(module):
            if function in functions:
                continue
            functions.add(function)
            text = inspect.getdoc(function) or ""
            items = tuple(cited(text))
            if not items and alias not in THEORY:
                continue
            home = function.__module__.removeprefix("graphtemper.").lstrip("_")
            checks = _checks(called, name, {alias, module, home, home.rpartition(".")[2]})
            table.append(Row(f"{module}.{name}", items, formula(text), checks))
    return table


def cited(text: str) -> list[str]:
    """Return the labels that a docstring states, in their order."""
    first, _, _ = text.partition("\n")
    places = [first, *re.findall(r"\(([^()]*``[^()]*)\)", text)]
    printed = {name: label for label, name in ITEMS.items() if name[-1].isdigit()}
    labels = []
    for place in places:
        labels += LABEL.findall(place)
        labels += [printed[name] for name in printed if re.search(rf"\b{name}\b", place)]
    return list(dict.fromkeys(labels))


def formula(text: str) -> str:
    """Return what a docstring says after "Formula:", up to its assumptions."""
    match = re.search(r"Formula: (.*?)(?=\.\s+[A-Z`]|\.?\n\n|$)", text, flags=re.S)
    return "" if match is None else " ".join(match[1].split()).rstrip(".")


def markdown(tests: Path) -> str:
    """Return both tables: what the paper states, and what goes beyond it."""
    table = rows(tests)
    order = list(ITEMS)
    stated = sorted((row for row in table if row.items), key=lambda row: order.index(row.items[0]))
    beyond = [row for row in table if not row.items]
    lines = ["| paper | function | formula | checked by |", "| --- | --- | --- | --- |"]
    lines += [f"| {_items(row)} | {_shared(row)} |" for row in stated]
    lines += ["", "Not in the paper:", "", "| function | formula | checked by |"]
    lines += ["| --- | --- | --- |", *(f"| {_shared(row)} |" for row in beyond)]
    return "\n".join(lines) + "\n"


def _items(row: Row) -> str:
    return ", ".join(f"{ITEMS[label]} (`{label}`)" for label in row.items)


def _shared(row: Row) -> str:
    names = [name.partition("test_")[2].replace("_", " ") for name in row.tests[:SHOWN_TESTS]]
    more = len(row.tests) - len(names)
    tests = "; ".join(names) + (f"; {more} more" if more > 0 else "")
    text = row.formula.replace("|", "\\|").replace("``", "`").replace("*", "\\*")
    # The reference documents the library alone.
    research = row.name.startswith("graphtemper_research")
    function = f"`{row.name}`" if research else f"{{py:obj}}`{row.name} <graphtemper.{row.name}>`"
    return f"{function} | {text} | {tests}"


def _functions(module_name: str) -> Iterator[tuple[str, FunctionType]]:
    research = module_name.startswith("graphtemper_research")
    module = importlib.import_module(module_name if research else f"graphtemper.{module_name}")
    public = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    for name in public:
        value = getattr(module, name)
        if inspect.isfunction(value):
            yield name, value


def _calls(tests: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield (file, test, module, function) for every function that a test names.

    In each file, tests of results come before tests of errors.
    """
    for path in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        imported = {
            alias.asname or alias.name: (node.module.removeprefix("graphtemper."), alias.name)
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("graphtemper")
            for alias in node.names
        }
        defined = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for test in sorted(defined, key=lambda node: "pytest.raises" in ast.unparse(node)):
            if not test.name.startswith("test_"):
                continue
            for part in ast.walk(test):
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                    yield path.stem, test.name, part.value.id, part.attr
                elif isinstance(part, ast.Name) and part.id in imported:
                    yield path.stem, test.name, *imported[part.id]


def _checks(
    called: list[tuple[str, str, str, str]], name: str, modules: set[str]
) -> tuple[str, ...]:
    """Return the tests of a function, only those in its own test file if there are any."""
    tests = [
        (file, test)
        for file, test, module, function in called
        if function == name and module in modules
    ]
    own = [item for item in tests if item[0].removeprefix("test_") in modules]
    return tuple(dict.fromkeys(test for _, test in own or tests))
