"""The objects that the pages assume: a model, its graphs and its card."""

import shutil
from functools import cache
from pathlib import Path

from graphtemper import SourceCard, csbm, recalibrate, shifts, suggest_labels
from graphtemper.models import SIGN


@cache
def made() -> dict:
    """Return the objects, which are made once."""
    settings = {"degree": 6, "snr": 1.0, "num_features": 6}
    source = csbm.sample(600, homophily=0.8, seed=1, **settings)
    target = shifts.noise(0.5)(csbm.sample(600, homophily=0.7, seed=2, **settings), 5)
    model = SIGN(hops=1).fit(source, range(300))
    card = SourceCard.build(model, source, range(300, 600), compositions=0)
    return {"source": source, "target": target, "model": model, "card": card}


def names() -> dict:
    """Return what blocks of a page can use: the objects, and the functions of the main job."""
    functions = {"recalibrate": recalibrate, "suggest_labels": suggest_labels, "keep": keep}
    return dict(made()) | functions


def keep(file: Path, name: str) -> None:
    """Keep a page that a block has written, for readers to download."""
    shutil.copy(file, Path(__file__).parents[1] / "_generated" / name)
