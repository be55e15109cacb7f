"""The oracle: every storage format as an index map, written from the definition of the format.

A format is a function that takes the position of one logical element and returns one (index, extent) pair for each
storage axis. The same function serves one element (plain integers) and all of them at once (index arrays). A storage
element that the map does not reach is padding. There are no loops, boxes or strides here, and nothing of the library
under test is imported: what the two agree on is the definition.

Elements move as raw bytes, so the oracle is exact for every dtype and every NaN payload.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Blocks(NamedTuple):
    """Block edges: c0 cuts C (and the matrix axis that goes with it), n0 cuts N, m0 cuts matrix rows."""

    c0: int = 16
    n0: int = 16
    m0: int = 16


class Axes:
    """The index, or the extent, of every logical axis by lower-case letter; an axis that is absent has the default."""

    def __init__(self, names, values, default):
        self._values = dict(zip(names.lower(), values, strict=True))
        self._default = default

    def __getattr__(self, letter):
        return self._values.get(letter, self._default)


Pairs = list[tuple[int | np.ndarray, int]]
IndexMap = Callable[[Axes, Axes, Blocks], Pairs]  # position, extents, block edges -> storage index and extent, per axis


def up(extent, block):
    """How many blocks cover the extent."""
    return -(-extent // block)


# ---------------------------------------------------------------------- channel-blocked tensors


def nc1hwc0(i, z, b):
    return [(i.n, z.n), (i.c // b.c0, up(z.c, b.c0)), (i.h, z.h), (i.w, z.w), (i.c % b.c0, b.c0)]


def nc1hwc0_c04(i, z, b):
    return nc1hwc0(i, z, b._replace(c0=4))


def ndc1hwc0(i, z, b):
    return [(i.n, z.n), (i.d, z.d), (i.c // b.c0, up(z.c, b.c0)), (i.h, z.h), (i.w, z.w), (i.c % b.c0, b.c0)]


# ---------------------------------------------------------------------- weights


def fractal_z(i, z, b):
    row = (i.c // b.c0 * z.h + i.h) * z.w + i.w
    return [(row, up(z.c, b.c0) * z.h * z.w), (i.n // b.n0, up(z.n, b.n0)), (i.n % b.n0, b.n0), (i.c % b.c0, b.c0)]


def fractal_z_3d(i, z, b):
    c1 = up(z.c, b.c0)
    row = ((i.d * c1 + i.c // b.c0) * z.h + i.h) * z.w + i.w
    return [(row, z.d * c1 * z.h * z.w), (i.n // b.n0, up(z.n, b.n0)), (i.n % b.n0, b.n0), (i.c % b.c0, b.c0)]


def fractal_z_3d_transpose(i, z, b):
    n1 = up(z.n, b.c0)
    row = ((i.d * n1 + i.n // b.c0) * z.h + i.h) * z.w + i.w
    return [(row, z.d * n1 * z.h * z.w), (i.c // b.n0, up(z.c, b.n0)), (i.c % b.n0, b.n0), (i.n % b.c0, b.c0)]


# ---------------------------------------------------------------------- matrices: outer block order, then inner order


def nd(i, z, b):
    return [(i.h, z.h), (i.w, z.w)]


def fractal_nz(i, z, b):
    return [(i.w // b.c0, up(z.w, b.c0)), (i.h // b.m0, up(z.h, b.m0)), (i.h % b.m0, b.m0), (i.w % b.c0, b.c0)]


def fractal_zz(i, z, b):
    return [(i.h // b.m0, up(z.h, b.m0)), (i.w // b.c0, up(z.w, b.c0)), (i.h % b.m0, b.m0), (i.w % b.c0, b.c0)]


def fractal_zn(i, z, b):
    return [(i.h // b.c0, up(z.h, b.c0)), (i.w // b.n0, up(z.w, b.n0)), (i.w % b.n0, b.n0), (i.h % b.c0, b.c0)]


def fractal_nn(i, z, b):
    return [(i.w // b.n0, up(z.w, b.n0)), (i.h // b.c0, up(z.h, b.c0)), (i.w % b.n0, b.n0), (i.h % b.c0, b.c0)]


# ---------------------------------------------------------------------- plain orders and blocked tags


def tag(text):
    """The map of a plain order ("NHWC") or of a blocked tag ("NCHW16c", "nChw16c", "OIHW4i16o4i").

    Letters without a number are the outer axes, a number with a letter is one level of blocks of that axis. The last
    level written is the innermost, so the tag is read from its end and every level takes the remainder.
    """
    tokens = [(int(size or 0), _weights(axis)) for size, axis in re.findall(r"(\d*)([A-Za-z])", text)]

    def where(i, z, b):
        index = {axis: getattr(i, axis) for _, axis in tokens}
        extent = {axis: getattr(z, axis) for _, axis in tokens}
        pairs = []
        for block, axis in reversed(tokens):
            if block:
                pairs.append((index[axis] % block, block))
                index[axis], extent[axis] = index[axis] // block, up(extent[axis], block)
            else:
                pairs.append((index[axis], extent[axis]))
        return pairs[::-1]

    return where


def _weights(letters):
    """Lower case, with the letters of weights, O and I, read as N and C."""
    return letters.lower().translate(str.maketrans("oi", "nc"))


MATRIX: dict[str, IndexMap] = {
    "ND": nd,
    "FRACTAL_NZ": fractal_nz,
    "FRACTAL_ZZ": fractal_zz,
    "FRACTAL_ZN": fractal_zn,
    "FRACTAL_NN": fractal_nn,
}
FORMATS: dict[str, IndexMap] = MATRIX | {
    "NC1HWC0": nc1hwc0,
    "NC1HWC0_C04": nc1hwc0_c04,
    "NDC1HWC0": ndc1hwc0,
    "FRACTAL_Z": fractal_z,
    "FRACTAL_Z_3D": fractal_z_3d,
    "FRACTAL_Z_3D_TRANSPOSE": fractal_z_3d_transpose,
}

# The order in which an unpacked array of the format is usually held.
NATURAL = dict.fromkeys(MATRIX, "ND") | {
    "NC1HWC0": "NCHW",
    "NC1HWC0_C04": "NCHW",
    "NDC1HWC0": "NCDHW",
    "FRACTAL_Z": "NCHW",
    "FRACTAL_Z_3D": "NCDHW",
    "FRACTAL_Z_3D_TRANSPOSE": "NCDHW",
}

# The block sizes that the caller of a conversion chooses.
BLOCKS = dict.fromkeys(("NC1HWC0", "NDC1HWC0"), ("c0",))
BLOCKS |= dict.fromkeys(("FRACTAL_NZ", "FRACTAL_ZZ"), ("c0", "m0"))
BLOCKS |= dict.fromkeys(
    ("FRACTAL_ZN", "FRACTAL_NN", "FRACTAL_Z", "FRACTAL_Z_3D", "FRACTAL_Z_3D_TRANSPOSE"), ("c0", "n0")
)

# ---------------------------------------------------------------------- the map applied


def _locate(fmt, order, at, shape, blocks):
    """(index, extent) of every storage axis for the position `at`, whose axes `order` names.

    `fmt` is a name of FORMATS, a plain order, a blocked tag or an index map; "..." before the order, and every axis
    but the last two for a matrix format, are batch axes, which stay in front.
    """
    letters = "hw" if fmt in MATRIX else _weights(order.removeprefix("..."))
    batch = len(shape) - len(letters)
    assert batch == 0 or (batch > 0 and (fmt in MATRIX or order.startswith("..."))), (fmt, order, shape)
    where = fmt if callable(fmt) else FORMATS.get(fmt) or tag(fmt)
    inner = where(Axes(letters, at[batch:], 0), Axes(letters, shape[batch:], 1), blocks)
    return list(zip(at[:batch], shape[:batch], strict=True)) + inner


def _everywhere(shape):
    """One index array per axis, which together broadcast to the shape."""
    return np.ogrid[tuple(slice(n) for n in shape)]


def packed_shape(fmt, order, shape, **blocks):
    """The storage shape of a logical array whose axes `order` names."""
    return tuple(extent for _, extent in _locate(fmt, order, (0,) * len(shape), shape, Blocks(**blocks)))


def index(fmt, order, at, shape, **blocks):
    """The storage index of one logical element."""
    return tuple(int(i) for i, _ in _locate(fmt, order, at, shape, Blocks(**blocks)))


def to_bytes(x):
    """A fresh uint8 array of x's elements in index order, with one more axis: the bytes of each element."""
    shape = (*x.shape, x.dtype.itemsize)
    return np.ndarray(shape, np.uint8, bytearray(x.tobytes()) or bytearray(1))


