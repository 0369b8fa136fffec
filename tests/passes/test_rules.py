"""Rules: their text, which of them holds, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_models import DECODERS, ENCODERS, ORACLE, SENSORS, SHAKESPEARE, VARIANTS, load_graph, sensor

from colibri.calibrate.data import Calibration, Rounding
from colibri.checkpoint.checkpoint import Checkpoint
from colibri.checkpoint.families import ImportOptions, import_graph
from colibri.errors import UsageError
from colibri.graph.coding import GROUPS, Coding, WeightFormat
from colibri.graph.graph import BufferKind, Graph, StateType, TensorClass
from colibri.graph.ops import Experts, Linear, Quantise
from colibri.graph.scheme import Scheme
from colibri.graph.weights import Vector
from colibri.options import Options
from colibri.passes.quantise import quantise_graph
from colibri.passes.rules import Rule, Selector, assign, ordered, places
from colibri.passes.told import schemes_told
from colibri.recipe import parse_recipe, recipe_text

UNTIMED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MIXTRAL = ORACLE / "mixtral-base"
SHARED = ORACLE / "qwen2moe-base"


@st.composite
def schemes(draw: st.DrawFn) -> Scheme:
    form = draw(st.sampled_from([form for form in WeightFormat if form is not WeightFormat.FP4]))
    scaled = form.scaled
    coding = Coding(
        form,
        draw(st.sampled_from(GROUPS)) if scaled else 32,
        draw(st.booleans()) if scaled else False,
        draw(st.integers(0, 50)) if scaled else 0,
    )
    kinds = [BufferKind.FLOAT] if form.floating else [BufferKind.Q8, BufferKind.Q16]
    return Scheme(coding, draw(st.sampled_from(kinds)))


selectors = st.builds(
    Selector,
    st.sampled_from(list(TensorClass)),
    st.none() | st.integers(0, 999_999_999),
    st.text("abcdefghijklmnopqrstuvwxyz_", max_size=8),
)
rule_sets = st.lists(st.builds(Rule, selectors, schemes()), max_size=6, unique_by=lambda rule: rule.selector)
options = st.builds(
    Options,
    scheme=schemes(),
    rules=rule_sets.map(ordered),
    kv=st.sampled_from(list(StateType)),
    context=st.none() | st.integers(1, 1 << 20),
    prefill=st.none() | st.integers(1, 1024),
    calibration=st.none() | st.builds(Calibration, file=st.none(), rounding=st.sampled_from(list(Rounding))),
    drop=st.dictionaries(st.integers(0, 99), st.sets(st.integers(0, 99), min_size=1), max_size=3),
)


@UNTIMED
@given(options)
def test_every_recipe_has_a_word_that_means_it(one: Options) -> None:
    assert parse_recipe(recipe_text(one)) == one


@UNTIMED
@given(rule_sets, st.randoms())
def test_rules_have_one_order(rules: list[Rule], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(rules)
    random.shuffle(shuffled)
    assert ordered(shuffled) == ordered(rules)
    assert [Rule.parse(str(rule)) for rule in rules] == rules


@UNTIMED
@given(st.text(max_size=30))
def test_other_texts_are_refused_in_one_line(text: str) -> None:
    for read in (Rule.parse, Selector.parse, Scheme.parse):
        try:
            assert str(read(text)) == text or text != text.strip("0") or "0" in text
        except UsageError as error:
            assert "\n" not in str(error)


def graph_of(path: Path, scheme: str, *rules: str) -> Graph:
    graph = import_graph(Checkpoint.open(path), ImportOptions())
    quantise_graph(graph, Scheme.parse(scheme), ordered(map(Rule.parse, rules)))
    return graph


def assigned(path: Path, scheme: str, *rules: str) -> dict[str, str]:
    graph = import_graph(Checkpoint.open(path), ImportOptions())
    return {
        name: str(one) for name, one in assign(graph, Scheme.parse(scheme), ordered(map(Rule.parse, rules))).items()
    }


def test_the_most_special_rule_holds() -> None:
    found = assigned(
        MIXTRAL,
        "w4a8",
        "experts=w8a8",
        "1.experts=w4a8",
        "experts.down=w8a16",
        "0.experts.down=f32",
        "attention.v=w8a8",
        "head=w8a16",
    )
    assert found["layers.0.experts.0.up"] == found["layers.0.experts.7.gate"] == "w8a8"
    assert found["layers.0.experts.3.down"] == "f32"  # layer and slot before either
    assert found["layers.1.experts.3.down"] == "w4a8"  # a layer before a slot
    assert found["layers.1.experts.3.up"] == "w4a8"
    assert (found["layers.0.v"], found["layers.0.q"]) == ("w8a8", "w4a8")
    assert (found["head"], found["embedding"]) == ("w8a16", "w4a8")
    assert found["layers.0.router"] == found["layers.1.router"] == "f32"


def test_what_is_wide_stays_so_unless_a_rule_names_it() -> None:
    found = assigned(SHARED, "w4a8", "shared=w8a8")
    assert found["layers.0.shared.scale"] == found["layers.0.router"] == "f32"
    assert found["layers.0.shared.down"] == "w8a8"
    found = assigned(SHARED, "w4a8", "router=w8a16", "0.router.scale=w8a8")
    assert (found["layers.0.shared.scale"], found["layers.2.shared.scale"]) == ("w8a8", "w8a16")
    assert found["layers.0.router"] == "w8a16"
    name = sensor(SENSORS[0])
    assert assigned(name, "w8a8")["out"] == assigned(name, "w8a8")["inp"] == "f32"
    assert assigned(name, "w8a8", "head=w8a16")["out"] == "w8a16"


def test_a_tied_embedding_takes_the_rule_of_either() -> None:
    tied = ORACLE / "llama-llama3rope-tied"
    assert assigned(tied, "w4a8", "head=w8a16")["embedding"] == "w8a16"
    assert assigned(tied, "w4a8", "embedding=w8a8")["embedding"] == "w8a8"
    assert assigned(tied, "w4a8", "embedding=w8a8", "head=w8a8")["embedding"] == "w8a8"
    with pytest.raises(UsageError, match="are one matrix of this model; make it w8a8 or w8a16"):
        assigned(tied, "w4a8", "embedding=w8a8", "head=w8a16")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("shared=w8a8", "rule 'shared=w8a8': there is no such matrix; the model has embedding, attention"),
        ("2.experts=w8a8", "experts (layers 0-1: gate up down), head, router (layers 0-1)"),
        ("0.head=w8a8", "there is no such matrix"),
        ("attention.gate=w8a8", "attention (layers 0-1: q k v o)"),
    ],
)
def test_a_rule_for_nothing_names_what_there_is(rule: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        assigned(MIXTRAL, "w4a8", rule)
    assert message in str(caught.value) and caught.value.exit_code == 2


def test_gate_and_up_have_the_same_bits_of_activations() -> None:
    assert assigned(MIXTRAL, "w4a8", "experts.gate=w8a8")["layers.0.experts.0.gate"] == "w8a8"
    for rule in ("0.experts.up=w4a16", "0.experts.gate=f32"):
        with pytest.raises(UsageError, match=r"0.experts: gate is .*, but they read the same numbers"):
            assigned(MIXTRAL, "w4a8", rule)


def test_a_buffer_is_quantised_once_for_each_kind_of_reader() -> None:
    graph = graph_of(MIXTRAL, "w4a8", "attention.v=w8a16", "attention.k=w4a16", "0.attention.q=f32", "router=w8a16")
    steps = [(op.layer, op.x, str(op.kind)) for op in graph.ops if isinstance(op, Quantise) and op.layer in (0, 1)]
    attention = [(0, "normed", "q16"), (0, "attended", "q8")]
    experts = [(0, "normed", "q16"), (0, "normed", "q8")]
    again = [
        (1, "normed", "q8"),
        (1, "normed", "q16"),
        (1, "attended", "q8"),
        (1, "normed", "q16"),
        (1, "normed", "q8"),
    ]
    assert steps == [*attention, *experts, *again]
    reads = {op.slot: op.x for op in graph.ops if isinstance(op, Linear) and op.layer == 0}
    assert reads == {"q": "normed", "k": "normed_q16", "v": "normed_q16", "o": "attended_q8"}
    shared = graph_of(SHAKESPEARE, "w8a16", "0.attention.v=w4a16")
    limits = {
        op.layer: op.qmax
        for op in shared.ops
        if isinstance(op, Quantise) and (op.x, op.part[-9:]) == ("normed", "attention")
    }
    assert limits[0] == (2**31 - 1) // (8 * 127 * 128)  # of w4, for all who share it
    assert limits[1] == 32767


def test_floats_inside_and_outside() -> None:
    experts = [
        op for op in graph_of(MIXTRAL, "w4a8", "1.experts=f32", "0.experts.down=f32").ops if isinstance(op, Experts)
    ]
    assert [(op.input_kind, op.hidden_kind) for op in experts] == [
        (BufferKind.Q8, BufferKind.FLOAT),
        (BufferKind.FLOAT, BufferKind.FLOAT),
    ]
    graph = graph_of(MIXTRAL, "f32", "experts.down=w8a8")
    assert [op for op in graph.ops if isinstance(op, Quantise)] == []  # the hidden values are the experts' own
    assert {op.hidden_qmax for op in graph.ops if isinstance(op, Experts)} == {127}


def test_schemes_are_told_in_few_words() -> None:
    assert schemes_told(graph_of(MIXTRAL, "w4a8")) == {
        "embedding": "w4", "attention": "w4a8", "experts": "w4a8", "head": "w4a8", "router": "f32",
    }  # fmt: skip
    rules = ("experts.down=w8a16", "1.experts=f32", "0.attention.v=w8a8", "head=f32", "0.router=w8a8")
    assert schemes_told(graph_of(SHARED.parent / "olmoe-base", "w4a8", *rules)) == {
        "embedding": "w4",
        "attention": "w4a8",
        "0.attention.v": "w8a8",
        "experts": "f32",
        "0.experts": "w4a8",
        "0.experts.down": "w8a16",
        "head": "f32",
        "router": "w8a8",
        "1.router": "f32",
    }


@pytest.mark.parametrize("path", [MIXTRAL, SHARED, ORACLE / "deepseekv3-base"], ids=lambda path: path.name)
def test_what_is_told_says_all(path: Path) -> None:
    """Read as rules, it gives the same schemes."""
    rules = ("0.attention=w8a8", "attention.o=f32", "router=w8a8", "experts.down=w8a16", "head=w8a8", "embedding=w8a8")
    graph = graph_of(path, "w4a8", *rules)
    told = schemes_told(graph)
    tables = {name: f"{scheme}a8" for name, scheme in told.items() if name == "embedding"}
    again = graph_of(path, "w4a16", *(f"{name}={scheme}" for name, scheme in (told | tables).items()))
    assert schemes_told(again) == told
    codings = [
        {name: w.coding for name, w in one.weights.items() if not isinstance(w, Vector)} for one in (graph, again)
    ]
    assert codings[0] == codings[1] and len(set(codings[0].values())) == 3


CLASSES = {"attention": "attention", "shared": "shared", "mlp": "dense", "router": "router", "embedding": "embedding"}
CLASSES |= {"head": "head", "input layer": "dense", "output layer": "head"}


def all_models() -> Iterable[Path]:
    yield from (ORACLE / name for name in (*DECODERS, *ENCODERS, *(f"variants/{name}" for name in VARIANTS)))
    yield from map(sensor, SENSORS)


def test_every_matrix_of_every_family_has_the_class_of_its_part() -> None:
    for path in all_models():
        graph = load_graph(path, context=None if "load-moe" in str(path) else 16)
        matrices = {name for name, weight in graph.weights.items() if not isinstance(weight, Vector)}
        seen = set()
        for op in graph.ops:
            for name, place in places(graph, op):
                seen.add(name)
                part = op.part.rpartition(" / ")[2]
                expected = (
                    "experts" if isinstance(op, Experts) else "router" if place.slot == "scale" else CLASSES[part]
                )
                assert place.tensor_class == expected, (path, name)
        assert seen == matrices, path
