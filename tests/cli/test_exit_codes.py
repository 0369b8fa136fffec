"""Exit codes, one-line errors, and options that cannot be meant."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
from small_models import HOST_BOARD, ORACLE, SHAKESPEARE, sensor

from colibri.cli import main
from colibri.cli.options import parse_options
from colibri.errors import (
    BadInput,
    BuildFailed,
    CheckFailed,
    ColibriError,
    DoesNotFit,
    EmulatorFailed,
    ToolMissing,
    UsageError,
)

MIXTRAL = str(ORACLE / "mixtral-base")
SENSOR = str(sensor("top2-e4-norm"))


def fails(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Run the command line; it must end with the code, one line, and nothing on standard output."""
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("colibri: ") and err.count("\n") == 1
    return err


def test_each_class_has_its_code() -> None:
    classes = (CheckFailed, UsageError, DoesNotFit, ToolMissing, BadInput, BuildFailed, EmulatorFailed, ColibriError)
    assert [cls.exit_code for cls in classes] == [1, 2, 3, 4, 5, 6, 7, 70]


def test_an_error_is_one_printable_line() -> None:
    error = BadInput("a\nb\x1b[31m\u202e", where="x\ty", hint="do  this")
    assert str(error) == "x y: a b\\x1b[31m\\u202e; do this"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("generate",),
        ("generate", SENSOR),
        ("generate", SENSOR, "--board"),
        ("generate", SENSOR, "--board", HOST_BOARD, "--batch", "0"),
        ("generate", SENSOR, "--board", HOST_BOARD, "--batch", "-1"),
        ("generate", MIXTRAL, "--board", HOST_BOARD, "--context", "many"),
        ("generate", SENSOR, "--board", HOST_BOARD, "--kv", "f8"),
        ("build", "--frobnicate"),
        ("run", "x", "--tokens", "0"),
        ("test", "x", "--timeout", "0"),
        *(
            (command, "x", "--timeout", text)
            for command in ("run", "test", "profile")
            for text in ("nan", "inf", "-inf", "-1", "1e400", "x")
        ),
        ("profile", "x", "--clock-mhz", "nan"),
        ("profile", "x", "--clock-mhz", "inf"),
    ],
    ids=" ".join,
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    command = arguments[0] if len(arguments) > 1 or arguments == ("generate",) else ""
    message = fails(capsys, 2, *arguments)
    assert "Usage:" not in message and message.endswith("--help`\n")
    assert message.startswith(f"colibri: {command}: " if command and "requires" not in message else "colibri: ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--drop-expert", "1"), "--drop-expert: '1' is not LAYER:ID; for example 2:5"),
        (("--drop-expert", "1:"), "'1:' is not LAYER:ID"),
        (("--drop-expert", ":1"), "':1' is not LAYER:ID"),
        (("--drop-expert", "0:-1"), "'0:-1' is not LAYER:ID"),
        (("--drop-expert", "0:1,2"), "'0:1,2' is not LAYER:ID"),
        (("--drop-expert", "٠:١"), "is not LAYER:ID"),
        (("--drop-expert", "0:1:2"), "'0:1:2' is not LAYER:ID"),
        (("--drop-expert", "0:" + "9" * 5000), "is not LAYER:ID"),
        (("--scheme", "w2a2"), "scheme 'w2a2': is none; for example w8a8, w4a16, w3g64a8+o5 or f16"),
        (("--prefix", "9x"), "--prefix: '9x' cannot begin C names"),
        (("--prefill", "4"), "--prefill: is for token models"),
        (("--kv", "f16"), "--kv: is for token models"),
        (("--context", "8"), "--context: is for token models; a sensor model has no context; leave it out"),
        (("--drop-expert", "1:0"), "--drop-expert: no experts in layer 1; layers with experts: 0"),
        (("--drop-expert", "0:4"), "--drop-expert: layer 0 has no expert 4; it has [0, 1, 2, 3]"),
        (
            ("--drop-expert", "0:0", "--drop-expert", "0:1", "--drop-expert", "0:2"),
            "--drop-expert: layer 0 would keep 1 expert, but its router chooses 2; keep more",
        ),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_options_that_cannot_be_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    where = ("--board", HOST_BOARD, "-o", str(tmp_path / "out"))
    assert words in fails(capsys, 2, "generate", SENSOR, *where, *options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "words"), [("--context", "257 is more than the 256 pos"), ("--prefill", "257 is more")]
)
def test_more_than_the_checkpoint_has(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, words: str
) -> None:
    message = fails(capsys, 2, "generate", MIXTRAL, "--board", HOST_BOARD, "-o", str(tmp_path / "out"), option, "257")
    assert message.startswith(f"colibri: {option}: {words}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such file"),
        ("", "is not JSON: line 1, column 1"),
        ("[]", "holds a JSON list"),
        ('{"0": 1}', "layer 0 has a JSON number, expected a list of experts; it looks like"),
        ('{"0": {"1": 2}}', "layer 0 has a JSON object"),
        ('{"a": [1]}', "'a' is not the number of a layer"),
        ('{"00": [1, 2]}', "'00' is not the number of a layer"),
        ('{" 0": [1, 2]}', "' 0' is not the number of a layer"),
        ('{"-1": [1, 2]}', "'-1' is not the number of a layer"),
        ('{"\u0660": [1, 2]}', "is not the number of a layer"),
        ('{"' + "9" * 5000 + '": [1]}', "is not the number of a layer"),
        ('{"0": ["1", "2"]}', "layer 0, entry 1 is not the number of an expert"),
        ('{"0": [1.0, 2]}', "layer 0, entry 1 is not the number of an expert"),
        ('{"0": [1, true]}', "layer 0, entry 2 is not the number of an expert"),
        ('{"0": [1, null]}', "layer 0, entry 2 is not the number of an expert"),
        ('{"0": [1, 2, 1]}', "layer 0 names expert 1 twice"),
        ('{"0": [1, 2], "0": [3]}', "the layer '0' stands twice"),
        ('{"0": [1], ', "is not JSON"),
        ('{"0": [1, 2]} x', "is not JSON: line 1, column 15"),
        ('{"0": [1, 2]}' + " " * (1 << 20), "more than the 1048576 that such a file may have"),
        ('{"0": [9]}', "layer 0 has no expert 9"),
        ('{"7": [0]}', "no experts in layer 7"),
        ('{"0": [1]}', "would keep 1 expert"),
        ('{"0": []}', "would keep 0 experts"),
        ('{"0": [-1]}', "layer 0, entry 1 is not the number of an expert"),
    ],
)
def test_files_of_experts_to_keep(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str | None, words: str
) -> None:
    file = tmp_path / "keep.json"
    if text is not None:
        file.write_text(text)
    where = ("--board", HOST_BOARD, "-o", str(tmp_path / "out"), "--keep-experts", str(file))
    assert words in fails(capsys, 5, "generate", SENSOR, *where)
    assert not (tmp_path / "out").exists()


