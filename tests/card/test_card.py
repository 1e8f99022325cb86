import json
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import raises

from graphtemper import SourceCard, csbm, recalibrate, shifts
from graphtemper._core.safe_reading import sealed
from graphtemper.card.card import MAX_BYTES
from graphtemper.card.format import check_size
from graphtemper.errors import FileError, InputError, VersionError
from graphtemper.models import SGC, SIGN
from graphtemper.signals import node_signals

NODES = np.arange(150, 300)
# What a card does with an atlas does not depend on its size.
LEVELS = {
    "noise": (0.5, 2.0),
    "mask": (0.3, 0.8),
    "rewire": (0.2, 0.8),
    "drop": (0.5,),
    "homophily": (-0.5,),
}


def build(*arguments, **options):
    return SourceCard.build(*arguments, shifts=LEVELS, **options)


def _sample(seed=1, num_features=6, num_classes=3):
    return csbm.sample(
        300,
        degree=6,
        homophily=0.8,
        snr=1.0,
        num_classes=num_classes,
        num_features=num_features,
        seed=seed,
    )


@pytest.fixture(scope="module")
def graph():
    return _sample()


@pytest.fixture(scope="module")
def model(graph):
    return SIGN(hops=1).fit(graph, range(150))


@pytest.fixture(scope="module")
def card(graph, model):
    return build(model, graph, NODES, compositions=3)


@pytest.fixture
def text(card, tmp_path):
    card.save(tmp_path / "card.json")
    return (tmp_path / "card.json").read_text()


def _write(tmp_path, content):
    path = tmp_path / "edited.json"
    path.write_text(content if isinstance(content, str) else sealed(content))
    return path


def _edit(content, where, value):
    """Set one field, by its path; `...` removes it."""
    *parents, last = where
    inner = content
    for key in parents:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return content


def test_a_card_answers_alike_before_and_after_it_has_travelled(card, model, tmp_path):
    card.save(tmp_path / "a.json")
    again = SourceCard.load(tmp_path / "a.json")
    again.save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    target = shifts.noise(1.0)(_sample(seed=2), 3)
    for predictor in (model, model(target)):
        one, two = (recalibrate(predictor, target, c) for c in (card, again))
        assert one.to_dict() == two.to_dict()
        assert one.probabilities.tobytes() == two.probabilities.tobytes()


def test_a_card_is_small_and_holds_no_row_of_a_node(card, text):
    assert len(text) < MAX_BYTES
    content = json.loads(text)
    # Classes, rows of a triangle, a covariance with its error, the fixed path of six nodes, the
    # atlas, and thirds of the confidences in each predicted class.
    allowed = {1, 3, 2, 6, 9, len(card.atlas), len(content["signals"])}
    allowed |= {len(node_signals.SIGNALS), len(node_signals.PLAIN_SIGNALS)}
    allowed.add(len(content["population"]["sketch"]))

    def check(value, where):
        if isinstance(value, dict):
            for key, item in value.items():
                check(item, f"{where}.{key}")
        elif isinstance(value, list):
            texts = all(isinstance(item, str) for item in value)
            assert texts or len(value) in allowed, where
            for item in value:
                check(item, where)
        elif isinstance(value, str):
            assert len(value) < 200, where  # nothing is packed into a text

    assert content["probe"].pop("second") is None  # too few labels that are not the card's own
    apart = content["population"].pop("apart")
    assert len(apart) == 4 * -(-len(content["population"]["sketch"]) * 2 // 3)
    check(content, "card")
    assert len(content["probe"]["column_std"]) == 16  # six columns, in base64


def test_sixty_classes_fit(tmp_path):
    graph = csbm.sample(1500, 8, 0.8, 3.0, num_classes=60, num_features=64, seed=1)
    model = SIGN(hops=1).fit(graph, range(750))
    few = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,), "homophily": (-0.3,)}
    card = SourceCard.build(model, graph, range(750, 1500), shifts=few, compositions=6)
    card.save(tmp_path / "card.json")
    again = SourceCard.load(tmp_path / "card.json")
    covariance = again.reference.evidence.covariance
    np.testing.assert_array_equal(covariance, covariance.T)
    np.testing.assert_array_equal(covariance, card.reference.evidence.covariance)
    assert again.to_json() == card.to_json()
    # The default atlas has 132 shifts, and what is foreseen is not less than what is written.
    probe = replace(card.probe, column_std=np.ones(1500))
    # Moments of columns have what room is left.
    large = {"atlas": (card.atlas * 12)[:132], "probe": probe, "columns": None}
    large = replace(card, num_features=1500, **large)
    check_size(60, 1500, 132)
    large.save(tmp_path / "large.json")
    assert 0.94 * MAX_BYTES < len(large.to_json()) <= MAX_BYTES
    for sizes in ((65, 64, 132), (60, 3000, 132), (60, 64, 160)):
        with raises("range"):
            check_size(*sizes)


