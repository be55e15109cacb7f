"""Conversions against the oracle: formats, sizes, dtypes, strides, block sizes, out=, fill=, copy=, threads=."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import layoutpack as lp
import reference
from guard import Frame, assert_fresh, assert_same, counted, filled

SIZES = [0, 1, 2, 3, 7, 15, 16, 17, 31, 33]

# All members of a family can be converted into each other. The key is the order of the logical array.
FAMILIES = {
    "NCHW": [
        *("NCHW", "NHWC", "HWCN", "CHWN", "NC1HWC0", "NC1HWC0_C04", "FRACTAL_Z"),
        *("NCHW16c", "nChw8c", "NHWC4c", "NCHW7c", "OIHW16i16o", "OIhw4i16o4i", "OIHW8o4i"),
    ],
    "NCDHW": ["NCDHW", "NDHWC", "DHWCN", "NDC1HWC0", "FRACTAL_Z_3D", "FRACTAL_Z_3D_TRANSPOSE", "NCDHW16c", "nCdhw8c"],
    "ND": ["ND", "FRACTAL_NZ", "FRACTAL_ZZ", "FRACTAL_ZN", "FRACTAL_NN"],
}
# Formats with functions of their own, and a shape that is ragged on every blocked axis.
FUNCTIONS = {
    "NC1HWC0": (3, 21, 2, 5),
    "NDC1HWC0": (3, 21, 2, 1, 5),
    "FRACTAL_Z": (18, 21, 2, 3),
    "FRACTAL_Z_3D": (18, 21, 2, 1, 3),
    "FRACTAL_NZ": (2, 35, 21),
    "FRACTAL_ZZ": (2, 35, 21),
    "FRACTAL_ZN": (2, 35, 21),
    "FRACTAL_NN": (2, 35, 21),
}
DTYPES = ["?", "i1", "f2", "f4", "f8", "c16", "M8[s]", ">i4", "V3", "S5", "U3", "V32", "u1,f8", ml_dtypes.bfloat16]

each_function = pytest.mark.parametrize(("fmt", "shape"), FUNCTIONS.items(), ids=FUNCTIONS)


def to(fmt):
    return getattr(lp, f"to_{fmt.lower()}")


def back(fmt):
    return getattr(lp, f"from_{fmt.lower()}")


def transposed(x, old, new):
    """x, whose axes `old` names, as a view with its axes in the order `new`; O means N and I means C."""
    if old == new:
        return x
    old, new = (order.translate(str.maketrans("OI", "NC")) for order in (old, new))
    return x.transpose([old.index(axis) for axis in new])


def own_order(fmt, order):
    """The order in which the destination `fmt` counts its logical axes, given the order of the family."""
    if fmt in lp.FORMATS and order != "ND":
        return "".join(lp.FORMATS[fmt].logical.split())
    return "".join(letter for letter in fmt if letter.isalpha())[: len(order)].upper() if order != "ND" else "ND"


def is_plain(fmt):
    return fmt == "ND" or (fmt not in lp.FORMATS and not any(map(str.isdigit, fmt)))


def dirty(storage, fmt, order, shape, **blocks):
    """The storage with every byte of its padding set."""
    raw = reference.to_bytes(storage)
    raw[reference.padding(fmt, order, shape, **blocks)] = 0xFF
    return reference.from_bytes(raw, storage.dtype)


# ---------------------------------------------------------------------- sizes and dtypes


@pytest.mark.parametrize(("dtype", "c0"), [("u1", 32), ("u2", 16), ("u4", 16), ("u4", 8), ("u8", 7), ("c16", 4)])
@pytest.mark.parametrize("fmt", FUNCTIONS)
def test_sizes(fmt, dtype, c0):
    """Every pair of sizes on the two axes where it matters."""
    order = reference.NATURAL[fmt]
    for a, b in itertools.product(SIZES, SIZES):
        shape = {"NC1HWC0": (2, a, 1, b), "NDC1HWC0": (1, a, 2, 1, b)}.get(fmt, (a, b, 2, 1, 1)[: len(order)])
        x = filled(shape, dtype)
        packed = lp.repack(x, order, fmt, c0=c0)
        assert_same(packed, reference.pack(x, fmt, order, c0=c0))
        assert_same(lp.repack(packed, fmt, order, shape=shape), x)


@each_function
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(fmt, shape, dtype):
    x = filled(shape, dtype)
    packed = to(fmt)(x, c0=16)
    assert_same(packed, reference.pack(x, fmt, reference.NATURAL[fmt]))
    assert_fresh(packed, x)
    unpacked = back(fmt)(packed, shape=shape)
    assert_same(unpacked, x)
    assert_fresh(unpacked, packed)


@each_function
@pytest.mark.parametrize(
    ("dtype", "c0"),
    [("i1", 32), ("u1", 32), ("?", 16), ("f2", 16), ("f4", 16), ("f8", 16), ("c16", 16), ("V3", 16)],
)
def test_default_block_size(fmt, shape, dtype, c0):
    x = filled(shape, dtype)
    assert_same(to(fmt)(x), reference.pack(x, fmt, reference.NATURAL[fmt], c0=c0))


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.float8_e4m3fn])
def test_narrow_dtypes_with_an_explicit_block_size(dtype):
    x = filled((2, 70, 3, 3), "u1").view(dtype)
    packed = lp.to_nc1hwc0(x, c0=64)
    assert_same(packed, reference.pack(x, "NC1HWC0", "NCHW", c0=64))
    assert_same(lp.from_nc1hwc0(packed, channels=70), x)


def test_special_values_keep_their_bits():
    bits = [0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 0x00000001, 0xFF800000]
    x = np.resize(np.array(bits, np.uint32), (2, 5, 3, 4)).view(np.float32)
    packed = lp.to_nc1hwc0(x)
    assert set(packed.view(np.uint32).ravel().tolist()) == {0, *bits}
    assert_same(lp.from_nc1hwc0(packed, channels=5), x)


# ---------------------------------------------------------------------- orders, tags, formats of one's own


@pytest.mark.parametrize("fmt", ["NC1HWC0", "NC1HWC0_C04", "FRACTAL_Z", "NCHW8c", "NDC1HWC0", "FRACTAL_Z_3D_TRANSPOSE"])
def test_every_source_order_gives_the_same_storage(fmt):
    order = reference.NATURAL.get(fmt, "NCHW")
    x = filled((3, 18, 2, 4, 5)[: len(order)], "u2")
    storage = reference.pack(x, fmt, order)
    for permuted in map("".join, itertools.permutations(order)):
        view = transposed(x, order, permuted)
        assert_same(lp.repack(view, permuted, fmt), storage)
        assert_same(lp.repack(np.ascontiguousarray(view), permuted, fmt), storage)
        assert_same(lp.repack(storage, fmt, permuted, shape=view.shape), view)


@pytest.mark.parametrize(
    ("src", "dst"),
    [("AB", "BA"), ("CHW", "HWC"), ("NCL", "NLC"), ("OIHW", "HWIO"), ("NCDHW", "DHWCN"), ("ABCDEF", "FBDACE")],
)
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "c16", "V3"])
def test_plain_orders(src, dst, dtype):
    x = filled((5, 4, 3, 2, 7, 6)[: len(src)], dtype)
    expected = transposed(x, src, dst)
    result = lp.repack(x, src, dst)
    assert_same(result, expected)
    assert_fresh(result, x)
    assert_same(lp.repack(result, dst, src), x)


@pytest.mark.parametrize("ndim", [8, 13, 18])
def test_orders_of_many_axes(ndim):
    """Every axis is a loop of its own: no two can be taken as one."""
    letters = "ABCDEFGHJKLMPQRSTU"[:ndim]
    shuffled = letters[::2] + letters[1::2][::-1]
    x = filled((2,) * ndim, "u2")
    result = lp.repack(x, letters, shuffled)
    assert_same(result, transposed(x, letters, shuffled))
    assert_same(lp.to_fractal_nz(result, c0=4, m0=3), reference.pack(result, "FRACTAL_NZ", "ND", c0=4, m0=3))


@pytest.mark.parametrize(
    ("tvm", "onednn", "order"),
    [
        ("NCHW16c", "nChw16c", "NCHW"),
        ("NCHW4c", "nChw4c", "NCHW"),
        ("NHWC8c", "nhwC8c", "NCHW"),
        ("NCDHW16c", "nCdhw16c", "NCDHW"),
        ("OIHW16i16o", "OIhw16i16o", "OIHW"),
        ("OIHW4i16o4i", "OIhw4i16o4i", "OIHW"),
        ("OIHW2i8o4i", "OIhw2i8o4i", "OIHW"),
        ("OIHW16o", "Oihw16o", "OIHW"),
    ],
)
def test_tags_in_both_spellings(tvm, onednn, order):
    x = filled((19, 21, 3, 2, 5)[: len(order)], "u4")
    storage = reference.pack(x, tvm, order)
    for tag in (tvm, onednn):
        assert_same(lp.repack(x, order, tag), storage)
        assert_same(lp.repack(storage, tag, order, shape=x.shape), x)
        assert lp.packed_shape(x.shape, tag, src=order) == storage.shape


@pytest.mark.parametrize(
    ("name", "order", "row", "c0"),
    [
        ("nChw16c", "NCHW", "NC1HWC0", 16),
        ("NCHW4c", "NCHW", "NC1HWC0_C04", 4),
        ("aBcd32b", "ABCD", "NC1HWC0", 32),
        ("BA16a16b", "AB", "FRACTAL_NZ", 16),
        ("BA16a32b", "AB", "FRACTAL_NZ", 32),
        ("AB16b16a", "AB", "FRACTAL_ZN", 16),
        ("AB16a16b", "AB", "FRACTAL_ZZ", 16),
        ("FRACTAL_NZ_C0_2", "ND", "FRACTAL_NZ", 2),
        ("FRACTAL_NZ_C0_4", "ND", "FRACTAL_NZ", 4),
        ("FRACTAL_NZ_C0_8", "ND", "FRACTAL_NZ", 8),
        ("FRACTAL_NZ_C0_16", "ND", "FRACTAL_NZ", 16),
        ("FRACTAL_NZ_C0_32", "ND", "FRACTAL_NZ", 32),
    ],
)
def test_other_names_of_a_row(name, order, row, c0):
    natural = reference.NATURAL[row]
    x = filled((35, 21, 3, 4) if natural == "NCHW" else (35, 21), "f4")
    storage = reference.pack(x, row, natural, c0=c0)
    assert_same(lp.repack(x, order, name), storage)
    assert_same(lp.repack(storage, name, order, shape=x.shape), x)
    if order != "ABCD":  # letters that say nothing of channels or pixels
        c0 = c0 if row in reference.BLOCKS else None
        assert_same(lp.repack(storage, name, row, shape=x.shape, c0=c0), storage)


def rows_of_images(i, z, b):
    return [(i.n * z.h + i.h, z.n * z.h), (i.c // 5, -(-z.c // 5)), (i.w, z.w), (i.c % 5, 5)]


def three_levels(i, z, b):
    return [(i.n // 3, -(-z.n // 3)), (i.c // 8, -(-z.c // 8)), (i.c // 2 % 4, 4), (i.n % 3, 3), (i.c % 2, 2)]


def levels_side_by_side(i, z, b):
    return [(i.n, z.n), (i.c // 8, -(-z.c // 8)), (i.c // 2 % 4, 4), (i.c % 2, 2)]


def bands(i, z, b):
    return [(i.h // 4, -(-z.h // 4)), (i.w, z.w), (i.h % 4, 4)]


def fused(i, z, b):
    return [(i.c * z.a + i.a, z.c * z.a), (i.b, z.b)]


def cut_group(i, z, b):
    pixel, pixels = i.h * z.w + i.w, z.h * z.w
    return [(i.n, z.n), (pixel // 4, -(-pixels // 4)), (i.c, z.c), (pixel % 4, 4)]


def one_block(i, z, b):
    return [(i.n, z.n), (i.h, z.h), (i.c, 8)]


OWN_FORMATS = {
    "fused and blocked": (("N C H W", "(N H) C1 W C0", {"C": 5}), rows_of_images, "NCHW", (2, 12, 3, 4)),
    "several levels": (("O I", "O1 I2 I1 O0 I0", {"O": 3, "I": (4, 2)}), three_levels, "OI", (7, 19)),
    "levels side by side": (("N C", "N C2 C1 C0", {"C": (4, 2)}), levels_side_by_side, "NC", (3, 18)),
    "batch axes": (("... H W", "... H1 W H0", {"H": 4}), bands, "...HW", (2, 3, 9, 5)),
    "a group that is cut": (("N C H W", "N (H W)1 C (H W)0", {"(H W)": 4}), cut_group, "NCHW", (2, 3, 5, 7)),
    "one block at most": (("N C H", "N H C0", {"C": 8}), one_block, "NCH", (2, 5, 3)),
    "one empty block": (("N C H", "N H C0", {"C": 8}), one_block, "NCH", (2, 0, 3)),
    "no blocks": (("A B C", "(C A) B", {}), fused, "ABC", (2, 3, 4)),
    "symbolic": (("N C H W", "N C1 H W C0", {"C": "c0"}), reference.nc1hwc0, "NCHW", (2, 21, 3, 4)),
    "two symbols": (("N C", "C1 N1 N0 C0", {"C": "c0", "N": "n0"}), reference.fractal_z, "NC", (18, 21)),
}


@pytest.mark.parametrize(("pattern", "where", "order", "shape"), OWN_FORMATS.values(), ids=OWN_FORMATS)
@pytest.mark.parametrize("dtype", ["u1", "u4", "V3"])
def test_formats_of_ones_own(pattern, where, order, shape, dtype):
    logical, physical, blocks = pattern
    fmt = lp.Format("MINE", logical=logical, physical=physical, blocks=blocks)
    x = filled(shape, dtype)
    storage = reference.pack(x, where, order)
    c0 = 16 if "c0" in blocks.values() else None
    assert_same(lp.repack(x, order, fmt, c0=c0), storage)
    assert_same(lp.repack(dirty(storage, where, order, shape), fmt, order, shape=shape), x)
    assert fmt.packed_shape(shape, c0=c0) == storage.shape
    for at in np.ndindex(shape):
        assert fmt.index(at, shape, c0=c0) == reference.index(where, order, at, shape)
    assert "MINE" not in lp.FORMATS


# ---------------------------------------------------------------------- axes that are absent, leading axes


@pytest.mark.parametrize(
    ("fmt", "order", "shape"),
    [
        ("NC1HWC0", "HWC", (5, 7, 3)),
        ("NC1HWC0", "CHW", (17, 5, 7)),
        ("NC1HWC0", "C", (17,)),
        ("NC1HWC0", "NC", (4, 17)),
        ("NC1HWC0", "NCDHW", (2, 17, 1, 3, 4)),
        ("NDC1HWC0", "NCHW", (2, 17, 3, 4)),
        ("NDC1HWC0", "DHWC", (2, 3, 4, 17)),
        ("FRACTAL_Z", "CN", (17, 33)),
        ("FRACTAL_Z", "OIHW", (33, 17, 3, 2)),
        ("FRACTAL_Z", "HWIO", (3, 2, 17, 33)),
        ("FRACTAL_Z_3D", "HWCN", (3, 2, 17, 33)),
        ("NCHW16c", "HWC", (5, 7, 3)),
    ],
)
def test_absent_axes_have_extent_one(fmt, order, shape):
    x = filled(shape, "u2")
    storage = reference.pack(x, fmt, order)
    assert_same(lp.repack(x, order, fmt), storage)
    assert_same(lp.repack(storage, fmt, order, shape=shape), x)


def test_weights_between_two_and_three_dimensions():
    x = filled((18, 21, 3, 2), "u2")
    storage = reference.pack(x, "FRACTAL_Z", "NCHW")
    volume = lp.repack(storage, "FRACTAL_Z", "FRACTAL_Z_3D", shape=(18, 21, 1, 3, 2))
    assert_same(volume, storage)  # with one plane the two formats are the same
    assert_same(lp.repack(volume, "FRACTAL_Z_3D", "NCHW", shape=x.shape), x)


def test_images_that_are_stacks_of_matrices():
    """The last two axes of NCHW are a matrix format's H and W, the others its leading axes."""
    x = filled((2, 20, 18, 21), "u2")
    image, tiles = reference.pack(x, "NC1HWC0", "NCHW"), reference.pack(x, "FRACTAL_NZ", "ND")
    assert_same(lp.repack(image, "NC1HWC0", "FRACTAL_NZ", channels=20), tiles)
    assert_same(lp.repack(image, "NC1HWC0", "FRACTAL_NZ", shape=x.shape), tiles)
    assert_same(lp.repack(tiles, "FRACTAL_NZ", "NC1HWC0", shape=x.shape), image)
    assert_same(lp.repack(tiles, "FRACTAL_NZ", "NCHW", shape=x.shape), x)


