"""Options that several commands share."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colibri.checkpoint.untrusted import json_kind, parse_object, read_bounded
from colibri.errors import BadInput, UsageError, shown
from colibri.threads import MOST_THREADS

if TYPE_CHECKING:
    from colibri.boards.profile import Board
    from colibri.calibrate.data import Calibration
    from colibri.options import Options

_KEEP_BYTES = 1 << 20
_MOST_EXPERTS = 1_000_000
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}


class Quantity(click.FloatRange):
    """A number within limits; what is not finite is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return number


class _Bytes(click.ParamType[int]):
    """A number of bytes: ``65536``, ``64K`` or ``1M``."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"([0-9]{1,12})([kKmM]?)(?:i?[bB])?", str(value))
        if match is None:
            self.fail(f"'{shown(str(value), 40)}' is no number of bytes, such as 65536 or 64K", param, ctx)
        return int(match[1]) * _UNITS[match[2].lower()]


class _Threads(click.ParamType[int | None]):
    """A number of threads; None for ``auto``."""

    name = "threads"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == "auto":
            return None
        if re.fullmatch("[1-9][0-9]?", str(value)) is None or int(value) > MOST_THREADS:
            self.fail(f"'{shown(str(value), 40)}' is neither auto nor from 1 to {MOST_THREADS}", param, ctx)
        return int(value)


FILE = click.Path(readable=False, path_type=Path)  # what is there, and may be read, is said when it is read
SECONDS = Quantity(1.0, 1_000_000.0)


def generation_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of generation to a command."""
    for option in reversed(
        [
            click.argument("checkpoint", type=FILE),
            click.option("--board", required=True, metavar="NAME",
                         help="Board, see `colibri boards`, or a .toml file."),
            click.option("-o", "--output", type=FILE, help="Folder of the package."),
            click.option("--scheme", metavar="SCHEME",
                         help="Bits of weights and activations, such as w4a8; the router stays fp32.  [default: w8a8]"),
            click.option("--set", "rules", multiple=True, metavar="[LAYER.]CLASS[.SLOT]=SCHEME",
                         help="Another scheme for some matrices, such as experts=w4a8 or head=w8a16; repeatable."),
            click.option("--recipe", metavar="FILE|WORD",
                         help="All of this in a file or in a word: recipe.json, or w4a8:head=w8a16:kv=f16:context=64."),
            click.option("--kv", type=click.Choice(["f32", "f16", "int8"]),
                         help="Key and value states.  [default: f32]"),
            click.option("--batch", type=click.IntRange(1, 1024),
                         help="Samples in a call (sensor models).  [default: 1]"),
            click.option("--prefill", type=click.IntRange(1, 1024),
                         help="Tokens taken in at once (token models).  [default: 1]"),
            click.option("--context", type=click.IntRange(1, 1 << 20),
                         help="Positions that fit (token models).  [default: the checkpoint's]"),
            click.option("--source", type=click.IntRange(1, 1 << 20),
                         help="Tokens that an encoder takes.  [default: as --context]"),
            click.option("--drop-expert", multiple=True, metavar="LAYER:ID", help="Leave an expert out; repeatable."),
            click.option("--keep-experts", type=FILE, metavar="FILE",
                         help='Keep only these: JSON, {"LAYER": [ID, …]}; layers not named keep all.'),
            click.option("--calibrate", metavar="FILE|self",
                         help="Round for this data: tokens, samples, or what the model itself writes."),
            click.option("--rounding", type=click.Choice(["nearest", "gptq"]),
                         help="With --calibrate: each weight to the nearest value, or together.  [default: gptq]"),
            click.option("--calibrate-limit", type=click.IntRange(1, 1 << 24), metavar="N",
                         help="Most tokens or samples of that data.  [default: 16384 tokens, 4096 samples]"),
            click.option("--place", type=click.Path(path_type=Path), metavar="FILE",
                         help="Your own wishes where buffers, weights and kernels go: TOML, see docs/memory.md."),
            click.option("--optimise", type=click.Choice(["speed", "size"]),
                         help="What the code is made for; the bits are the same.  [default: speed]"),
            click.option("--threads", type=_Threads(), metavar="N|auto",
                         help="Threads that share a call's work (Linux boards).  [default: auto, by the model's size]"),
            click.option("--prefix", metavar="NAME",
                         help="Prefix of C names.  [default: from the checkpoint's folder]"),
        ]
    ):  # fmt: skip
        function = option(function)
    return function


