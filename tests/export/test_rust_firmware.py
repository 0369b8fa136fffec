"""The Rust crate in a firmware for Cortex-M: cargo builds and links it, the board's emulator runs it.

No package of Debian or Ubuntu has Rust's core library for Cortex-M, so the compiler makes it of its own sources.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path

import pytest
from exporting import EQUAL, SENSOR, link_options, make_export, run_image, start_up, succeed

HERE = Path(__file__).parent / "rust"
TARGET = "thumbv7em-none-eabihf"
CORE = "lib/rustlib/src/rust/library/core"
MANIFEST = """\
[package]
name = "firmware"
version = "0.1.0"
edition = "2021"

[dependencies]
top1_e3_tiny_model = { path = "../rust" }

[profile.release]
panic = "abort"
"""


def compiler_with_sources() -> tuple[Path, Path] | None:
    """A rustc with cargo beside it, and its sources of core; what `ci/setup` installs comes first."""
    for rustc in filter(None, (shutil.which("rustc", path="/usr/bin"), shutil.which("rustc"))):
        core = Path(succeed(rustc, "--print", "sysroot").strip()) / CORE
        if core.is_dir() and Path(rustc).with_name("cargo").exists():
            return Path(rustc), core
    return None


def make_core(rustc: Path, core: Path, sysroot: Path) -> None:
    """The core library for the target; the compiler's routines, a crate of their own, come from libgcc instead."""
    libraries = sysroot / "lib/rustlib" / TARGET / "lib"
    libraries.mkdir(parents=True)
    routines = sysroot / "routines.rs"
    routines.write_text("#![feature(compiler_builtins, no_core)]\n#![compiler_builtins]\n#![no_core]\n")
    edition = tomllib.loads((core / "Cargo.toml").read_text())["package"]["edition"]
    for name, source in (("core", core / "src/lib.rs"), ("compiler_builtins", routines)):
        succeed(
            rustc, "--edition", edition, "--crate-type", "rlib", "--crate-name", name, "--target", TARGET,
            "--cap-lints", "allow", "-C", "panic=abort", "-Z", "force-unstable-if-unmarked",
            "--out-dir", libraries, source,
            env={**os.environ, "RUSTC_BOOTSTRAP": "1"},
        )  # fmt: skip


@pytest.mark.emulator
def test_a_firmware_links_it_and_runs(tmp_path: Path) -> None:
    found = compiler_with_sources()
    if found is None:
        pytest.skip("no rustc with its sources (rust-src) is installed")
    rustc, core = found
    make_core(rustc, core, tmp_path / "sysroot")
    make_export(tmp_path, "rust", SENSOR, "stm32f405")
    package, firmware = tmp_path / "package", tmp_path / "firmware"
    (firmware / "src").mkdir(parents=True)
    (firmware / "Cargo.toml").write_text(MANIFEST)
    shutil.copy(HERE / "main.rs", firmware / "src")
    options = ["--sysroot", tmp_path / "sysroot", "-C", "linker=arm-none-eabi-gcc", "-C", "linker-flavor=gcc"]
    for option in (*link_options(package), *start_up(package, tmp_path), "-lgcc"):
        options += ["-C", f"link-arg={option}"]
    succeed(
        rustc.with_name("cargo"), "build", "--offline", "--release", "--target", TARGET, cwd=firmware,
        env={**os.environ, "RUSTC": str(rustc), "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(map(str, options))},
    )  # fmt: skip
    assert EQUAL in run_image(package, firmware / "target" / TARGET / "release/firmware")