@pytest.mark.parametrize("leading", [(), (1,), (3,), (2, 3), (0,), (2, 1, 2)])
@pytest.mark.parametrize(
    ("fmt", "order", "shape"),
    [("NC1HWC0", "NHWC", (2, 3, 4, 21)), ("FRACTAL_Z", "NCHW", (18, 5, 2, 1)), ("NCHW16c", "CHW", (21, 2, 3))],
)
def test_leading_axes_on_request(fmt, order, shape, leading):
    x = filled(leading + shape, "u4")
    storage = reference.pack(x, fmt, f"...{order}")
    assert storage.shape[: len(leading)] == leading
    assert_same(lp.repack(x, f"...{order}", fmt), storage)
    assert_same(lp.repack(storage, fmt, f"...{order}", shape=x.shape), x)


def test_leading_axes_of_plain_orders_and_channels():
    x = filled((2, 3, 4, 5, 6, 7), "u2")
    assert_same(lp.repack(x, "...NCHW", "...NHWC"), np.moveaxis(x, 3, -1))
    packed = lp.to_nc1hwc0(x, src="...NCHW")
    assert_same(lp.from_nc1hwc0(packed, channels=5, dst="...NHWC"), np.moveaxis(x, 3, -1))


@pytest.mark.parametrize("leading", [(), (1,), (2, 3), (0,), (3, 0, 2)])
@pytest.mark.parametrize("fmt", FAMILIES["ND"][1:])
def test_matrices_take_any_leading_axes(fmt, leading):
    x = filled((*leading, 17, 35), "u2")
    storage = reference.pack(x, fmt, "ND")
    assert storage.shape[:-4] == leading
    assert_same(to(fmt)(x), storage)
    assert_same(back(fmt)(storage, shape=x.shape), x)


