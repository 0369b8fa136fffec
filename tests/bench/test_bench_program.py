"""The bench program of a package, and `colibri bench`: what it says, never how fast it is."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from small_models import HOST_BOARD, ORACLE, sensor

from colibri.bench.schema import FILE_NAME, schema_json
from colibri.cli import main
from colibri.package import load_package

DOCS = Path(__file__).parents[2] / "docs"
SENSOR, TOKENS, ENCODER = sensor("top2-e4-norm"), ORACLE / "mixtral-base", ORACLE / "switch-base"
FOREIGN = {"raspberry-pi-4": "qemu-aarch64", "starfive-visionfive-2": "qemu-riscv64", "raspberry-pi-2": "qemu-arm"}
PERCENTILES = ("least_ns", "p50_ns", "p95_ns", "p99_ns", "worst_ns")


def generated(folder: Path, checkpoint: Path, board: str = HOST_BOARD, *options: str) -> Path:
    assert main(["generate", str(checkpoint), "--board", board, "-o", str(folder / "p"), *options]) == 0
    return folder / "p"


def measured(capsys: pytest.CaptureFixture[str], package: Path, *options: str) -> Any:
    capsys.readouterr()
    assert main(["bench", str(package), *options, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert [one.message for one in Draft202012Validator(json.loads(schema_json())).iter_errors(document)] == []
    for series in document["series"]:
        times = [series[name] for name in PERCENTILES]
        assert times == sorted(times) and times[0] > 0 and series["first_ns"] > 0
        assert series["jitter_ns"] == series["p99_ns"] - series["p50_ns"] and series["per_second"] > 0
    assert document["bandwidth"]["mb_s"] == document["bandwidth"]["bytes"] * 1000 // document["bandwidth"]["p50_ns"]
    return document


def bytes_of_a_token(package: Path) -> int:
    """From the sections of model.bin: all weights but the experts that rest, and of the embedding one row."""
    facts = load_package(package)
    whole, experts = 0, 0
    for section in facts.sections:
        if " / expert " in section.part:
            experts += section.bytes
        elif section.part == "embedding":
            whole += section.bytes // facts.model.outputs
        elif section.part not in ("header and table", "manifest"):
            whole += section.bytes
    return whole + experts * facts.model.top_k // facts.model.experts[0]


def test_the_schema_is_current() -> None:
    assert (DOCS / FILE_NAME).read_text(encoding="utf-8") == schema_json(), "run ci/schema"


@pytest.mark.parametrize("toolchain", ["gcc", "clang"])
def test_a_sensor_model(toolchain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(toolchain) is None:
        pytest.skip(f"{toolchain} is not installed")
    package = generated(tmp_path, SENSOR, HOST_BOARD, "--toolchain", toolchain)
    document = measured(capsys, package, "--runs", "300")
    (forward,) = document["series"]
    assert (forward["name"], forward["items"], forward["samples"], document["unit"]) == ("forward", 1, 300, "sample")
    assert forward["read_bytes"] == bytes_of_a_token(package) < document["model_bytes"]
    assert document["runs"] == 300 and document["bandwidth"]["samples"] == 2 and "spin" not in document


def test_a_batch_reads_what_its_samples_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = measured(capsys, generated(tmp_path, SENSOR, HOST_BOARD, "--batch", "3"), "--runs", "2", "--spin")
    (forward,) = document["series"]
    assert (forward["items"], forward["samples"], "read_bytes" in forward) == (3, 2, False)
    assert document["spin"]["samples"] == 2


@pytest.mark.parametrize("toolchain", ["gcc", "clang"])
def test_a_language_model(toolchain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(toolchain) is None:
        pytest.skip(f"{toolchain} is not installed")
    package = generated(tmp_path, TOKENS, HOST_BOARD, "--context", "16", "--prefill", "4", "--toolchain", toolchain)
    document = measured(capsys, package, "--runs", "2", "--prompt", "5", "--tokens", "7")
    prefill, decode = document["series"]
    assert (prefill["name"], prefill["items"], prefill["samples"], "read_bytes" in prefill) == ("prefill", 5, 2, False)
    assert (decode["name"], decode["items"], decode["samples"]) == ("decode", 1, 14)
    assert decode["read_bytes"] == bytes_of_a_token(package)
    assert document["runs"] == 2 and document["bandwidth"]["samples"] == 2 and document["warm_up_runs"] >= 1
    assert main(["bench", str(package), str(package), "--runs", "1"]) == 0
    said = capsys.readouterr().out
    assert said.count("\nprefill 8 ") == said.count("\ndecode 1 ") == 2 and "GB/s" in said
    assert said.count("\np  mixtral_base  w8a8  x86-64-v3  prefill 4, context 16\n") == 1
    assert main(["bench", str(package), "--prompt", "10", "--tokens", "7"]) == 2
    assert "7 tokens behind a prompt of 10 are more than the context of 16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "prompt", "decoded"),
    [
        ((), 8, 8), (("--prompt", "12"), 12, 4), (("--prompt", "16"), 16, 0),
        (("--tokens", "13"), 3, 13), (("--prompt", "2"), 2, 8), (("--tokens", "1"), 8, 1),
    ],
)  # fmt: skip
def test_what_is_not_said_takes_the_room_that_is_left(
    options: tuple[str, ...], prompt: int, decoded: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = generated(tmp_path, TOKENS, HOST_BOARD, "--context", "16", "--prefill", "4")
    document = measured(capsys, package, "--runs", "1", *options)
    found = {one["name"]: one["items"] * one["samples"] for one in document["series"]}
    assert found == {"prefill": prompt} | ({"decode": decoded} if decoded else {})
    assert (document["prefill"], document["context"]) == (4, 16)


@pytest.mark.parametrize("cut", [True, False])
def test_damaged_weights_have_no_speed(cut: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = generated(tmp_path, TOKENS, HOST_BOARD, "--context", "16")
    weights = package / "model.bin"
    data = weights.read_bytes()
    middle = len(data) // 2
    weights.write_bytes(data[:middle] + (b"" if cut else bytes(100) + data[middle + 100 :]))
    capsys.readouterr()
    assert main(["bench", str(package), "--runs", "1"]) == (6 if cut else 7)
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert (f"model.bin has not the {len(data):,} bytes that it was generated with" if cut else "damaged") in err


def test_a_failing_package_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = generated(tmp_path / "a", SENSOR), generated(tmp_path / "b", SENSOR)
    (second / "app/bench.c").write_text("int main(void) { return 1; }\n")
    capsys.readouterr()
    assert main(["bench", str(first), str(second), "--runs", "1"]) == 7
    assert f"{second}: the bench program ended with 1" in capsys.readouterr().err


def test_the_longest_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of C are wrapped, but none inside of a string."""
    prefix = "m" * 40
    for checkpoint in (SENSOR, TOKENS):
        package = generated(tmp_path / checkpoint.name, checkpoint, HOST_BOARD, "--prefix", prefix)
        assert measured(capsys, package, "--runs", "1")["model"] == prefix


