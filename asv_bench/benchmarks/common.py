"""Arrays and rivals shared by the benchmarks.

A rival is a function that writes the result into a kept array, so that page faults are measured only where a benchmark
says so. Every array is filled in ``setup``: untouched memory reads faster than it should.
"""

import numpy as np


def filled(shape, dtype):
    """An array of reproducible values with all its pages touched."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 100, shape).astype(dtype)


def blocked(x, block):
    """View of a padded NCHW array as (N, C1, H, W, C0)."""
    n, c, h, w = x.shape
    return x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2)


def padded(x, block):
    """Zero array of the same shape with C rounded up to whole blocks, and the part of it that `x` fills."""
    n, c, *space = x.shape
    whole = np.zeros((n, -(-c // block) * block, *space), x.dtype)
    return whole, whole[:, :c]
