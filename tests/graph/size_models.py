"""Models whose products `ci/code-size` measures: those that are fitted, and those held out."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from small_models import EXAMPLES, ORACLE, SENSOR_CONFIG, sensor_arrays, write_mixtral, write_sensor

from colibri.boards.profile import Board, BoardKind
from colibri.generate import Options
from colibri.graph.graph import StateType
from colibri.passes.quantise import Scheme

F16 = StateType.F16
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
}  # fmt: skip
SENSORS: dict[str, dict[str, Any]] = {
    "tiny": {},
    "one": {"input_dim": 13, "model_dim": 24, "expert_hidden": 32, "top_k": 1},
    "many": {"input_dim": 20, "model_dim": 64, "expert_hidden": 48, "num_experts": 8, "output_dim": 3,
             "norm_topk_prob": True},
    "three": {"input_dim": 9, "model_dim": 16, "expert_hidden": 40, "num_experts": 6, "top_k": 3, "output_dim": 1},
}  # fmt: skip
PRUNED = {0: {1, 3}, 1: {2, 5}, 2: {0, 1}, 3: {0, 1}}


@dataclass(frozen=True)
class Case:
    """A checkpoint with the options to build it with."""

    path: Path
    options: Options

    @property
    def name(self) -> str:
        """For people."""
        rows = self.options.prefill or self.options.batch or 1
        return f"{self.path.name} {self.options.scheme}, {rows} row{'s' if rows > 1 else ''}"


def training(folder: Path) -> list[Case]:
    """Models to fit, written into a folder: each scheme with one row and several, both states, the odd shapes."""
    tokens = {name: write_mixtral(folder / f"{name}-lm", **changes) for name, changes in TOKENS.items()}
    sensors = {
        name: write_sensor(folder / f"{name}-sensor", sensor_arrays({**SENSOR_CONFIG, **changes}), **changes)
        for name, changes in SENSORS.items()
    }
    cases = []
    for scheme in Scheme:
        cases += [
            Case(tokens["narrow"], Options(scheme)),
            Case(tokens["narrow"], Options(scheme, F16, prefill=8)),
            Case(tokens["wide"], Options(scheme, F16)),
            Case(tokens["wide"], Options(scheme, prefill=4)),
            Case(tokens["window"], Options(scheme)),
            Case(tokens["window"], Options(scheme, F16, prefill=16)),
            Case(tokens["odd"], Options(scheme, prefill=3)),
            Case(tokens["gelu"], Options(scheme, F16, prefill=8)),
            Case(sensors["tiny"], Options(scheme)),
            Case(sensors["one"], Options(scheme, batch=4)),
            Case(sensors["many"], Options(scheme)),
            Case(sensors["many"], Options(scheme, batch=8)),
            Case(sensors["three"], Options(scheme)),
            Case(sensors["three"], Options(scheme, batch=2)),
        ]
    return [
        *cases,
        Case(tokens["narrow"], Options(drop={0: {1}})),
        Case(tokens["wide"], Options(Scheme.W4A8, prefill=8, drop={0: {1}, 2: {3, 4}})),
        Case(tokens["gelu"], Options(Scheme.W4A8)),
        Case(tokens["odd"], Options(Scheme.W4A8, F16)),
        Case(sensors["many"], Options(drop={0: {2, 3}})),
    ]


def held_out() -> list[Case]:
    """Models that are not fitted: the examples in every scheme, and the stored Mixtrals."""
    language = EXAMPLES / "shakespeare-moe"
    return [
        Case(language, Options(Scheme.W4A8, F16, prefill=8, context=32)),
        Case(language, Options(Scheme.W4A8, context=32, drop=PRUNED)),
        Case(language, Options(Scheme.W8A8, context=32)),
        Case(language, Options(Scheme.F32, context=32, prefill=4)),
        Case(language, Options(Scheme.W8A16, context=32)),
        Case(language, Options(Scheme.W4A16, context=32, prefill=16)),
        Case(ORACLE / "mixtral-sharded-swa", Options(Scheme.W8A8, prefill=4)),
        Case(ORACLE / "mixtral-base", Options(Scheme.W8A16, F16, context=64)),
        *(Case(path, Options(scheme)) for path in sorted((EXAMPLES / "load-moe").iterdir()) for scheme in Scheme),
        Case(EXAMPLES / "load-moe/top2-e4-norm", Options(Scheme.W8A8, batch=4)),
    ]


def compiler_of(board: Board) -> str:
    """``arm-none-eabi-gcc 12.2.1``; with its C library where that is linked in."""
    program = f"{board.toolchain.prefix}gcc"
    full = subprocess.run([program, "-dumpfullversion"], capture_output=True, text=True, check=True)
    name = f"{program} {full.stdout.strip()}"
    if board.kind is BoardKind.BARE:
        return name
    macros = subprocess.run(
        [program, "-E", "-dM", "-include", "features.h", "-x", "c", "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    version = [re.search(rf"define {macro} (\d+)", macros) for macro in ("__GLIBC__", "__GLIBC_MINOR__")]
    return f"{name}, glibc {'.'.join(match[1] for match in version if match)}"
