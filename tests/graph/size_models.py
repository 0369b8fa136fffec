"""Models whose products `ci/code-size` measures: those that are fitted, and those held out."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from small_models import EXAMPLES, ORACLE, SENSOR_CONFIG, sensor_arrays, write_mixtral, write_sensor

from colibri.boards.profile import Board, BoardKind, CompilerFamily
from colibri.graph.graph import StateType
from colibri.graph.scheme import SCHEMES, Scheme
from colibri.options import Options
from colibri.passes.rules import Rule, ordered
from colibri.toolchain.find import find_toolchain

F16, I8 = StateType.F16, StateType.I8
TOKENS: dict[str, dict[str, Any]] = {
    "narrow": {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 96},
    "wide": {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 8, "vocab_size": 256,
             "num_local_experts": 8, "num_hidden_layers": 3},
    "window": {"hidden_size": 96, "intermediate_size": 160, "num_attention_heads": 3, "num_key_value_heads": 3,
               "vocab_size": 130, "num_local_experts": 6, "num_experts_per_tok": 1, "sliding_window": 16},
    "odd": {"hidden_size": 40, "intermediate_size": 56, "num_attention_heads": 2, "num_key_value_heads": 1,
            "vocab_size": 50, "num_local_experts": 5, "num_experts_per_tok": 3, "hidden_act": "relu",
            "num_hidden_layers": 1},
    "gelu": {"hidden_size": 256, "intermediate_size": 320, "num_key_value_heads": 4, "vocab_size": 512,
             "hidden_act": "gelu_pytorch_tanh"},
    "erf": {"hidden_act": "gelu"},
}  # fmt: skip
SENSORS: dict[str, dict[str, Any]] = {
    "one": {"input_dim": 13, "model_dim": 24, "expert_hidden": 32, "top_k": 1, "activation": "tanh"},
    "many": {"input_dim": 20, "model_dim": 64, "expert_hidden": 48, "num_experts": 8, "output_dim": 3,
             "norm_topk_prob": True},
    "silu": {"activation": "silu"},
    "gelu": {"activation": "gelu_tanh"},
    "erf": {"activation": "gelu"},
    "sigmoid": {"activation": "sigmoid"},
    "identity": {"activation": "identity"},
}  # fmt: skip
# Ops that the families have besides Mixtral's, each in two of these or more, with one row and with several.
FAMILIES: dict[str, tuple[Options, ...]] = {
    "deepseekv2-dense-only-first": (Options(Scheme.W8A8, F16, prefill=4), Options(Scheme.W8A8, I8)),
    "deepseekv2-groups-q-rank": (Options(Scheme.W4A8, prefill=4), Options(Scheme.W4A8, I8, prefill=4)),
    "deepseekv3-groups-of-three": (
        Options(Scheme.W8A16, F16),
        Options(Scheme.W4A8, prefill=4),
        Options(Scheme.W8A8, prefill=4, drop={1: {0, 4}}),
    ),
    "deepseekv3-yarn-halves": (Options(Scheme.F32, prefill=3), Options(Scheme.W8A8)),
    "gptoss-all-experts": (Options(Scheme.W8A8, prefill=4), Options(Scheme.W8A8, I8, prefill=4)),
    "gptoss-mxfp4": (Options(Scheme.W4A8, prefill=4), Options(Scheme.W4A16, F16)),
    "gptoss-mxfp4-wide-top1": (Options(Scheme.W4A8, F16), Options(Scheme.W4A16, prefill=4)),
    "gptoss-no-bias-top1": (Options(Scheme.W4A16, F16), Options(Scheme.W4A8, I8)),
    "granitemoe-bias": (Options(Scheme.W8A8, prefill=8),),
    "llama-biases": (Options(Scheme.W4A8, prefill=4),),
    "llama4-biases-temperature": (Options(Scheme.W8A8), Options(Scheme.W8A16, prefill=4)),
    "llama4-top2-no-norm": (
        Options(Scheme.W4A8, F16, prefill=4),
        Options(Scheme.W4A16),
        Options(Scheme.W8A8, prefill=8),
    ),
    "olmoe-clip": (Options(Scheme.F32, prefill=4),),
    "phimoe-longrope": (Options(Scheme.W4A8, prefill=4), Options(Scheme.W8A8, drop={1: {2}})),
    "phimoe-wide-jitter": (Options(Scheme.W8A8, F16),),
    "qwen2moe-norm-step2": (Options(Scheme.W8A8, prefill=4),),
    "qwen2moe-windows": (Options(Scheme.W4A8, F16),),
    "qwen3moe-window-bias": (Options(Scheme.W4A16, prefill=4),),
    "switch-untied-router-bias": (
        Options(Scheme.F32, prefill=3),
        Options(Scheme.W4A8, F16),
        Options(Scheme.W8A8, I8, prefill=3),
    ),
    "switch-wide-heads-all-sparse": (
        Options(Scheme.W8A8),
        Options(Scheme.W4A16, F16, prefill=4),
        Options(Scheme.W4A8, I8),
    ),
}
# Codings that share a dot kernel, each with a trait of its own, in large and small matrices.
CODINGS = ("f16", "w2za8", "w2a16", "w3a8", "w3g64za16", "w3a16+o10", "w4g64za8", "w5a8+o5", "w5za16", "w6a16", "w6za8")
# The same families with other shapes, held out.
UNSEEN: dict[str, Options] = {
    "deepseekv2-lite": Options(Scheme.F32, prefill=4),
    "deepseekv3-base": Options(Scheme.W4A8, F16, prefill=8),
    "gptoss-base": Options(Scheme.W8A8, F16, prefill=4),
    "llama4-top1": Options(Scheme.W8A8, prefill=8),
    "phimoe-base": Options(Scheme.W4A8, F16, prefill=4),
    "qwen2moe-base": Options(Scheme.W8A8),
    "qwen3moe-base": Options(Scheme.W4A16, prefill=4),
    "switch-base": Options(Scheme.W8A8, prefill=4),
}
_VERSION = re.compile(r"\d+(\.\d+)*")
_LIBC = {
    BoardKind.LINUX: ("glibc", "features.h", ("__GLIBC__", "__GLIBC_MINOR__")),
    BoardKind.WINDOWS: ("mingw-w64", "_mingw.h", ("__MINGW64_VERSION_MAJOR", "__MINGW64_VERSION_MINOR")),
}
COMPARED = (
    "deepseekv2-lite",
    "deepseekv3-base",
    "llama4-top1",
    "mixtral-base",
    "phimoe-base",
    "qwen3moe-base",
    "switch-base",
    "top1-e4",
)
CONTEXT = 32  # longer ones only move constants


@dataclass(frozen=True)
class Case:
    """A checkpoint with the options to build it with."""

    path: Path
    options: Options

    @property
    def name(self) -> str:
        """For people."""
        options = self.options
        words = [options.schemes, str(options.kv), f"{options.prefill or options.batch or 1} rows"]
        dropped = [f"{layer}:{'+'.join(map(str, sorted(ids)))}" for layer, ids in options.drop.items()]
        return ", ".join([self.path.name, *words, *([f"without {' '.join(dropped)}"] if dropped else [])])


def mixed(schemes: str, **options: Any) -> Options:
    """Options with the rules of a recipe in a word: ``w4a8:experts=w8a8:head=w8a16``."""
    scheme, *rules = schemes.split(":")
    return Options(Scheme.parse(scheme), rules=ordered(map(Rule.parse, rules)), **options)


def training(folder: Path) -> list[Case]:
    """Models to fit: Mixtrals and sensor models in each scheme, written into a folder; stored ones of the others."""
    tokens = {name: write_mixtral(folder / f"{name}-lm", **changes) for name, changes in TOKENS.items()}
    sensors = {
        name: write_sensor(folder / f"{name}-sensor", sensor_arrays({**SENSOR_CONFIG, **changes}), **changes)
        for name, changes in SENSORS.items()
    }
    cases = []
    for scheme in SCHEMES:
        cases += [
            Case(tokens["wide"], Options(scheme, F16, prefill=4)),
            Case(tokens["odd"], Options(scheme, prefill=3)),
            Case(sensors["one"], Options(scheme, batch=4)),
        ]
    for scheme in map(Scheme.parse, CODINGS):
        cases += [Case(tokens["wide"], Options(scheme, prefill=4)), Case(tokens["window"], Options(scheme))]
    for scheme in (Scheme.W8A8, Scheme.W4A8):  # whose kernels take several inputs at once
        cases += [Case(tokens["wide"], Options(scheme, prefill=8)), Case(tokens["odd"], Options(scheme, prefill=13))]
    return [
        *cases,
        Case(tokens["narrow"], Options()),
        Case(tokens["narrow"], Options(drop={0: {1}})),
        Case(tokens["wide"], Options(Scheme.W4A8, F16, prefill=4, drop={0: {1}, 1: {1, 2}})),
        Case(tokens["wide"], Options(drop={1: {0, 1}})),
        Case(tokens["window"], Options(Scheme.W8A16, prefill=4, drop={1: {4, 5}})),
        Case(tokens["wide"], mixed("w4a8:experts=w8a8:head=w8a16", prefill=4)),
        Case(tokens["wide"], mixed("w8a8:0.experts=w4a8:1.attention=w4a16:1.experts.down=w3a8", prefill=4)),
        Case(tokens["odd"], mixed("f32:experts=w8a8", prefill=3)),
        Case(tokens["window"], Options(kv=F16)),
        Case(tokens["window"], Options(Scheme.W4A8, I8, prefill=4)),
        Case(tokens["wide"], Options(Scheme.W4A8, I8)),
        Case(tokens["gelu"], Options(Scheme.W4A16)),
        Case(tokens["erf"], Options()),
        Case(sensors["many"], Options()),
        Case(sensors["many"], Options(Scheme.W4A8, drop={0: {1, 6}})),
        *(Case(sensors[name], Options()) for name in ("silu", "gelu", "erf", "sigmoid", "identity")),
        *(
            Case(ORACLE / "variants" / name, replace(options, context=CONTEXT))
            for name, several in FAMILIES.items()
            for options in several
        ),
    ]


def held_out() -> list[Case]:
    """Models that are not fitted: the examples, and the stored ones of each family."""
    language = EXAMPLES / "shakespeare-moe"
    return [
        Case(language, Options(Scheme.W4A8, F16, prefill=8, context=CONTEXT)),
        Case(language, Options(Scheme.W8A8, context=CONTEXT)),
        Case(language, Options(Scheme.F32, context=CONTEXT, prefill=4)),
        Case(language, Options(Scheme.W8A16, context=CONTEXT)),
        Case(language, Options(Scheme.W4A16, context=CONTEXT, prefill=16)),
        Case(language, Options(Scheme.W4A8, context=CONTEXT, drop={0: {1, 3}})),
        Case(language, Options(Scheme.W4A8, F16, prefill=8, context=CONTEXT, drop={0: {1}, 1: {1, 2}, 2: {1, 2, 3}})),
        Case(language, mixed("w4a8:experts.down=w8a8:head=w8a16:1.experts=w3g64a8", prefill=8, context=CONTEXT)),
        Case(ORACLE / "mixtral-base", Options(Scheme.W8A16, F16, context=64)),
        Case(ORACLE / "mixtral-base", mixed("w8a8:experts=w4a8", prefill=4, drop={1: {0, 7}})),
        Case(ORACLE / "qwen3moe-base", Options(Scheme.W8A8, drop={1: {1}})),
        Case(ORACLE / "deepseekv3-base", Options(Scheme.W8A8, F16, prefill=4, drop={1: {0}})),
        *(Case(ORACLE / name, options) for name, options in UNSEEN.items()),
        *(Case(EXAMPLES / "load-moe/top1-e4", Options(scheme)) for scheme in (Scheme.F32, Scheme.W8A8)),
        Case(EXAMPLES / "load-moe/top2-e4-norm", Options(Scheme.W8A8, batch=4)),
        Case(EXAMPLES / "load-moe/top2-e4-norm", Options(Scheme.W8A8, drop={0: {2}})),
    ]


def compared() -> list[Case]:
    """Those of `held_out` that a board is compared with another one by: each scheme, and the largest programs."""
    return [case for case in held_out() if case.path.name in COMPARED]


def compiler_of(board: Board) -> str:
    """``arm-none-eabi-gcc 12.2.1``; with its C library where that is linked in.

    Raises:
        ToolMissing: the board's own compiler is not installed.
    """
    found = find_toolchain(board)
    version = _VERSION.search(_output(*found.driver, "-dumpfullversion", "-dumpversion"))
    if found.compiler.family is CompilerFamily.ZIG:
        version = _VERSION.search(_output(found.driver[0], "version"))
    name = f"{found.compiler.cc[0]} {version[0] if version else ''}"
    if board.kind not in _LIBC:
        return name
    library, header, macros = _LIBC[board.kind]
    text = _output(*found.command, "-E", "-dM", "-include", header, "-x", "c", "/dev/null")
    numbers = [re.search(rf"define {macro} (\d+)", text) for macro in macros]
    return f"{name}, {library} {'.'.join(number[1] for number in numbers if number)}"


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