@pytest.mark.parametrize(("src", "ndim"), [("ND", 4), ("NHWC", 4), ("NCHW", 4), ("CN", 2), ("HW", 2), ("...AB", 4)])
@pytest.mark.parametrize("fmt", FAMILIES["ND"][1:])
def test_matrices_take_the_last_two_axes_whatever_their_names(fmt, src, ndim):
    x = filled((2, 3, 17, 35)[4 - ndim :], "u2")
    storage = reference.pack(x, fmt, "ND")
    assert_same(to(fmt)(x, src=src), storage)
    assert_same(back(fmt)(storage, dst=src, shape=x.shape), x)


# ---------------------------------------------------------------------- block sizes


@pytest.mark.parametrize(("old", "new"), [(8, 16), (16, 8), (16, 12), (12, 16), (7, 16), (16, 7), (5, 3), (32, 32)])
@pytest.mark.parametrize("dtype", ["u1", "u4", "V5"])
def test_reblocking(old, new, dtype):
    for channels in SIZES:
        shape = (2, channels, 1, 3)
        x = filled(shape, dtype)
        storage = dirty(reference.pack(x, "NC1HWC0", "NCHW", c0=old), "NC1HWC0", "NCHW", shape, c0=old)
        expected = reference.pack(x, "NC1HWC0", "NCHW", c0=new)
        for c0 in (new, (old, new)):
            assert_same(lp.repack(storage, "NC1HWC0", "NC1HWC0", channels=channels, c0=c0), expected)
        assert_same(lp.repack(storage, "NC1HWC0", f"NCHW{new}c", shape=shape), expected)