def reserve_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that keep something of the board for the application."""
    for option in reversed(
        [
            click.option("--reserve-flash", type=_Bytes(), metavar="BYTES",
                         help="Flash for the application: 64K.  [default: none]"),
            click.option("--reserve-ram", type=_Bytes(), metavar="BYTES",
                         help="RAM for the application: 32K.  [default: the board file's]"),
        ]
    ):  # fmt: skip
        function = option(function)
    return function


def toolchain_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a compiler."""
    for option in reversed(
        [
            click.option("--toolchain", default="", metavar="WHICH",
                         help="gcc, clang, zig, a compiler, a folder with one, or its prefix.  [default: the board's]"),
            click.option("--sysroot", type=FILE, metavar="DIR", help="Headers and libraries of the target."),
            click.option("--cflag", multiple=True, metavar="FLAG",
                         help="Option for the C compiler, behind Colibri's own; repeatable."),
        ]
    ):  # fmt: skip
        function = option(function)
    return function


def with_toolchain(board: Board, sysroot: Path | None, cflag: tuple[str, ...]) -> Board:
    """The board with what the command line adds to its toolchain.

    Raises:
        UsageError: a flag that is none, or that changes results; or the sysroot is no folder.
    """
    import msgspec

    from colibri.boards.check_options import option_fault

    if fault := next(filter(None, (option_fault(option, "--cflag") for option in cflag)), None):
        raise UsageError(fault.what, where=fault.where, hint=fault.hint)
    if sysroot is not None and not sysroot.is_dir():
        raise UsageError("is no folder", where=f"--sysroot {shown(str(sysroot), 300)}")
    tools = board.toolchain
    root = tools.sysroot if sysroot is None else str(sysroot.expanduser().absolute())
    tools = msgspec.structs.replace(tools, cflags=(*tools.cflags, *cflag), sysroot=root)
    return msgspec.structs.replace(board, toolchain=tools)


def parse_options(
    *,
    scheme: str | None,
    rules: tuple[str, ...],
    recipe: str | None,
    kv: str | None,
    batch: int | None,
    prefill: int | None,
    context: int | None,
    source: int | None,
    drop_expert: tuple[str, ...],
    keep_experts: Path | None,
    calibrate: str | None,
    rounding: str | None,
    calibrate_limit: int | None,
    place: Path | None,
    optimise: str | None,
    threads: int | None,
    prefix: str | None,
) -> Options:
    """The options as generation takes them.

    Raises:
        UsageError: ``--drop-expert`` is not LAYER:ID, a scheme or a rule is none, or an option is beside a recipe that
            says it.
        BadInput: the file of a recipe, of experts to keep, or that of ``--place``.
    """
    from colibri.graph.graph import StateType
    from colibri.graph.scheme import Scheme
    from colibri.optimise import Optimise
    from colibri.options import Options
    from colibri.passes.pins import Pins, load_pins
    from colibri.passes.rules import Rule, ordered

    pins = Pins() if place is None else load_pins(place)
    made_for = None if optimise is None else Optimise(optimise)
    if recipe is not None:
        said = {
            "--scheme": scheme,
            "--set": rules,
            "--kv": kv,
            "--context": context,
            "--source": source,
            "--drop-expert": drop_expert,
            "--keep-experts": keep_experts,
            "--calibrate": calibrate,
            "--rounding": rounding,
            "--calibrate-limit": calibrate_limit,
        }
        if twice := [name for name, value in said.items() if value not in (None, ())]:
            what = "is a part of the recipe"
            raise UsageError(what, where=f"{twice[0]} beside --recipe", hint="say it in one of them")
        beside = Options(batch=batch, prefill=prefill, optimise=made_for, threads=threads, prefix=prefix, pins=pins)
        return _of_recipe(recipe, beside)
    drop: dict[int, set[int]] = {}
    for text in drop_expert:
        match = re.fullmatch("([0-9]{1,9}):([0-9]{1,9})", text)
        if match is None:
            raise UsageError(f"'{shown(text, 40)}' is not LAYER:ID", where="--drop-expert", hint="for example 2:5")
        drop.setdefault(int(match[1]), set()).add(int(match[2]))
    return Options(
        scheme=Scheme.parse("w8a8" if scheme is None else scheme),
        rules=ordered(map(Rule.parse, rules)),
        kv=StateType(kv or "f32"),
        batch=batch,
        prefill=prefill,
        context=context,
        source=source,
        drop=drop,
        keep={} if keep_experts is None else read_keep_file(keep_experts),
        calibration=_calibration(calibrate, rounding, calibrate_limit),
        optimise=made_for,
        threads=threads,
        prefix=prefix,
        pins=pins,
    )


