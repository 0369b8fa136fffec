"""What ci/bench measures: checkpoints, packages of them for this machine, and one run of a package's bench program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

from colibri.bench.model import Bench
from colibri.package import Package, load_package
from colibri.paths import generator_digest

ROOT = Path(__file__).resolve().parent.parent
# What each scheme is compared with: llama.cpp's type of about as many bits, and bits of a weight there.
PEER_TYPES = {"w8a8": ("Q8_0", 8.5), "w4a8": ("Q4_0", 4.5)}


@dataclass(frozen=True)
class Model:
    """A checkpoint to measure.

    Attributes:
        sizes: options of ci/synthetic-mixtral; empty for one that is an example.
        example: folder in examples.
        options: of `colibri generate`.
        prompts: lengths of prompts.
        tokens: that are decoded from an empty context; 0 for sensor models.
    """

    name: str
    sizes: dict[str, int] = field(default_factory=dict)
    example: str = ""
    options: tuple[str, ...] = ()
    prompts: tuple[int, ...] = ()
    tokens: int = 0
    top_k: int = 2

    def checkpoint(self, work: Path) -> Path:
        """The checkpoint, written if need be: with random weights."""
        if self.example:
            return ROOT / "examples" / self.example
        folder = work / "checkpoints" / self.name
        if not (folder / "config.json").exists():
            words = [f"--{name.replace('_', '-')}={value}" for name, value in self.sizes.items()]
            folder.parent.mkdir(parents=True, exist_ok=True)
            run([sys.executable, str(ROOT / "ci/synthetic-mixtral"), str(folder), *words])
            config = json.loads((folder / "config.json").read_text()) | {"num_experts_per_tok": self.top_k}
            (folder / "config.json").write_text(json.dumps(config, indent=1))
        return folder


MEDIUM = Model(
    "medium",
    {"hidden": 1024, "intermediate": 3584, "layers": 10, "experts": 8, "heads": 16, "kv_heads": 4, "vocab": 4096,
     "context": 1024},
    options=("--prefill", "128", "--context", "640", "--threads", "2"), prompts=(128, 512), tokens=64,
)  # fmt: skip
TINY = Model(
    "tiny",
    {"hidden": 64, "intermediate": 128, "layers": 4, "experts": 4, "heads": 4, "kv_heads": 4, "vocab": 512,
     "context": 1024},
    options=("--prefill", "128", "--context", "640"), prompts=(128, 512), tokens=128,
)  # fmt: skip
SHORT = replace(TINY, options=("--prefill", "32", "--context", "160"), prompts=(128,), tokens=32)  # sooner made
SHAKESPEARE = Model(
    "shakespeare-moe", example="shakespeare-moe", options=("--prefill", "128"), prompts=(128,), tokens=128
)
LOAD = Model("load-moe", example="load-moe/top2-e4-norm")
MODELS = (MEDIUM, TINY, SHAKESPEARE, LOAD)


def run(command: list[str]) -> str:
    """What a program prints that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


@dataclass(frozen=True)
class Built:
    """A package."""

    folder: Path
    package: Package

    @property
    def macs(self) -> int:
        """Multiply-adds of one token in matrix products, attention's positions aside."""
        return sum(op.macs for op in self.package.ops if not op.encoder)

    def bench(self, *options: str, threads: int = 1) -> Bench:
        """One run of its bench program."""
        if self.package.threads != 1:  # the others know of none
            options = (*options, "--threads", str(threads))
        return msgspec.json.decode(run([str(self.folder / "build/bench.elf"), *options, "--json"]), type=Bench)


def built(work: Path, model: Model, board: str, scheme: str, *options: str, target: str = "build/bench.elf") -> Built:
    """A package of a model, generated and compiled unless that has been done by this very Colibri."""
    words = [*model.options, *options]
    folder = work / "packages" / "-".join([model.name, board, scheme, *(word.strip("-") for word in words)])
    stamp = folder.with_suffix(".digest")
    made_by = json.dumps([generator_digest(), words])
    if not (stamp.exists() and stamp.read_text() == made_by and (folder / target).exists()):
        print(f"making {folder.name}", file=sys.stderr)
        checkpoint = model.checkpoint(work)
        colibri = [sys.executable, "-m", "colibri"]
        run([*colibri, "generate", str(checkpoint), "--board", board, "--scheme", scheme, *words, "-o", str(folder)])
        run(["ninja", "-C", str(folder), target])
        stamp.write_text(made_by)
    return Built(folder, load_package(folder))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write_gguf(checkpoint: Path, out: Path) -> None:
    """The checkpoint of ci/synthetic-mixtral in llama.cpp's form, fp16, without a vocabulary."""
    import gguf

    config = json.loads((checkpoint / "config.json").read_text())
    layers, experts = config["num_hidden_layers"], config["num_local_experts"]
    tensors: dict[str, np.ndarray] = {}
    for shard in sorted(checkpoint.glob("*.safetensors")):
        raw = np.memmap(shard, np.uint8, "r")
        length = int(raw[:8].view("<u8")[0])
        for name, facts in json.loads(bytes(raw[8 : 8 + length])).items():
            if name != "__metadata__":
                begin, end = (8 + length + at for at in facts["data_offsets"])
                tensors[name] = raw[begin:end].view("<u2").reshape(facts["shape"])

    def floats(name: str, kind: type = np.float16) -> np.ndarray:
        return (tensors[name].astype(np.uint32) << 16).view(np.float32).astype(kind)

    writer = gguf.GGUFWriter(out, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_expert_count(experts)
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_tensor("token_embd.weight", floats("model.embed_tokens.weight"))
    writer.add_tensor("output_norm.weight", floats("model.norm.weight", np.float32))
    writer.add_tensor("output.weight", floats("lm_head.weight"))
    for layer in range(layers):
        theirs, ours = f"blk.{layer}", f"model.layers.{layer}"
        writer.add_tensor(f"{theirs}.attn_norm.weight", floats(f"{ours}.input_layernorm.weight", np.float32))
        writer.add_tensor(f"{theirs}.ffn_norm.weight", floats(f"{ours}.post_attention_layernorm.weight", np.float32))
        for name, slot in (("q", "q"), ("k", "k"), ("v", "v"), ("output", "o")):
            writer.add_tensor(f"{theirs}.attn_{name}.weight", floats(f"{ours}.self_attn.{slot}_proj.weight"))
        moe = f"{ours}.block_sparse_moe"
        writer.add_tensor(f"{theirs}.ffn_gate_inp.weight", floats(f"{moe}.gate.weight", np.float32))
        for name, slot in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
            stacked = np.stack([floats(f"{moe}.experts.{expert}.{slot}.weight") for expert in range(experts)])
            writer.add_tensor(f"{theirs}.ffn_{name}_exps.weight", stacked)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