def test_keep_and_drop_are_read_as_meant(tmp_path: Path) -> None:
    (tmp_path / "keep.json").write_text('{"0": [3, 1], "2": [0, 7]}')
    options = parse_options(
        scheme="w4a8", rules=(), recipe=None, kv="f16", batch=None, prefill=3, context=9, source=None,
        drop_expert=("1:2", "1:4", "3:0"), keep_experts=tmp_path / "keep.json", calibrate=None, rounding=None,
        calibrate_limit=None, place=None, prefix=None, optimise=None, threads=None,
    )  # fmt: skip
    assert options.drop == {1: {2, 4}, 3: {0}} and options.keep == {0: {1, 3}, 2: {0, 7}}
    assert (str(options.scheme), options.kv, options.prefill, options.context) == ("w4a8", "f16", 3, 9)


def test_bad_boards_and_checkpoints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "cray-1" in fails(capsys, 5, "generate", SENSOR, "--board", "cray-1", "-o", str(tmp_path / "out"))
    assert "nowhere" in fails(capsys, 5, "generate", str(tmp_path / "nowhere"), "--board", HOST_BOARD)
    for command in ("run", "test", "report"):
        message = fails(capsys, 5, command, str(tmp_path))
        assert (
            message
            == f"colibri: {tmp_path}: not a Colibri package; make one with `colibri build CHECKPOINT --board NAME`\n"
        )
    assert "nowhere" in fails(capsys, 5, "inspect", str(tmp_path / "nowhere"))


