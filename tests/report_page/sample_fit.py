"""A search made by hand, as `colibri fit` hands it to its page."""

from __future__ import annotations

from colibri.evaluate.model import Estimate
from colibri.fit.model import SCHEMA, Choice, Final, Fit, Move, Other, Region, Rows

WORD = "w4a8:embedding=w5a8:1.experts=w3a8:2.experts=w3a8+o5:3.experts=w3a8:head=w4g128a8:kv=f16:context=141"
DROPS = ":drop=" + ",".join(f"{layer}.{expert}" for layer in range(4) for expert in range(6))


def choice(flash: int, lost: float, drops: str = DROPS) -> Choice:
    return Choice(
        recipe=WORD + drops,
        evaluated=WORD,
        weights=flash - 12_000,
        code=12_000,
        flash=flash,
        memory=147_616,
        context=141,
        prefill=1,
        loss=Estimate(2.77 + lost, 0.03),
        lost=Estimate(lost, 0.008),
        final=None,
        distance=lost,
        predicted=lost,
        agreement=0.82,
        values={"0.experts": "w4"},
    )


def sample_fit(name: str = "shakespeare-moe") -> Fit:
    """Six points on the front, three as good as the best, two beside; ``name`` is of checkpoint, data and an axis."""
    near = (choice(979_671, 0.0196), choice(978_090, 0.0217), choice(974_707, 0.0233))
    front = (*near, choice(792_328, 0.0705), choice(641_336, 0.1796), choice(416_241, 0.6979, ""))
    final = Final(Estimate(2.757, 0.03), Estimate(2.735, 0.03), Estimate(0.022, 0.0083), 0.816, {"flash": 977_924})
    moves = [Move("0.experts", coding, harm, 100_000, 0, coding != "w4g128")
             for coding, harm in (("w6", 0.001), ("w4g128", 0.0123), ("w3", 0.2))]  # fmt: skip
    return Fit(
        schema=SCHEMA,
        checkpoint=name,
        board="stm32f405",
        title="ST STM32F405xG",
        data=name,
        measure="loss",
        unit="nats a token",
        regions=(Region("flash", "flash", 1 << 20, 65_536), Region("sram", "ram", 131_072, 32_768)),
        rows=Rows("tokens", 5_000, 10_368, 10_112, "self", True, 64),
        seed=0,
        points=1000,
        evaluated=96,
        known=0,
        original=Estimate(2.735, 0.03),
        front=front,
        others=(Other(WORD, 900_000, 147_616, 2.9, 0.13), Other(f"{name}:x", 700_000, 147_616, 3.2, 0.43)),
        moves=(*moves, Move(name, "w2", 0.4, 1, 0, True)),
        chosen=0,
        final=final,
    )