@pytest.mark.parametrize("channels", [1, 15, 16, 17, 20, 33])
def test_the_shape_of_a_blocked_destination_is_in_its_own_order(channels):
    x = filled((18, channels, 3, 2), "f4")
    image, weight = reference.pack(x, "NC1HWC0", "NCHW"), reference.pack(x, "FRACTAL_Z", "NCHW", c0=8, n0=5)
    assert_same(lp.repack(image, "NC1HWC0", "FRACTAL_Z", shape=x.shape, c0=8, n0=5), weight)
    assert_same(lp.repack(weight, "FRACTAL_Z", "NC1HWC0", shape=x.shape, c0=16), image)
    tag = reference.pack(x, "NHWC4c", "NCHW")
    assert_same(lp.repack(image, "NC1HWC0", "NHWC4c", shape=(18, 3, 2, channels)), tag)


@pytest.mark.parametrize("fmt", reference.BLOCKS)
@pytest.mark.parametrize("edges", [(1, 1), (4, 5), (7, 32), (48, 3)])
def test_block_sizes_are_read_from_packed_storage(fmt, edges):
    order = reference.NATURAL[fmt]
    x = filled({4: (18, 21, 2, 3), 5: (18, 21, 2, 1, 3), 2: (35, 21)}[len(order)], "u2")
    blocks = dict(zip(reference.BLOCKS[fmt], edges, strict=False))
    storage = reference.pack(x, fmt, order, **blocks)
    assert_same(lp.repack(x, order, fmt, **blocks), storage)
    assert_same(lp.repack(storage, fmt, order, shape=x.shape), x)