def test_a_folder_that_is_no_package_is_not_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    message = fails(capsys, 5, "generate", SENSOR, "--board", HOST_BOARD, "-o", str(tmp_path))
    assert "exists and is not a Colibri package; choose another with -o" in message
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_does_not_fit_is_reported_all_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All of Shakespeare in 8 bits is larger than the flash of an STM32H743."""
    arguments = ["--board", "nucleo-h743zi", "--scheme", "w8a8", "--context", "8", "-o", str(tmp_path / "out")]
    assert main(["build", str(SHAKESPEARE), *arguments]) == 3
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and "too large: flash by" in err
    over = int(err.split("flash by ")[1].split(" bytes")[0].replace(",", ""))
    assert over > 200_000 and f"flash: {over:,} bytes more than there are" in out
    assert "layer 3" in out and "stack reserve" in out
    assert main(["report", str(tmp_path / "out"), "--json"]) == 3
    out, _ = capsys.readouterr()
    regions = {region["name"]: region for region in json.loads(out)["regions"]}
    assert regions["flash"]["used"] - regions["flash"]["limit"] == over


def test_generate_says_what_cannot_link(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--board", "microbit", "--scheme", "w4a8", "--context", "8")
    assert main(["generate", str(SHAKESPEARE), *options, "-o", str(tmp_path / "p")]) == 0
    size = (tmp_path / "p/model.bin").stat().st_size
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"colibri: warning: will not link: flash {size:,} of 262,144 bytes, ram 20,256 of 16,384 bytes; "
        "see `colibri explain`"
    )
    assert main(["generate", SENSOR, "--board", "microbit", "-o", str(tmp_path / "q")]) == 0
    assert capsys.readouterr().err == ""


def test_an_internal_error_is_one_line_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import colibri.package

    def broken(_: Path) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(colibri.package, "load_package", broken)
    message = fails(capsys, 70, "run", "somewhere", "x")
    assert "internal error at broken:" in message and "KeyError" in message


def test_an_interrupt_is_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import colibri.package

    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(colibri.package, "load_package", interrupted)
    assert main(["run", "somewhere", "x"]) == 130
    assert capsys.readouterr().err.strip() == "colibri: interrupted"


def test_a_signal_more_does_not_end_the_tidying_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def end(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    def remove(path: str, **_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        remove_tree(path)

    remove_tree = shutil.rmtree
    monkeypatch.setattr("colibri.emit.writer.write_model_bin", end)
    monkeypatch.setattr("colibri.emit.writer.shutil.rmtree", remove)
    assert main(["generate", str(sensor("top1-e3-tiny")), "--board", HOST_BOARD, "-o", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().err == "colibri: interrupted\n"
    assert not list(tmp_path.iterdir())


def test_what_is_ignored_stays_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:
        assert main(["--version"]) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_out_of_memory_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError("Unable to allocate 3 GiB")

    monkeypatch.setattr("colibri.inspection.inspect_checkpoint", no_memory)
    assert main(["inspect", str(sensor("top1-e3-tiny"))]) == 70
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("colibri: out of memory: Unable to allocate 3 GiB; ")