def _calibration(calibrate: str | None, rounding: str | None, limit: int | None) -> Calibration | None:
    from colibri.calibrate.data import OWN, Calibration, Rounding

    if calibrate is None:
        for name, value in (("--rounding", rounding), ("--calibrate-limit", limit)):
            if value is not None:
                raise UsageError("is for calibration data", where=name, hint="name it with --calibrate FILE|self")
        return None
    return Calibration(None if calibrate == OWN else Path(calibrate), limit, Rounding(rounding or "gptq"))


def _of_recipe(recipe: str, beside: Options) -> Options:
    """The recipe's options, with those of the command line that no recipe has to have."""
    from dataclasses import replace

    from colibri.recipe import parse_recipe

    read = parse_recipe(recipe)
    said = {}
    for name in ("batch", "prefill", "optimise"):
        own, more = getattr(read, name), getattr(beside, name)
        if None not in (own, more):
            what = "is a part of the recipe"
            raise UsageError(what, where=f"--{name} beside --recipe", hint="say it in one of them")
        said[name] = more if own is None else own
    return replace(read, **said, threads=beside.threads, prefix=beside.prefix, pins=beside.pins)


def read_keep_file(path: Path) -> dict[int, set[int]]:
    """Read ``{"LAYER": [ID, …]}``: JSON, whole numbers without leading zeros, each once.

    Raises:
        BadInput: unreadable, not JSON, or not of this shape.
    """
    where, hint = shown(str(path), 300), 'it looks like {"0": [1, 2], "3": [0, 7]}'

    def refuse(what: str) -> BadInput:
        return BadInput(what, where=where, hint=hint)

    table = parse_object(read_bounded(path, _KEEP_BYTES, pipe=True), where=where, noun="layer", hint=hint)
    keep: dict[int, set[int]] = {}
    for layer, ids in table.items():
        if not re.fullmatch("0|[1-9][0-9]{0,8}", layer):
            raise refuse(f"'{shown(layer)}' is not the number of a layer")
        if not isinstance(ids, list):
            raise refuse(f"layer {layer} has a JSON {json_kind(ids)}, expected a list of experts")
        for position, expert in enumerate(ids):
            if type(expert) is not int or not 0 <= expert < _MOST_EXPERTS:
                raise refuse(f"layer {layer}, entry {position + 1} is not the number of an expert")
        if len(set(ids)) < len(ids):
            raise refuse(f"layer {layer} names expert {next(e for e in ids if ids.count(e) > 1)} twice")
        keep[int(layer)] = set(ids)
    return keep


def default_output(checkpoint: Path, board: str) -> Path:
    """``build/MODEL-BOARD`` under the current folder."""
    from colibri.checkpoint.remote import last_name, url_of
    from colibri.emit.literals import identifier

    url = url_of(checkpoint)
    name = identifier(last_name(url) if url else Path(os.path.realpath(checkpoint)).name).replace("_", "-")
    return Path("build") / f"{name}-{Path(board).stem}"
