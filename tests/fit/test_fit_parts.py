"""The parts of a search: split, knapsack, space, limits, journal."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from small_models import ORACLE, SHAKESPEARE, load_graph, sensor

from colibri.boards.load import load_board
from colibri.errors import BadInput, UsageError
from colibri.evaluate.evaluate import Cut
from colibri.evaluate.model import Estimate
from colibri.fit.dropping import dropping_order
from colibri.fit.journal import key_of, opened
from colibri.fit.knapsack import Option, least_harm
from colibri.fit.predict import Harms
from colibri.fit.sizes import Planner, reserved
from colibri.fit.space import make_space, narrowed
from colibri.fit.split import Part, split_rows
from colibri.fit.task import Outcome
from colibri.options import Options
from colibri.progress import unseen
from colibri.prune.choose import Aim, Until
from colibri.prune.prune import prune_checkpoint, read_data
from colibri.recipe import parse_recipe


def test_the_final_rows_are_new_to_the_search() -> None:
    split = split_rows(160, calibrating=False, seed=0)
    search, final = set(split.rows[Part.SEARCH]), set(split.rows[Part.FINAL])
    assert split.fresh and not search & final and search | final == set(range(160))
    assert set(split.rows[Part.LOOK]) < search and not split.rows[Part.CALIBRATION]
    assert split != split_rows(160, calibrating=False, seed=1)


def test_calibration_has_rows_of_its_own() -> None:
    split = split_rows(1000, calibrating=True, seed=3)
    parts = [set(split.rows[part]) for part in (Part.SEARCH, Part.FINAL, Part.CALIBRATION)]
    assert split.fresh and split.apart and sum(map(len, parts)) == 1000
    assert not any(one & other for one, other in itertools.combinations(parts, 2))


@pytest.mark.parametrize(("count", "fresh", "apart"), [(72, True, True), (60, False, True), (30, False, False)])
def test_too_few_rows_are_used_twice_and_it_is_said(count: int, fresh: bool, apart: bool) -> None:
    split = split_rows(count, calibrating=True, seed=0)
    assert (split.fresh, split.apart) == (fresh, apart)
    assert min(len(split.rows[part]) for part in (Part.SEARCH, Part.FINAL, Part.CALIBRATION)) >= 24
    one = split_rows(1, calibrating=False, seed=0)
    assert one.rows[Part.SEARCH] == one.rows[Part.FINAL] == one.rows[Part.LOOK] == (0,)


def test_the_knapsack_against_all_combinations() -> None:
    random = np.random.default_rng(4)
    for _ in range(30):
        pairs = [zip(random.integers(1, 400, 4), random.random(4), strict=True) for _ in range(5)]
        groups = [[Option(int(size), float(harm)) for size, harm in group] for group in pairs]
        capacity = int(random.integers(300, 1200))
        every = []
        for numbers in itertools.product(range(4), repeat=5):
            chosen = [group[number] for group, number in zip(groups, numbers, strict=True)]
            if (size := sum(one.size for one in chosen)) <= capacity:
                every.append((sum(one.harm for one in chosen), size, numbers))
        found = least_harm(groups, capacity, 3)
        assert bool(found) == bool(every)
        if every:
            assert found[0] == min(every)[2]


def test_harm_between_two_measured_values_grows_by_a_factor() -> None:
    harms = Harms(1.0, {(0, 1): 0.01, (0, 3): 0.16, (1, 2): 0.5})
    assert harms.of(0, 2) == pytest.approx(0.04)
    assert harms.of(1, 1) == pytest.approx(0.125)
    assert harms.of(1, 0) == 0.0 and harms.of(1, 3) == float("inf")
    assert harms.total((2, 0)) == pytest.approx(1.04)


def test_a_point_is_a_recipe() -> None:
    space = make_space(load_graph(SHAKESPEARE))
    names = [axis.name for axis in space.axes]
    assert names[:3] == ["embedding", "attention", "0.experts"] and "activations" in names and "3.dropped" in names
    point = list(space.widest)
    point[names.index("activations")] = 1
    point[names.index("1.experts")] = 3
    point[names.index("2.dropped")] = 2
    text = space.recipe(tuple(point), context=64)
    assert text.startswith("w8a8:1.experts=w4a8:") and text.endswith(":context=64:drop=2.0,2.1")
    options = parse_recipe(text)
    assert options.drop == {2: {0, 1}} and options.context == 64 and len(options.rules) == 1


def test_fewer_values_by_name() -> None:
    space = make_space(load_graph(SHAKESPEARE))
    less = narrowed(space, ["experts=w4,w3g64+o2", "2.experts=w8", "kv=f16", "dropped=0"])
    values = {axis.name: axis.values for axis in less.axes}
    assert values["0.experts"] == ("w4", "w3g64+o2") and values["2.experts"] == ("w8",)
    assert values["kv"] == ("f16",) and values["1.dropped"] == ("0",)


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ("expert=w4", "there is no axis 'expert'; did you mean 'experts'?"),
        ("kv", "is not AXIS=VALUE"),
        ("kv=f17", "kv has no 'f17'; did you mean 'f16'?"),
        ("experts=w99", "--only experts=w99: 0.experts has no 'w99'; a coding without activations, such as w8"),
        ("experts=w4a8", "0.experts has no 'w4a8'"),
        ("head=w4,,w3", "head has no ''"),
        ("experts=w4:drop=0.1", "0.experts has no 'w4:drop=0.1'"),
    ],
)
def test_axes_that_cannot_be_meant(only: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        narrowed(make_space(load_graph(SHAKESPEARE)), [only])
    assert words in str(caught.value)


def test_an_axis_is_narrowed_once() -> None:
    with pytest.raises(UsageError, match="--only kv=f16: 'kv' is there twice; list all values in one"):
        narrowed(make_space(load_graph(SHAKESPEARE)), ["kv=int8", "experts=w4", "kv=f16"])


def test_reserves_are_kept_free() -> None:
    board = load_board("stm32f405")
    less = reserved(board, 65536, 32768)
    assert less.memory[0].limit == 983_040 and less.reserve == 32768 and less.memory[0].length == 1 << 20
    with pytest.raises(UsageError, match="--reserve-flash: 1,048,576 bytes leave nothing of the 1,048,576 in 'flash'"):
        reserved(board, 1 << 20, None)
    with pytest.raises(UsageError, match="--reserve-ram: 130,000 bytes leave nothing"):
        reserved(board, None, 130_000)
    planner = Planner(SHAKESPEARE, less, Path("build/none"))
    wide, small = planner.sizes("w8a8:context=64"), planner.sizes("w2a8:kv=int8:context=64")
    assert wide is not None and wide.flash_over == wide.flash - 983_040 and not wide.fits
    assert small is not None and small.fits


def test_what_cannot_be_has_no_size() -> None:
    planner = Planner(sensor("top1-e4"), load_board("stm32f405"), Path("build/none"))
    assert planner.sizes("w8a8:drop=0.0,0.1,0.2,0.3") is None


def test_the_journal_goes_on_behind_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path, value = tmp_path / "deep/j.jsonl", Estimate(1 / 3, 0.25)
    with opened(path, "abc") as journal:
        journal.put(key_of(1), "w8a8", value)
        journal.put(key_of(2), "w4a8", Estimate(2.0, None))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with opened(path, "abc") as journal:
        assert journal.found == 1
        assert journal.get(key_of(1), Estimate) == value and journal.get(key_of(2), Estimate) is None
        journal.put(key_of(2), "w4a8", Estimate(2.0, None))
    assert path.read_bytes() == whole
    assert [json.loads(line)["recipe"] for line in whole.splitlines()[1:]] == ["w8a8", "w4a8"]


def test_journals_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"

    def refused(words: str, checkpoint: str = "abc") -> None:
        before = path.read_bytes()
        with pytest.raises(BadInput) as caught, opened(path, checkpoint):
            pass
        assert words in str(caught.value) and path.read_bytes() == before

    with opened(path, "abc") as journal:
        journal.put("k", "w8a8", Estimate(1.0, None))
        with pytest.raises(UsageError, match="another search writes into it"), opened(path, "abc"):
            pass
    refused("is of another checkpoint; name another file with --journal, or remove it", "abd")
    good = path.read_bytes()
    path.write_bytes(good.replace(b'{"key"', b'{"kex"') + good.splitlines(keepends=True)[1])
    refused("line 2: is damaged")
    path.write_bytes(good.replace(b'"journal":1', b'"journal":7'))
    refused("journal 7, this Colibri reads 1")
    path.write_text("notes\n")
    refused("is no journal of a search")
    path.write_text("notes")
    refused("is no journal of a search")
    with pytest.raises(UsageError, match="is a folder"), opened(tmp_path, "abc"):
        pass
    with pytest.raises(UsageError, match="is no regular file"), opened(Path("/dev/null"), "abc"):
        pass


def test_sums_that_cannot_be_are_measured_anew(tmp_path: Path) -> None:
    with opened(tmp_path / "j.jsonl", "abc") as journal:
        good = Outcome((2.0,), (1.0,), (1.0,), (0.0,), (2.0,))
        journal.put("good", "w8a8", good)
        for key, counts in (("none", b"[]"), ("two", b"[2,3]"), ("zero", b"[0]")):
            journal._lines[key] = msgspec.json.encode(good).replace(b'"counts":[2.0]', b'"counts":' + counts)
        assert journal.get("good", Outcome) == good
        assert [journal.get(key, Outcome) for key in ("none", "two", "zero")] == [None] * 3


def test_experts_go_in_the_order_of_prune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, golden = sensor("top1-e4"), ORACLE / "load-moe/top1-e4/golden.npz"
    space, graph = make_space(load_graph(folder)), load_graph(folder)
    data = read_data(golden, graph, Cut(limit=300))
    steps = prune_checkpoint(folder, golden, Aim(Until.KEEP, 1), Options(), Cut(limit=300), evaluated=False).found.steps
    with opened(tmp_path / "j.jsonl", "abc") as journal:
        order = dropping_order(space, folder, data, None, journal, "", unseen)
        assert list(order[0])[:3] == [step.id for step in steps] and sorted(order[0]) == [0, 1, 2, 3]
        monkeypatch.setattr("colibri.fit.dropping.worst_first", None)  # what the journal has is not measured again
        assert dropping_order(space, folder, data, None, journal, "", unseen) == order
        none = narrowed(space, ["dropped=0"])
        assert dropping_order(none, folder, data, None, journal, "other", unseen)[0] == [0, 1, 2, 3]