def test_an_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = measured(capsys, generated(tmp_path, ENCODER), "--runs", "2", "--tokens", "3", "--prompt", "4")
    encode, decode = document["series"]
    assert (encode["name"], encode["items"], encode["samples"]) == ("encode", 4, 2)
    assert (decode["name"], decode["samples"]) == ("decode", 6)


def test_a_call_that_was_never_made_has_no_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind a prompt that fills the context nothing is decoded."""
    package = generated(tmp_path, TOKENS, HOST_BOARD, "--context", "1")
    (prefill,) = measured(capsys, package, "--runs", "2")["series"]
    assert (prefill["name"], prefill["items"], prefill["samples"]) == ("prefill", 1, 2)
    assert main(["bench", str(package), "--runs", "2"]) == 0
    assert "decode" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ('{\\"schema\\": 2}', "its bench program writes schema 2, this Colibri reads 1"),
        ('{\\"schema\\": 1}', "its bench program wrote no measurements: Object missing required field `model`"),
        ("tokens", "its bench program wrote no measurements: JSON is malformed"),
        ("", "its bench program wrote no measurements: Input data was truncated"),
    ],
)
def test_a_program_of_another_colibri(
    written: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = generated(tmp_path, SENSOR)
    (package / "app/bench.c").write_text(f'#include <stdio.h>\n\nint main(void) {{ fputs("{written}", stdout); }}\n')
    assert main(["bench", str(package)]) == 5
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and words in err and "generate the package again" in err


def test_the_program_alone(tmp_path: Path) -> None:
    package = generated(tmp_path, SENSOR)
    subprocess.run(["ninja", "-C", str(package), "build/bench.elf"], check=True, capture_output=True)

    def said(*options: str) -> tuple[int, str, str]:
        done = subprocess.run([package / "build/bench.elf", *options], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    code, out, err = said("--help")
    assert (code, err) == (0, "") and out.startswith("bench [--seconds S]")
    code, out, err = said("--runs", "5")
    header, blank, columns, row, reads = out.splitlines()
    assert (code, err, blank) == (0, "", "") and header.startswith("top2_e4_norm  w8a8  x86-64-v3: ")
    assert columns.split()[-2:] == ["run", "samples"] and row.split()[0::9] == ["forward", "5"]
    assert "MB/s" in reads
    for wrong in (("--runs", "0"), ("--runs", "1x"), ("--seconds",), ("--prompt", "3"), ("--runs", "99999999999")):
        code, out, err = said(*wrong)
        assert (code, out) == (2, "") and err.startswith("bench: ") and "--seconds S" in err
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [package / "build/bench.elf", "--runs", "1", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "bench: the results could not be written\n")


def refusal(capsys: pytest.CaptureFixture[str], package: Path, *options: str) -> str:
    capsys.readouterr()
    assert main(["bench", str(package), *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


@pytest.mark.parametrize("board", ["stm32f405", "riscv-virt-rv64gc"])
def test_instructions_are_not_speed(board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = refusal(capsys, generated(tmp_path, SENSOR, board))
    assert "instructions, and they are not speed" in err and "`colibri profile`" in err and "app/cycles.h" in err


@pytest.mark.parametrize("board", ["wasm32", "windows-x86-64"])
def test_no_program_where_the_board_is_not_known(
    board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = generated(tmp_path, SENSOR, board)
    assert "package has no bench program" in refusal(capsys, package)
    assert not (package / "app/bench.c").exists()


@pytest.mark.parametrize("board", FOREIGN)
def test_another_processor_is_refused_before_and_in_the_emulator(
    board: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = generated(tmp_path, SENSOR, board)
    err = refusal(capsys, package)
    assert "this machine is no " in err and "`ninja build/bench.elf`" in err
    emulator = FOREIGN[board]
    compiler = load_package(package).board.toolchain.prefix + "gcc"
    if missing := next((name for name in (compiler, emulator) if shutil.which(name) is None), None):
        pytest.skip(f"{missing} is not installed")
    subprocess.run(["ninja", "-C", str(package), "build/bench.elf"], check=True, capture_output=True)
    done = subprocess.run([emulator, package / "build/bench.elf"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "bench: this is QEMU: its times say nothing of the board\n"


@pytest.mark.parametrize("command", ["bench", "test"])
def test_without_its_compiler(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = generated(tmp_path, SENSOR)
    capsys.readouterr()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([command, str(package)]) == 4
    out, err = capsys.readouterr()
    assert out == "" and err == f"colibri: board {HOST_BOARD}: gcc: not installed; sudo apt-get install gcc libc6-dev\n"


def test_what_is_for_tokens_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = generated(tmp_path, SENSOR)
    assert "--prompt: is for models of tokens" in refusal(capsys, package, "--prompt", "3")
    (package / "app/bench.c").unlink()
    assert main(["bench", str(package)]) == 5
    assert "has no bench program; generate the package again" in capsys.readouterr().err
