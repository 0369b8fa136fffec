"""One importer a model family: names and config in, graph out. No other module knows a family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colibri.checkpoint.checkpoint import Checkpoint, Dropped
from colibri.errors import BadInput, UsageError, in_bytes
from colibri.graph.graph import Graph, StateType


@dataclass(frozen=True)
class ImportOptions:
    """What the user fixes before the graph is made.

    Attributes:
        context: positions of a token model; None means the checkpoint's maximum.
        kv: element type of key and value states.
        source: tokens of an encoder; None means as many as the context.
    """

    context: int | None = None
    kv: StateType = StateType.F32
    source: int | None = None


Importer = Callable[[Checkpoint, ImportOptions], Graph]


def _importers() -> dict[str, Importer]:
    from colibri.checkpoint.families import (
        deepseek,
        gpt_oss,
        granitemoe,
        llama,
        llama4,
        mixtral,
        moe_mlp,
        olmoe,
        phimoe,
        qwen_moe,
        switch_transformers,
    )

    return {
        "deepseek_v2": deepseek.load_v2,
        "deepseek_v3": deepseek.load_v3,
        "gpt_oss": gpt_oss.load,
        "granitemoe": granitemoe.load,
        "llama": llama.load_llama,
        "llama4_text": llama4.load,
        "mistral": llama.load_mistral,
        "mixtral": mixtral.load,
        "moe_mlp": moe_mlp.load,
        "olmoe": olmoe.load,
        "phimoe": phimoe.load,
        "qwen2": llama.load_qwen2,
        "qwen2_moe": qwen_moe.load_qwen2_moe,
        "qwen3": llama.load_qwen3,
        "qwen3_moe": qwen_moe.load_qwen3_moe,
        "switch_transformers": switch_transformers.load,
    }


def family_names() -> list[str]:
    """Supported values of ``model_type``."""
    return sorted(_importers())


def import_graph(checkpoint: Checkpoint, options: ImportOptions) -> Graph:
    """Make the graph; every tensor is then used or named as dropped.

    Raises:
        BadInput: unknown family, or the checkpoint contradicts its config.
        UsageError: a source for a model without an encoder.
    """
    from colibri.checkpoint.families.unread import refuse_unread

    config = checkpoint.config
    model_type = config.optional_text("model_type")
    if model_type is None:
        from colibri.checkpoint.families.moe_mlp import REQUIRED_KEYS

        model_type = "moe_mlp" if all(config.has(key) for key in REQUIRED_KEYS) else None
    if model_type is None:
        raise BadInput(
            "no model_type, and not the keys of a sensor model",
            where=config.where,
            hint=f"supported model types: {', '.join(family_names())}",
        )
    importer = _importers().get(model_type)
    if importer is None:
        raise BadInput(
            f"model type {model_type!r} is not supported",
            where=config.where,
            hint=f"supported model types: {', '.join(family_names())}",
        )
    graph = importer(checkpoint, options)
    refuse_unread(config, graph)
    if options.source is not None and not graph.source:
        raise UsageError("is for models with an encoder", where="--source")
    graph.warnings += checkpoint.warnings
    graph.dropped += _told(checkpoint.finish())
    return graph


def _told(notes: list[Dropped]) -> list[str]:
    """A line for each reason: the first name, how many more, and the bytes of all."""
    lines = []
    for reason in dict.fromkeys(note.reason for note in notes):
        names = [note.name for note in notes if note.reason == reason]
        size = sum(note.size for note in notes if note.reason == reason)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(f"{names[0]}{more}: {reason}" + (f" ({in_bytes(size)})" if size else ""))
    return lines
