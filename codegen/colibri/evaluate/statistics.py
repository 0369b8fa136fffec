"""Means with 95 % intervals, and what is counted of a distribution over tokens."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from colibri.evaluate.model import Estimate

_Z = 1.959964  # of a normal distribution, 95 % on both sides

Wide = NDArray[np.float64]


def estimate(sums: Wide, counts: Wide) -> Estimate:
    """The mean of all, from the sums and counts of blocks ``[n]``.

    The interval is normal, with the standard error of the blocks' means, weighted by their counts. Differences are
    paired when ``sums`` are sums of differences.
    """
    total = float(counts.sum())
    mean = float(sums.sum()) / total
    blocks = len(sums)
    if blocks < 2:
        return Estimate(mean, None)
    apart = sums - mean * counts
    error = math.sqrt(blocks / (blocks - 1) * float((apart * apart).sum())) / total
    return Estimate(mean, _Z * error)


def ratio(sums: Wide, base: Wide) -> Estimate | None:
    """The mean relative to that of the original, less 1, from sums of both ``[n]``; None when the original's is 0."""
    if not base.sum() > 0:
        return None
    found = estimate(sums, base)
    return Estimate(found.mean - 1, found.within)


def log_probabilities(logits: NDArray[np.float32]) -> Wide:
    """Natural logarithms of the softmax of each row."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True)))


def losses(logs: Wide, targets: NDArray[np.int64]) -> Wide:
    """Nats of each row's target."""
    return np.asarray(-np.take_along_axis(logs, targets[:, None], axis=-1)[:, 0])


def divergences(original: Wide, logs: Wide) -> Wide:
    """Kullback-Leibler divergence of each row from the original's, in nats."""
    return np.asarray((np.exp(original) * (original - logs)).sum(axis=-1))
