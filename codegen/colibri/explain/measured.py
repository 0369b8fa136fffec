"""What changes did to examples/shakespeare-moe, over held-out text in windows of 128: for a rule of thumb.

All figures are the Kullback-Leibler divergence from the model in fp32, nats a token: it is above 0 and scatters less
than the loss. Weights are rounded to nearest, activations have 8 bits.

`CODINGS` and `STATES` are of 10,240 tokens; `DROPPED` is from the table that `ci/prune` writes into docs/prune.md, less
what w8a8 alone has there. `ci/thumb --write` measures them.
"""

# begin: ci/thumb --write
# Of a coding of all weights, or of those of the experts beside w8.
CODINGS: dict[tuple[str, str], float] = {
    ("all", "w8"): 0.0027,
    ("all", "w6"): 0.0048,
    ("all", "w5"): 0.0129,
    ("all", "w4"): 0.0357,
    ("all", "w3"): 0.1235,
    ("all", "w2"): 0.5687,
    ("experts", "w8"): 0.0027,
    ("experts", "w6"): 0.0037,
    ("experts", "w5"): 0.0066,
    ("experts", "w4"): 0.0173,
    ("experts", "w3"): 0.0561,
    ("experts", "w2"): 0.2719,
}
# Of key and value states, above those in fp32.
STATES: dict[str, float] = {"f32": 0.0, "f16": 0.0, "int8": 0.0001}
# Share of the experts that are gone, and what that costs; ascending.
DROPPED: tuple[tuple[float, float], ...] = ((1 / 32, 0.0), (4 / 32, 0.0045), (8 / 32, 0.0437), (12 / 32, 0.1716))
# end
