"""Pages state the fields of files and the codes of errors."""

import json
import re

import pytest
from tests.helpers import FEW_SHIFTS

from graphtemper import SourceCard, csbm, errors
from graphtemper.models import SIGN
from graphtemper.recalibration.report.schema import schema


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    g = csbm.sample(300, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
    path = tmp_path_factory.mktemp("card") / "model.card.json"
    model = SIGN(hops=1).fit(g, range(150))
    built = SourceCard.build(
        model, g, range(150, 300), compositions=0, shifts=FEW_SHIFTS, budget=500
    )
    other = csbm.sample(300, degree=6, homophily=0.7, snr=1.0, num_features=6, seed=2)
    built.learn(model, other, name="May").save(path)
    return json.loads(path.read_text("utf-8"))


def paths(node, here=""):
    """Yield the paths of everything that is not an object itself."""
    if isinstance(node, list) and node and isinstance(node[0], dict):
        yield from paths(node[0], f"{here}[]")
    elif isinstance(node, dict):
        for name, child in node.items():
            yield from paths(child, f"{here}.{name}" if here else name)
    else:
        yield here


def test_the_page_of_errors_has_every_code(docs):
    page = (docs / "formats" / "errors.md").read_text("utf-8")
    listed = re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|", page, flags=re.M)
    public = vars(errors).values()
    classes = [item for item in public if isinstance(item, type)]
    ours = [kind for kind in classes if issubclass(kind, errors.GraphTemperError)]
    kinds = [(kind.code, kind.owner.__name__) for kind in public if isinstance(kind, errors.Kind)]
    assert sorted(listed) == sorted([(kind.code, kind.__name__) for kind in ours] + kinds)


def test_the_card_page_names_every_field_and_no_other(card, docs):
    page = (docs / "formats" / "card.md").read_text("utf-8")
    table = page.partition("| --- |")[2]
    named = {
        name for row in table.splitlines() for name in re.findall(r"`([\w.*\[\]]+)`", row[:400])
    }
    held = {re.sub(r"^(\w*responses)\.(model|logits)\.", r"\1.*.", p) for p in paths(card)}
    named -= {"model", "logits", "class_profile"}
    assert named == held


@pytest.mark.parametrize(("kind", "count"), [("report", 100), ("recalibration", 60)])
def test_every_field_of_a_schema_is_listed(extension, kind, count):
    text = extension("generated_parts").fields(schema(kind))
    listed = re.findall(r"^\| `([^`]+)`", text, flags=re.M)
    assert len(listed) == len(set(listed)) > count
    assert set(schema(kind)["properties"]) <= set(listed)