# ---------------------------------------------------------------------- threads

LARGE = [
    ("NCHW", "NC1HWC0", (1, 67, 120, 131), "f4", "NCHW"),
    ("NHWC", "NC1HWC0", (3, 120, 131, 67), "u1", "NHWC"),
    ("NC1HWC0", "NCHW", (2, 35, 120, 131), "f4", "NCHW"),
    ("NC1HWC0", "NC1HWC0", (1, 70, 120, 131), "u2", "NCHW"),
    ("NCHW", "NHWC", (1, 3, 700, 901), "u2", "NCHW"),
    ("NHWC", "NHWC", (5, 200, 201, 5), "u4", "NHWC"),
    ("NCDHW", "NDC1HWC0", (1, 19, 7, 90, 91), "u8", "NCDHW"),
    ("OIHW", "FRACTAL_Z", (129, 257, 5, 5), "f4", "OIHW"),
    ("FRACTAL_Z", "OIHW", (129, 257, 5, 7), "u4", "OIHW"),
    ("ND", "FRACTAL_NZ", (1000, 1501), "u2", "ND"),
    ("FRACTAL_ZN", "ND", (3, 701, 703), "c16", "ND"),
    ("NCHW", "NCHW8c", (1, 33, 160, 161), "V3", "NCHW"),
]


