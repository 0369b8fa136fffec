"""Names of tensors that a family has: the first stranger is named before anything is found missing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from colibri.checkpoint.checkpoint import Checkpoint
from colibri.errors import BadInput, shown

_OF_A_LAYER = (
    r"(?:input_layernorm|post_attention_layernorm|self_attn\.[qkvo]_proj)\.weight|self_attn\.rotary_emb\.inv_freq"
)
_AROUND = r"model\.(?:embed_tokens|norm)\.weight|lm_head\.weight"


@dataclass(frozen=True)
class Names:
    """What a decoder's tensors are called, besides those that every decoder has.

    Attributes:
        layer: pattern of the names behind ``model.layers.N.``; the group ``expert`` is an expert's number.
        around: pattern of names outside the layers.
    """

    layer: str
    around: str = r"(?!)"

    def check(self, checkpoint: Checkpoint, layers: int, experts: int = 0) -> None:
        """Look at every name.

        Raises:
            BadInput: a tensor of an unknown name, or of a layer or an expert that config.json does not have.
        """
        known = re.compile(rf"model\.layers\.(?P<layer>[0-9]+)\.(?:{_OF_A_LAYER}|{self.layer})|{_AROUND}|{self.around}")
        where = checkpoint.where
        for name in checkpoint.left():
            match = known.fullmatch(name)
            name = shown(name)
            if match is None:
                what = f"unknown tensor {name} for model type {shown(checkpoint.config.text('model_type'))}"
                hint = "save it with transformers' save_pretrained, which writes model.layers.N.… names"
                raise BadInput(what, where=where, hint=hint)
            found = match.groupdict()
            for kind, count in (("expert", experts), ("layer", layers)):
                number = found.get(kind)
                if number is not None and _beyond(number, count):
                    what = f"tensor {name} is for {kind} {shown(number)}, but config.json says {count} {kind}s"
                    raise BadInput(what, where=where)


def _beyond(number: str, count: int) -> bool:
    """Whether a number in a name, which may have any length, is not below a count."""
    return len(number) > len(str(count)) or int(number) >= count