def test_the_same_seed_gives_the_same_bytes(card, graph, model, tmp_path):
    card.save(tmp_path / "a.json")
    build(model, graph, NODES, compositions=3).save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_labels_outside_the_chosen_nodes_are_never_read(card, graph, model):
    """Only `homophily` re-draws edges by label, at the source; the others never look."""
    names = [name for name in LEVELS if name != "homophily"]
    hidden = np.where(np.isin(np.arange(300), NODES), graph.labels, -1)
    cards = [
        build(model, g, NODES, compositions=2, exclude=("homophily",))
        for g in (graph, graph.replace(labels=hidden, class_names=graph.class_names))
    ]
    assert [e.__dict__ for e in cards[0].atlas] == [e.__dict__ for e in cards[1].atlas]
    assert set().union(*(e.families for e in cards[0].atlas)) == set(names)


EDITS = [
    (("schema",), ...),
    (("schema",), 1),
    (("predictor",), 5),
    (("num_classes",), 3.0),
    (("num_classes",), True),
    (("num_classes",), 4),
    (("num_features",), 7),
    (("num_nodes",), 10**400),
    (("fingerprint",), [[1.0, 2.0]]),
    (("fingerprint",), "none"),
    (("excluded",), [3]),
    (("probe",), []),
    (("probe", "temperature"), "1.0"),
    (("probe", "temperature"), 10**400),
    (("probe", "noise_level"), None),
    (("probe", "splits"), 10**9),
    (("probe", "column_std"), "AAAA"),
    (("probe", "column_std"), "AA*A"),
    (("probe", "column_std"), 7),
    (("reference", "accuracy"), 1.1),
    (("reference", "moments", "shares"), [-1.0, 1.0, 1.0]),
    (("reference", "moments", "shares"), ["0.5", "0.3", "0.2"]),
    (("reference", "moments", "offsets"), [[0.0] * 3, [0.0]]),
    (("reference", "moments", "offsets", 0, 0), None),
    (("reference", "evidence", "held"), [1.0, -1.0]),
    (("reference", "evidence", "held"), [1.0]),
    (("reference", "evidence", "covariance", 0, 0), -1.0),
    (("reference", "evidence", "feature"), None),
    (("population", "sketch"), []),
    (("class_profile", "counts"), [[1, 2]]),
    (("class_profile", "edges"), [0.5, 7.0]),
    (("signals",), ["confidence"]),
    (("population", "sketch"), [0.0] * 129),
    (("responses", "model", "names"), ["telepathy"]),
    (("responses", "logits", "names"), ["confidence", "confidence"]),
    (("responses", "model", "kernel", "noise"), 0.0),
    (("node_responses", "model", "weights"), [0.0]),
    (("atlas",), []),
    (("atlas", 2), None),
    (("atlas", 2, "families"), "noise"),
    (("atlas", 2, "signals"), [0.5]),
    (("atlas", 2, "signals", 3), 1e9),
]