@pytest.mark.parametrize(("src", "dst", "shape", "dtype", "order"), LARGE, ids=[f"{c[0]}-{c[1]}-{c[3]}" for c in LARGE])
def test_large_arrays_are_the_same_for_every_thread_count(src, dst, shape, dtype, order):
    x = filled(shape, dtype)
    assert x.nbytes > 2 << 20
    source, expected = reference.pack(x, src, order), reference.pack(x, dst, order)
    axes = own_order(dst, order)
    keywords = {} if is_plain(src) else {"shape": transposed(x, order, axes).shape}
    keywords |= {"c0": 16} if dst in reference.BLOCKS else {}
    for threads in (1, 2, 3, None):
        assert_same(lp.repack(source, src, dst, threads=threads, **keywords), expected)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_strided_arrays(threads):
    x = filled((2, 33, 110, 111), "f4")
    source = Frame.of(x, order=(3, 0, 2, 1), gaps=[1, 0, 4, 3], flips=[False, True, False, True], shift=1)
    expected = reference.pack(x, "NC1HWC0", "NCHW")
    target = Frame(expected.shape, "f4", order=(4, 0, 3, 1, 2), gaps=[0, 4, 1, 0, 8], flips=[True, False] * 2 + [True])
    lp.to_nc1hwc0(source.array, target.array, threads=threads)
    assert_same(target.array, expected)
    assert target.intact()


def test_thread_settings_do_not_change_the_bytes():
    x = filled((2, 35, 120, 131), "f4")
    expected = reference.pack(x, "NC1HWC0", "NCHW")
    for count in (1, 2, 3):
        with lp.threads(count):
            assert_same(lp.to_nc1hwc0(x), expected)


# ---------------------------------------------------------------------- fill=, dtype=, casting=


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("u1", 128),
        ("i1", -128),
        ("f4", np.nan),
        ("f4", -0.0),
        ("f8", 1),
        (">i4", 258),
        ("?", True),
        ("c16", 1 - 2j),
        ("M8[s]", np.datetime64("NaT", "s")),
        ("S3", b"ab"),
        ("u1,f8", (7, 0.5)),
        (ml_dtypes.bfloat16, -1.5),
        (ml_dtypes.float8_e8m0fnu, 1.0),
    ],
    ids=str,
)
@each_function
def test_fill(fmt, shape, dtype, fill):
    x, order = filled(shape, dtype), reference.NATURAL[fmt]
    expected = reference.pack(x, fmt, order, fill=fill)
    assert_same(to(fmt)(x, fill=fill, c0=16), expected)
    assert_same(back(fmt)(expected, shape=shape), x)


@pytest.mark.parametrize(
    ("old", "new", "casting", "c0"),
    [
        ("f4", "f2", "same_kind", 16),
        ("f4", "f8", "safe", 16),
        ("i4", "f4", "same_kind", 16),
        ("f4", "i1", "unsafe", 32),
        ("i1", "f4", "same_kind", 16),
        ("u1", "i1", "same_kind", 32),
        (">f4", "<f4", "equiv", 16),
        ("f4", ml_dtypes.bfloat16, "same_kind", 16),
        ("i4", "i4", "no", 16),
    ],
)
def test_dtype_and_casting(old, new, casting, c0):
    """Values as if cast first; the default block size is that of the output's dtype."""
    x = (filled((2, 35, 3, 4), "u1") % 100).astype(old)
    expected = reference.pack(x.astype(new), "NC1HWC0", "NCHW", c0=c0, fill=3)
    assert_same(lp.to_nc1hwc0(x, dtype=new, casting=casting, fill=3), expected)
    out = np.empty_like(expected)
    assert lp.to_nc1hwc0(x, out, casting=casting, fill=3) is out
    assert_same(out, expected)
    storage = reference.pack(x, "NC1HWC0", "NCHW")
    assert_same(lp.from_nc1hwc0(storage, channels=35, dtype=new, casting=casting), x.astype(new))


def test_dtype_on_the_way_to_out():
    """As ufuncs do: the values take the dtype asked for, then the dtype of out."""
    x = np.float32([[1.0001, 2.5], [3.75, 1 / 3]])
    out = np.zeros((2, 2), np.float64)
    lp.repack(x, "AB", "BA", out, dtype="f2")
    assert_same(out, x.astype("f2").astype("f8").T)


def test_casting_into_a_strided_out():
    x = counted((2, 5, 3, 4), "i2")
    target = Frame(
        (2, 1, 3, 4, 8), "f8", order=(1, 4, 0, 3, 2), gaps=[0, 3, 8, 1, 0], flips=[True, False] * 2 + [False]
    )
    lp.to_nc1hwc0(x, target.array, c0=8)
    assert_same(target.array, reference.pack(x.astype("f8"), "NC1HWC0", "NCHW", c0=8))
    assert target.intact()