def from_bytes(raw, dtype):
    """The inverse of to_bytes."""
    return np.ndarray(raw.shape[:-1], dtype, np.ascontiguousarray(raw).data if raw.size else bytearray(64))


def pack(x, fmt, order, *, fill=None, **blocks):
    """The storage of x, whose axes `order` names; padding is zero bytes, or the bytes of `fill`."""
    where = _locate(fmt, order, _everywhere(x.shape), x.shape, Blocks(**blocks))
    raw = np.zeros((*(n for _, n in where), x.dtype.itemsize), np.uint8)
    if fill is not None:
        raw[...] = to_bytes(np.array(fill, x.dtype))
    raw[tuple(i for i, _ in where)] = to_bytes(x)
    return from_bytes(raw, x.dtype)


def unpack(s, fmt, order, shape, **blocks):
    """The logical array, in the order and shape given, out of its storage."""
    where = _locate(fmt, order, _everywhere(shape), shape, Blocks(**blocks))
    assert s.shape == tuple(n for _, n in where), (s.shape, fmt, shape)
    return from_bytes(to_bytes(s)[tuple(i for i, _ in where)], s.dtype)


def padding(fmt, order, shape, **blocks):
    """A mask of the storage: True where no logical element lives."""
    return ~pack(np.ones(shape, bool), fmt, order, **blocks)
