"""What the fuzz target plan.c does with an input: one conversion, told by the bytes, against the oracle.

``python tests/fuzz/plan.py FILE...`` runs inputs without the fuzzer, to look at one that failed.
"""

import sys
from pathlib import Path

import numpy as np

import guard
import layoutpack as lp
import reference
from layoutpack import _conversion, _engine
from test_repack import FAMILIES, dirty, is_plain, own_order, transposed

EXTENTS = [*range(1, 37), 0, 47, 48, 49, 63, 64, 65, 81, 96, 127, 128, 255, 256, 300, 512, 1024, 2048]
DTYPES = ["u1", "u2", "u4", "u8", "c16", "V3", "V5", "V12", "V32", "V70"]
BLOCKS = [1, 2, 3, 4, 5, 7, 8, 16, 32]
GAPS = [0, 0, 0, 1, 3, 8, 64]
MAX_BYTES = 1 << 17  # of the tensor and of either storage

guard.MARGIN = 0  # around the arrays lies what the address sanitizer guards
_conversion._MIN_CHUNK_BYTES = 1024  # so that small arrays, too, are several chunks


class Choices:
    """Decisions out of the bytes of an input; when they run out, the first option."""

    def __init__(self, data):
        self._bytes = iter(data)

    def among(self, options):
        return options[next(self._bytes, 0) % len(options)]

    def blocks(self, fmt):
        return {name: self.among(BLOCKS) for name in reference.BLOCKS.get(fmt, ())}

    def layout(self, ndim):
        """Strides for a `Frame`: dense half of the time, otherwise any order, gaps and directions."""
        if self.among([True, False]):
            return {"shift": self.among(range(64))}
        places = [self.among(range(256)) for _ in range(ndim)]
        return {
            "order": sorted(range(ndim), key=places.__getitem__),
            "gaps": [self.among(GAPS) for _ in range(ndim)],
            "flips": [self.among([False, False, True]) for _ in range(ndim)],
            "shift": self.among(range(64)),
        }


def convert(data):
    """Run the conversion that the bytes tell."""
    choices = Choices(data)
    _conversion.conversion_for.cache_clear()  # an input means the same whatever came before it
    _engine._choose_isa(choices.among(_engine.isa_available()))
    order = choices.among(list(FAMILIES))
    src, dst = choices.among(FAMILIES[order]), choices.among(FAMILIES[order])
    dtype = np.dtype(choices.among(DTYPES))
    shape = tuple(choices.among(EXTENTS) for _ in range(choices.among([2, 3, 4]) if order == "ND" else len(order)))
    old, new = choices.blocks(src), choices.blocks(dst)
    sizes = [shape, *(reference.packed_shape(fmt, order, shape, **b) for fmt, b in ((src, old), (dst, new)))]
    # The oracle's indices take memory even where an axis is empty.
    if max(np.prod([max(n, 1) for n in size], dtype=float) for size in sizes) * dtype.itemsize > MAX_BYTES:
        return

    x = guard.filled(shape, dtype)
    fill = choices.among([None, guard.filled((), dtype)])
    expected = reference.pack(x, dst, order, fill=fill, **new)
    storage = dirty(reference.pack(x, src, order, **old), src, order, shape, **old)
    source = guard.Frame.of(storage, **choices.layout(storage.ndim))
    target = guard.Frame(expected.shape, dtype, **choices.layout(expected.ndim))
    plan = lp.plan(
        *(src, dst, storage.shape, dtype),
        logical_shape=None if is_plain(src) else transposed(x, order, own_order(dst, order)).shape,
        fill=fill,
        streaming=choices.among([False, True]),
        **new,
    )
    threads = choices.among([1, 2, 3])
    plan(source.array, target.array, threads=threads)
    guard.assert_same(target.array, expected)
    assert target.intact()
    guard.assert_same(plan(source.array, threads=threads), expected)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        convert(Path(path).read_bytes())