@pytest.mark.parametrize(("where", "value"), EDITS)
def test_an_edited_card_is_refused_by_field(text, tmp_path, where, value):
    path = _write(tmp_path, _edit(json.loads(text), where, value))
    with raises("damaged") as caught:
        SourceCard.load(path)
    assert "\n" not in str(caught.value)
    # Other fields do not fit wrong sizes.
    assert where[0] in str(caught.value) or where[0] in ("num_classes", "num_features")


def test_every_field_is_needed(text, tmp_path):
    """Leave out each key in turn, at every depth: none is forgotten, and each is named."""

    def keys(value, where=()):
        if isinstance(value, dict):
            for key, item in value.items():
                yield (*where, key)
                yield from keys(item, (*where, key))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from keys(value[0], (*where, 0))

    for where in set(keys(json.loads(text))) - {("crc32",)}:
        path = _write(tmp_path, _edit(json.loads(text), where, ...))
        with raises("damaged"):
            SourceCard.load(path)


def test_unknown_fields_are_ignored(card, text, tmp_path):
    content = json.loads(text)
    content["later"] = {"deep": [1, {"er": None}]}
    content["probe"]["later"] = 3
    content["atlas"][0]["later"] = "x"
    SourceCard.load(_write(tmp_path, content)).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == text


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-1],
        lambda text: "not json",
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"num_classes":3', '"num_classes":NaN'),
        lambda text: text.replace('"accuracy":0.', '"accuracy":1e999, "x":0.', 1),
        lambda text: text.replace('"num_nodes":150', '"num_nodes":' + "9" * 5000),
        lambda text: text + " " * 500_000,
        lambda text: text + "{}",
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(text, tmp_path, damage):
    with raises(("damaged", "oversize")) as caught:
        SourceCard.load(_write(tmp_path, damage(text)))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_files_that_are_no_text_or_not_there_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80PK")
    for path in (tmp_path / "binary", tmp_path / "nowhere", tmp_path):
        with pytest.raises(FileError):
            SourceCard.load(path)


def test_another_model_is_refused(card, graph, model):
    card.check(model, graph)
    card.check(lambda g: model(g), graph)
    card.check(model(graph), graph)
    with raises("other-features"):
        card.check(model, _sample(num_features=5))
    other = SIGN(hops=1).fit(_sample(num_features=5))
    narrow = _sample(num_classes=2)
    for wrong in (
        SIGN(hops=1).fit(graph, range(100)),
        SIGN(hops=2).fit(graph, range(150)),
        SGC(hops=1).fit(graph, range(150)),
        SIGN(hops=1).fit(narrow),
        lambda g: 1.05 * model(g),
        lambda g: model(g)[:, [1, 0, 2]],
    ):
        with raises("other-model"):
            card.check(wrong, graph)
    with raises("other-features"):
        card.check(other, graph)  # cannot even run on this many columns


def test_a_model_that_knows_only_its_own_graph_has_no_fingerprint(graph, model):
    table = {graph.num_nodes: model}

    def transductive(g):
        return table[g.num_nodes](g)  # a lookup that fails elsewhere, as that of embeddings does

    card = build(transductive, graph, NODES, compositions=0)
    assert card.fingerprint is None
    card.check(transductive, graph)
    assert np.isfinite(recalibrate(transductive, graph, card).probabilities).all()


def test_odd_arguments_are_refused_before_any_work(graph, model):
    def never(g):
        raise AssertionError("the model ran")

    for arguments in (
        {"seed": -1},
        {"seed": 1.5},
        {"compositions": -1},
        {"exclude": ("fog",)},
        {"exclude": "noise"},
        {"nodes": range(20)},
    ):
        with pytest.raises(InputError):
            build(never, graph, **({"nodes": NODES} | arguments))
    with raises("no-labels"):
        build(never, graph.replace(labels=None), NODES)
    with raises("not-logits"):
        build(lambda g: np.ones((g.num_nodes, 3)), graph, NODES)
    with raises("missing"):
        build(model(graph), graph, NODES)


