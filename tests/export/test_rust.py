"""The Rust crate: cargo tests it without network, and its build script compiles for a board."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from exporting import ENCODER, LANGUAGE, SENSOR, make_export, succeed
from small_models import HOST_BOARD

from colibri.cli import main

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")


def cargo(folder: Path, *arguments: str, **environment: str) -> str:
    return succeed(
        "cargo", *arguments, "--offline", cwd=folder, env={**os.environ, "CARGO_TERM_COLOR": "never", **environment}
    )


HOSTILE = {"CFLAGS": "-O3 -ffast-math -ffp-contract=fast"}


@pytest.mark.parametrize("source", [LANGUAGE, ENCODER], ids=lambda path: path.name)
def test_a_language_model(source: Path, tmp_path: Path) -> None:
    said = cargo(make_export(tmp_path, "rust", source, HOST_BOARD), "test", "--test", "golden", **HOSTILE)
    assert "test result: ok. 5 passed" in said and "warning" not in said


def test_a_project_of_a_user(tmp_path: Path) -> None:
    """A program that adds the crate by its path and predicts."""
    make_export(tmp_path, "rust", SENSOR, HOST_BOARD)
    app = tmp_path / "app"
    (app / "src").mkdir(parents=True)
    (app / "Cargo.toml").write_text(
        '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n\n'
        '[dependencies]\ntop1_e3_tiny_model = { path = "../rust", features = ["std"] }\n'
    )
    (app / "src/main.rs").write_text(
        "use std::error::Error;\nuse top1_e3_tiny_model::*;\n\nfn main() -> Result<(), Box<dyn Error>> {\n"
        "    let mut memory = Memory::new();\n    let mut model = Model::new(&mut memory)?;\n"
        "    let mut outputs = [0.0; OUTPUTS];\n    model.forward(&[0.5; INPUTS], &mut outputs)?;\n"
        '    println!("{} outputs", outputs.len());\n    drop(model);\n    drop(memory);\n    Ok(())\n}\n'
    )
    assert cargo(app, "run", "--quiet") == "2 outputs\n"


def script(folder: Path) -> Path:
    """The build script as a program: cargo would first want the target's core library, which few machines have."""
    succeed("rustc", "--edition", "2021", "build.rs", "-o", "build-script", cwd=folder)
    return folder / "build-script"


def environment(folder: Path, target: str) -> dict[str, str]:
    (folder / "out").mkdir(exist_ok=True)
    cargos = {"TARGET": target, "HOST": "x86_64-unknown-linux-gnu", "OUT_DIR": str(folder / "out"), "DEBUG": "false"}
    return {"PATH": os.environ["PATH"], "CARGO_CFG_TARGET_OS": "none", "CARGO_MANIFEST_DIR": str(folder), **cargos}


def test_the_build_script_compiles_for_the_board(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "rust", SENSOR, "stm32f405")
    program = script(folder)
    said = succeed(program, cwd=folder, env=environment(folder, "thumbv7em-none-eabihf"))
    assert "cargo:rustc-link-lib=static=top1_e3_tiny_model" in said
    assert "cargo:rerun-if-env-changed=CC_thumbv7em_none_eabihf" in said
    attributes = succeed("arm-none-eabi-readelf", "-A", folder / "out/libtop1_e3_tiny_model.a")
    compiled = len(list((folder / "c/src").rglob("*.c")))
    assert attributes.count('Tag_CPU_name: "7E-M"') == compiled > 3
    assert attributes.count("Tag_ABI_VFP_args: VFP registers") == compiled

    soft = subprocess.run(
        [program],
        cwd=folder,
        env=environment(folder, "thumbv7em-none-eabi"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert soft.returncode == 1
    assert soft.stderr == (
        "top1_e3_tiny_model: stm32f405 wants a target that ends with eabihf, this is thumbv7em-none-eabi\n"
    )
    named = {**environment(folder, "thumbv7em-none-eabihf"), "CC_thumbv7em_none_eabihf": "no-such-cc -v", "CC": "gcc"}
    absent = subprocess.run([program], cwd=folder, env=named, capture_output=True, text=True, check=False)
    assert absent.returncode == 1
    assert absent.stderr.startswith("top1_e3_tiny_model: no-such-cc: ") and "name a C compiler" in absent.stderr


def test_kernels_of_another_processor_are_refused(tmp_path: Path) -> None:
    folder = make_export(tmp_path, "rust", SENSOR, HOST_BOARD)
    done = subprocess.run(
        [script(folder)],
        cwd=folder,
        env=environment(folder, "aarch64-unknown-linux-gnu"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"top1_e3_tiny_model: the kernels are for {HOST_BOARD}, and aarch64-unknown-linux-gnu is another processor"
    ]


def test_a_batch_and_two_blocks_of_memory(tmp_path: Path) -> None:
    """The STM32F405 with its states in CCM, and with portable kernels, so that the host can test them."""
    package, pins, board = tmp_path / "package", tmp_path / "pins.toml", tmp_path / "plain.toml"
    pins.write_text('[memory]\nz = "ccm"\n')
    board.write_text('inherits = "stm32f405"\nkernels = ["portable"]\n')
    options = ["--batch", "3", "--place", str(pins), "-o", str(package)]
    assert main(["generate", str(SENSOR), "--board", str(board), *options]) == 0
    assert main(["export", str(package), "--to", "rust", "-o", str(tmp_path / "rust")]) == 0
    source = (tmp_path / "rust/src/lib.rs").read_text()
    assert "memory_sram: &'m mut MemorySram, memory_ccm: &'m mut MemoryCcm" in source
    said = cargo(tmp_path / "rust", "test", "--test", "golden", **HOSTILE)
    assert "test result: ok. 4 passed" in said and "warning" not in said