def test_casting_where_input_and_out_overlap():
    memory = np.arange(1, 97, dtype=np.float32)
    x = memory[:48].reshape(1, 3, 4, 4)
    expected = reference.pack(x.astype("i4"), "NHWC", "NCHW")
    out = memory[24:72].view(np.int32).reshape(1, 4, 4, 3)
    lp.repack(x, "NCHW", "NHWC", out, casting="unsafe")
    assert_same(out, expected)


# ---------------------------------------------------------------------- copy=

# Conversions in which the bytes stay where they are: input, source, destination, keywords.
SAME_BYTES = {
    "same order": (counted((2, 3, 4, 5)), "NHWC", "NHWC", {}),
    "channels-last strides": (counted((2, 3, 4, 5)).transpose(0, 3, 1, 2), "NCHW", "NHWC", {}),
    "axes of one": (counted((2, 3, 1, 1)), "NCHW", "NHWC", {}),
    "one full block": (counted((1, 4, 5, 16)), "NHWC", "NC1HWC0", {"c0": 16}),
    "pixels of one": (counted((2, 32, 1, 1)), "NCHW", "NC1HWC0", {"c0": 16}),
    "unpacked full block": (counted((2, 1, 3, 4, 16)), "NC1HWC0", "NHWC", {"channels": 16}),
    "a column of blocks": (counted((48, 16)), "ND", "FRACTAL_NZ", {"c0": 16}),
    "full blocks again": (counted((2, 2, 3, 4, 16)), "NC1HWC0", "NC1HWC0", {"channels": 32, "c0": 16}),
    "row to tag": (counted((2, 2, 3, 4, 16)), "NC1HWC0", "NCHW16c", {"channels": 32}),
    "one plane": (counted((6, 2, 16, 16)), "FRACTAL_Z", "FRACTAL_Z_3D", {"shape": (32, 16, 1, 2, 3)}),
}
OTHER_BYTES = {
    "transposed": (counted((2, 3, 4, 5)), "NCHW", "NHWC", {}),
    "flipped": (counted((2, 3, 4, 5))[:, :, ::-1], "NCHW", "NCHW", {}),
    "padded": (counted((1, 4, 5, 15)), "NHWC", "NC1HWC0", {"c0": 16}),
    "padding taken away": (counted((2, 1, 3, 4, 16)), "NC1HWC0", "NHWC", {"channels": 15}),
    "old padding may be anything": (counted((2, 2, 3, 4, 16)), "NC1HWC0", "NC1HWC0", {"channels": 20, "c0": 16}),
    "other blocks": (counted((2, 2, 3, 4, 16)), "NC1HWC0", "NC1HWC0", {"channels": 32, "c0": 8}),
    "broadcast": (np.broadcast_to(counted((3,)), (2, 4, 5, 3)), "NHWC", "NHWC", {}),
    "cast": (counted((2, 3, 4, 5)), "NHWC", "NHWC", {"dtype": "f8"}),
    "cropped": (counted((2, 3, 4, 5))[:, :, :2], "NHWC", "NHWC", {}),
}


@pytest.mark.parametrize(("x", "src", "dst", "keywords"), SAME_BYTES.values(), ids=SAME_BYTES)
def test_a_view_where_the_bytes_agree(x, src, dst, keywords):
    copied = lp.repack(x, src, dst, **keywords)
    assert_fresh(copied, x)
    for copy in (None, False):
        view = lp.repack(x, src, dst, copy=copy, **keywords)
        assert np.shares_memory(view, x)
        assert_same(view, copied)
    assert_fresh(lp.repack(x, src, dst, copy=True, **keywords), x)


@pytest.mark.parametrize(("x", "src", "dst", "keywords"), OTHER_BYTES.values(), ids=OTHER_BYTES)
def test_a_copy_where_the_bytes_differ(x, src, dst, keywords):
    copied = lp.repack(x, src, dst, **keywords)
    result = lp.repack(x, src, dst, copy=None, **keywords)
    assert_fresh(result, x)
    assert_same(result, copied)
    with pytest.raises(ValueError, match="copy"):
        lp.repack(x, src, dst, copy=False, **keywords)


def test_a_view_is_as_writeable_as_its_base():
    x = counted((2, 4, 5, 16))
    view = lp.to_nc1hwc0(x[:1], src="NHWC", copy=None)
    view[...] = 7
    assert (x[0] == 7).all()
    x.flags.writeable = False
    assert not lp.to_nc1hwc0(x[:1], src="NHWC", copy=None).flags.writeable


