"""Speed and memory against named peers, as ratios measured in one run.

    python -m benchmarks.run [--out FOLDER] [--nodes N] [--only PART]

Peers that are not installed are reported as missing. Absolute times are noisy; read the ratios.
``--only`` measures some parts and keeps the other rows of the last run if its code was the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks import jobs, peers, products
from benchmarks.timing import Row, keep, kept

FILE = "benchmarks.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", default=())
    arguments = parser.parse_args()
    nodes = arguments.nodes
    parts: dict[str, Callable[[], list[Row]]] = {
        "start": jobs.start_rows,
        "recalibrate": lambda: jobs.recalibrate_rows(nodes),
        "temperature": lambda: peers.temperature_rows(5 * nodes),
        "ece": lambda: [*peers.ece_rows(nodes), *peers.ece_rows(5 * nodes)],
        "products": lambda: products.product_rows(nodes),
        "growth": products.growth_rows,
        "sign": lambda: peers.sign_rows(nodes // 5),
        "sampler": peers.sampler_rows,
        "card": jobs.card_rows,
    }
    measured = arguments.only or parts
    known = kept(arguments.out / FILE, lambda row: row["part"] in measured)
    rows: list[dict[str, object]] = []
    for name, part in parts.items():
        if name not in measured:
            rows += [row for row in known if row["part"] == name]
            continue
        for row in part():
            rows.append(row.to_dict() | {"part": name})
            print(rows[-1], flush=True)
    keep(arguments.out / FILE, "run", rows)


if __name__ == "__main__":
    main()