def test_a_card_that_would_be_too_large_is_not_written(card, tmp_path):
    with raises("range"):
        replace(card, atlas=card.atlas * 90).save(tmp_path / "large.json")
    assert not list(tmp_path.iterdir())


def test_exclude_leaves_the_family_out_and_says_so(graph, model):
    card = build(model, graph, NODES, compositions=6, exclude=["noise", "mask"])
    assert any(len(item.families) > 1 for item in card.atlas)
    families = set().union(*(item.families for item in card.atlas))
    assert families == set(LEVELS) - {"noise", "mask"}
    assert card.excluded == ("mask", "noise")
    assert "left out: mask, noise" in card.summary()


def test_a_family_that_the_atlas_does_not_have_cannot_be_left_out(card):
    with raises("choice"):
        card.without("scale")
    thinner = card.without("noise")
    assert "noise" not in thinner.families
    assert thinner.without("noise").families == thinner.families


def test_no_digit_of_a_card_changes_unnoticed(text, tmp_path):
    """Change each digit in turn, of a sample of the positions."""
    positions = [place for place, letter in enumerate(text) if letter.isdigit()]
    rng = np.random.default_rng(0)
    for place in rng.choice(positions, 200, replace=False):
        digit = str((int(text[place]) + int(rng.integers(1, 10))) % 10)
        with pytest.raises(FileError):
            SourceCard.load(_write(tmp_path, text[:place] + digit + text[place + 1 :]))


def test_a_card_without_its_checksum_or_of_another_schema_is_refused(text, tmp_path):
    content = json.loads(text)
    assert content.pop("crc32")
    with pytest.raises(FileError):
        SourceCard.load(_write(tmp_path, json.dumps(content)))
    for schema, refusal in (
        ("graphtemper.card/5", VersionError),
        ("graphtemper.cards/5", "damaged"),
        ("graphtemper.report/1", "damaged"),
    ):
        with raises(refusal):
            SourceCard.load(_write(tmp_path, content | {"schema": schema}))


def test_a_card_of_the_schema_before_is_read_without_what_it_lacks(card, text, tmp_path):
    content = json.loads(text)
    del content["ends"], content["elsewhere"], content["population"]["apart"]
    older = _write(tmp_path, content | {"schema": "graphtemper.card/6"})
    read = SourceCard.load(older)
    assert card.ends.known
    assert read.ends.known == ()
    assert read.population.apart is None
    assert read.reference.signals == card.reference.signals
    assert json.loads(read.to_json())["schema"] == "graphtemper.card/7"


def test_a_card_is_made_with_the_digits_of_its_file(card):
    """Nothing is parsed again: a new card is what a file would give back."""
    again = SourceCard.from_json(card.to_json())
    for name in ("temperature", "noise_level", "confidence_threshold"):
        assert getattr(card.probe, name) == getattr(again.probe, name)
    np.testing.assert_array_equal(card.probe.column_std, again.probe.column_std)
    np.testing.assert_array_equal(card.reference.moments.offsets, again.reference.moments.offsets)
    assert [vars(item) for item in card.atlas] == [vars(item) for item in again.atlas]


def test_a_card_that_no_file_could_hold_is_not_made(card):
    for wrong in (
        {"num_nodes": 0},
        {"atlas": card.atlas[:2]},
        {"reference": replace(card.reference, accuracy=1.1)},
        {"probe": replace(card.probe, column_std=card.probe.column_std[:-1])},
        {"population": replace(card.population, recalls=np.full(3, np.nan))},
    ):
        with raises("content"):
            replace(card, **wrong)


def test_columns_that_a_card_cannot_have_are_refused(card):
    wrong = {
        "columns": card.columns.columns + 1.0,
        "steps": card.columns.steps[1:],
        "factors": np.full_like(card.columns.factors, np.nan),
    }
    for name, value in wrong.items():
        with pytest.raises(InputError, match="columns"):
            replace(card, columns=replace(card.columns, **{name: value}))