def test_functions_never_alias_by_default():
    x = counted((2, 4, 5, 16))
    packed = lp.to_nc1hwc0(x, src="NHWC")
    assert_fresh(packed, x)
    assert np.shares_memory(lp.to_nc1hwc0(x, src="NHWC", copy=None), x)
    assert_fresh(lp.from_nc1hwc0(packed, channels=16, dst="NHWC"), packed)
    assert np.shares_memory(lp.from_nc1hwc0(packed, channels=16, dst="NHWC", copy=None), packed)


# ---------------------------------------------------------------------- out=


@each_function
def test_out_is_returned_itself(fmt, shape):
    class Named(np.ndarray):
        pass

    x = filled(shape, "f4")
    expected = reference.pack(x, fmt, reference.NATURAL[fmt])
    for kind in (np.ndarray, Named):
        out = np.empty_like(expected).view(kind)
        assert to(fmt)(x, out) is out
        assert to(fmt)(x, out=(out,)) is out
        assert_same(out, expected)
        unpacked = np.empty_like(x).view(kind)
        assert back(fmt)(out, out=unpacked) is unpacked  # whose shape is the logical shape
        assert_same(unpacked, x)


@each_function
def test_every_way_to_state_the_logical_shape(fmt, shape):
    """shape=, channels= and out= may be combined freely as long as they agree."""
    x, order = filled(shape, "f4"), reference.NATURAL[fmt]
    storage = reference.pack(x, fmt, order)
    said = {"shape": shape, "out": np.empty_like(x)} | ({"channels": shape[1]} if order != "ND" else {})
    for count in (1, 2, 3):
        for names in itertools.combinations(said, count):
            if names == ("channels",) and fmt.startswith("FRACTAL"):
                continue  # hides N as well
            said["out"].fill(0)
            assert_same(back(fmt)(storage, **{name: said[name] for name in names}), x)


def test_out_with_axes_that_interleave_without_overlap():
    """Strides of 2 and 3 elements over (3, 2): no two elements meet, though no axis encloses the other."""
    x = counted((2, 3), "i4")
    memory = np.full(8, -1, np.int32)
    out = np.ndarray((3, 2), np.int32, memory, 0, (8, 12))
    assert lp.repack(x, "AB", "BA", out) is out
    assert_same(out, x.T)
    assert memory.tolist() == [1, -1, 2, 4, 3, 5, -1, 6]


def test_out_in_place_when_nothing_moves():
    x = counted((2, 3, 4, 5))
    assert lp.repack(x, "NCHW", "NCHW", x) is x
    assert_same(x, counted((2, 3, 4, 5)))


# ---------------------------------------------------------------------- inputs


class OnlyArray:
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return self.x


class OnlyDLPack:
    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **keywords):
        return self.x.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


class Subclass(np.ndarray):
    pass


INPUTS = {
    "list": lambda x: x.tolist(),
    "__array__": OnlyArray,
    "dlpack": OnlyDLPack,
    "subclass": lambda x: x.view(Subclass),
}


@pytest.mark.parametrize("wrap", INPUTS.values(), ids=INPUTS)
def test_inputs_that_are_not_plain_arrays(wrap):
    x = counted((2, 5, 3, 4), "i8")
    storage = reference.pack(x, "NC1HWC0", "NCHW")
    packed = lp.to_nc1hwc0(wrap(x))
    assert_same(packed, storage)
    assert_fresh(packed, x)
    assert_same(lp.from_nc1hwc0(wrap(storage), channels=5), x)
    assert_same(lp.repack(wrap(x), "NCHW", "NHWC"), x.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("dtype", ["f2", "f4", "u1", "i8"])
def test_strided_dlpack_input(dtype):
    x = filled((4, 6, 6, 10), dtype)[::2, 1::2].transpose(0, 3, 1, 2)
    assert_same(lp.to_nc1hwc0(OnlyDLPack(x), c0=16), reference.pack(x, "NC1HWC0", "NCHW"))


def test_numbers_that_are_not_python_ints():
    x = counted((2, 20, 3, 4))
    storage = reference.pack(x, "NC1HWC0", "NCHW", c0=8)
    assert_same(lp.to_nc1hwc0(x, c0=np.int16(8), groups=np.int64(1)), storage)
    assert_same(lp.from_nc1hwc0(storage, channels=np.uint8(20)), x)
    assert_same(lp.from_nc1hwc0(storage, shape=np.array(x.shape)), x)
    assert_same(lp.from_nc1hwc0(storage, shape=list(x.shape)), x)


def test_the_input_is_never_written():
    x = filled((2, 21, 3, 4), "f4")
    before = x.tobytes()
    packed = lp.to_nc1hwc0(x)
    packed[...] = 0
    lp.repack(x, "NCHW", "NHWC")[...] = 0
    assert x.tobytes() == before
