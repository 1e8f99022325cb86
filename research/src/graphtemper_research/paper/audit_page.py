"""The audit: each claim of the paper, what its code does, what is measured here, and a verdict.

``claims.toml`` has the claims, the numbers that each is held against, one sentence and the
condition under which its verdict stands; this reads the numbers from the results and writes the
page. Conditions and formulas are arithmetic over names (`calculated`); nothing in them is run.
"""

from __future__ import annotations

import ast
import operator
import tomllib
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from graphtemper import theory
from graphtemper_research.harness.frame import Row, select
from graphtemper_research.harness.html import text_of
from graphtemper_research.numbers.tables import Results
from graphtemper_research.paper import FIGURES
from graphtemper_research.paper.real import PUBLISHED

Numbers = dict[str, Any]
TAKE: dict[str, Callable[[list[Any]], Any]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "max": max,
    "min": min,
    "count": len,
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.IsNot: operator.is_not,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "max": max, "min": min}
_FUNCTIONS |= {f"theory.{name}": getattr(theory, name) for name in theory.__all__}
_PRINTED = {
    "printed_questions": PUBLISHED["questions"],
    "printed_oracles": [row[-1] for row in PUBLISHED.values()],
}
# What selects rows is named after their columns, but for these.
_OWN = ("in", "key", "take", "having", "text", "off")


class NotMeasuredError(Exception):
    """What a sentence needs is not in the results."""


def claims() -> list[dict[str, Any]]:
    """Return the claims, in the order of the page.

    Examples
    --------
    >>> claims()[0]["title"]
    'Uncalibrated ECE on binary graphs'
    """
    found: list[dict[str, Any]] = tomllib.loads(text_of(__package__, "claims.toml"))["claim"]
    return found


def needs(claim: Mapping[str, Any]) -> list[str]:
    """Return the names of the results that a claim is held against."""
    sources = (*claim["numbers"].values(), *claim.get("lists", {}).values())
    named = (
        one.partition(":")[0] if isinstance(one, str) else one["in"]
        for one in sources
        if not isinstance(one, str) or not one.startswith("=")
    )
    return sorted(set(named))


def numbers_of(claim: Mapping[str, Any], results: Results) -> Numbers:
    """Return the numbers and the lists of a claim, by name.

    A comparison also gives its note and what the paper prints, as ``_note`` and ``_published``.
    """
    found: Numbers = {}
    for name, source in claim["numbers"].items():
        if isinstance(source, dict):
            values = [_value(source["key"], row) for row in _rows(source, results)]
            found[name] = TAKE[source.get("take", "first")](values)
        elif source.startswith("="):
            found[name] = _value(source[1:].strip(), found)
        else:
            file, _, quantity = source.partition(": ")
            bar = _comparison(results, file, quantity)
            found[name] = bar["measured"]
            found[f"{name}_note"], found[f"{name}_published"] = bar["note"], bar["published"]
    for name, source in claim.get("lists", {}).items():
        found[name] = "; ".join(
            source["text"].format_map({**row, "off": _value(source.get("off", "0"), row)})
            for row in _rows(source, results)
        )
    return found


def holds(claim: Mapping[str, Any], found: Numbers) -> bool:
    """Say whether the numbers show what the verdict says."""
    return bool(_value(claim["holds"], found))


def render(folder: Path) -> str:
    """Return the audit as Markdown; a claim whose measurement is missing has no verdict."""
    results = Results(folder)
    lines = [
        "# Audit of the paper",
        "",
        "Claim by claim: what the paper says, what its released code does, what this repository",
        "measures. The numbers come from the files behind [results.md](results.md). A claim that",
        "is not measured has no verdict.",
        "",
    ]
    for number, claim in enumerate(claims(), start=1):
        lines += [f"## {number}. {claim['title']}", "", f"- **The paper:** {claim['paper']}"]
        lines += [f"- **Its code:** {claim['code']}", *_findings(claim, results), ""]
    files = [name for name in FIGURES if (folder / f"{name}.json").is_file()]
    return "\n".join([*lines, results.stamp(*files), ""])


def _findings(claim: Mapping[str, Any], results: Results) -> list[str]:
    missing = [name for name in needs(claim) if not (results.folder / f"{name}.json").is_file()]
    if missing:
        commands = ("paper" if name in FIGURES else "bench" for name in missing)
        run = " and ".join(
            f"`graphtemper {verb} {name}`" for verb, name in zip(commands, missing, strict=True)
        )
        return [f"- **Measured:** not measured yet: run {run}."]
    try:
        found = numbers_of(claim, results)
    except NotMeasuredError as gap:
        return [f"- **Measured:** not measured on this machine: {gap}."]
    verdict = claim["verdict"] if holds(claim, found) else "none: the numbers do not decide it."
    measured = claim["measured"].format_map(found)
    return [f"- **Measured:** {measured}", f"- **Verdict:** {verdict}"]


def _comparison(results: Results, file: str, quantity: str) -> dict[str, Any]:
    """Return the comparison of a quantity, or the first that starts with the text."""
    found = [
        item
        for item in results.read(file)["comparisons"]
        if item["measured"] is not None and item["quantity"].startswith(quantity)
    ]
    if not found:
        raise NotMeasuredError(quantity)
    chosen: dict[str, Any] = min(found, key=lambda item: item["quantity"] != quantity)
    return chosen


def _rows(source: Mapping[str, Any], results: Results) -> list[Row]:
    """Return the rows that a number or a list is about; at least one, unless it counts them."""
    wanted = {key: value for key, value in source.items() if key not in _OWN}
    rows: list[Row] = [
        row
        for row in select(results.rows(source["in"]), **wanted)
        if _value(source.get("having", "True"), row)
    ]
    if not rows and source.get("take") != "count":
        raise NotMeasuredError(", ".join(str(value) for value in wanted.values()))
    return rows


def _value(expression: str, names: Mapping[str, Any]) -> Any:
    return calculated(ast.parse(expression, mode="eval").body, {**_PRINTED, **names})


def calculated(node: ast.AST, names: Mapping[str, Any]) -> Any:
    """Return the value of parsed arithmetic: numbers, names, operators and a few functions.

    Examples
    --------
    >>> calculated(ast.parse("abs(low - 1) < 0.5 < high", mode="eval").body, {"low": 1, "high": 2})
    True
    """

    def of(part: ast.AST) -> Any:
        return calculated(part, names)

    match node:
        case ast.Constant(value=int() | float() | None):
            return node.value
        case ast.Name() if node.id in names:
            return names[node.id]
        case ast.BinOp() if type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](of(node.left), of(node.right))
        case ast.UnaryOp() if type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](of(node.operand))
        case ast.BoolOp(op=ast.And()):
            return all(map(of, node.values))
        case ast.Compare() if all(type(op) in _OPERATORS for op in node.ops):
            values = map(of, [node.left, *node.comparators])
            pairs = zip(node.ops, pairwise(values), strict=True)
            return all(_OPERATORS[type(op)](*pair) for op, pair in pairs)
        case ast.Call(keywords=[]) if ast.unparse(node.func) in _FUNCTIONS:
            return _FUNCTIONS[ast.unparse(node.func)](*map(of, node.args))
        case ast.Subscript():
            return of(node.value)[of(node.slice)]
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic that a claim may use.")
