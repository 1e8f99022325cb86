"""Every number that a page shows, by name: the one way from result files to README, docs, reports.

`values` returns sentences and Markdown tables by name. The documentation shows them as
substitutions (``{{ summary }}``), and `filled` puts them between the marks of files that are read
as they are, such as the README. `graphtemper_research.pages` writes those.

Means are over families first, so that a large family does not decide them. Every comparison has a
row or a column for doing nothing and for the source temperature.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from graphtemper_research.numbers import costs, exam, quality
from graphtemper_research.numbers.tables import Results, compared

# What makes a value, and the results that it is made of.
MAKERS: dict[Callable[[Results], str], tuple[str, ...]] = {
    exam.exam: ("atlas/exam",),
    exam.exam_words: (),
    exam.exam_labels: ("atlas/exam",),
    exam.exam_goals: (),
    quality.summary: (
        "atlas/atlas_bench",
        "atlas/natural_rule",
        "atlas/natural_environments",
        "atlas/labels",
    ),
    quality.known: ("atlas/atlas_bench",),
    quality.known_words: (),
    quality.trust: (),
    quality.natural: ("atlas/natural_rule",),
    quality.natural_words: (),
    quality.environments: ("atlas/natural_environments",),
    quality.labels: ("atlas/labels",),
    quality.labels_words: (),
    quality.controls: ("atlas/controls",),
    costs.cost: ("benchmarks",),
    quality.months_caption: ("months",),
    quality.months_printed: (),
    quality.months_truth: (),
    quality.atlas: ("atlas/atlas_bench",),
    quality.paper_words: ("atlas/paper_setting",),
    quality.environments_families: ("atlas/natural_environments",),
    quality.past_environments: ("atlas/natural_environments",),
    quality.per_node: ("atlas/per_node",),
    quality.class_shares: ("atlas/class_shares",),
    quality.natural_labels: ("atlas/natural_labels",),
    quality.sets: ("atlas/sets",),
    quality.sets_shares: ("atlas/sets",),
    quality.decisions: ("atlas/decisions",),
    quality.decisions_families: ("atlas/decisions",),
    costs.scale_costs: ("large",),
    costs.scale_growth: ("large",),
    costs.scale_errors: ("large", "sampling"),
    costs.scale_peers: ("large_peers",),
    costs.scale_on_paper: ("large",),
    costs.benchmarks: ("benchmarks",),
    costs.modules: ("modules",),
    costs.sample_and_all: ("modules",),
    costs.scaling_exponents: ("scaling",),
    costs.scaling_per_edge: (),
    costs.scaling_points: (),
    costs.private_cards: ("private_cards",),
}
# The comparisons of benches that pages show: the file, and how their quantities begin.
COMPARED = {
    "measured_homophily": ("atlas/atlas_bench", "SIGN, homophily, "),
    "measured_natural_labels": ("atlas/natural_labels", ""),
    "measured_natural_rule": ("atlas/natural_rule", ""),
    "measured_sessions": ("atlas/sessions", ""),
    "measured_monitoring": ("atlas/monitoring", ""),
}


def values(folder: Path) -> dict[str, str]:
    """Return every number and table of the pages by name, each with what measured it."""
    results = Results(folder)
    named = {make.__name__: (make(results), files) for make, files in MAKERS.items()}
    for name, (file, head) in COMPARED.items():
        named[name] = (compared(results, file, head), (file,))
    return {
        name: f"{text}\n\n{results.stamp(*files)}".strip() if files else text
        for name, (text, files) in named.items()
    }


def filled(text: str, named: Mapping[str, str], base: str = "") -> str:
    r"""Return a file with the values between its marks ``<!-- name -->`` and ``<!-- /name -->``.

    ``base`` is where the file finds the documentation, for the links of values.

    Examples
    --------
    >>> print(filled("Found:\n<!-- share -->\n<!-- /share -->", {"share": "61 %"}))
    Found:
    <!-- share -->
    61 %
    <!-- /share -->
    """
    return re.sub(
        r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)",
        lambda match: f"{match[1]}{named[match[2]].replace('](/', f']({base}')}\n{match[3]}",
        text,
        flags=re.S,
    )
