"""Every way that a plan can take, by the words of its explanation, against NumPy and the oracle."""

import itertools

import numpy as np
import pytest

import layoutpack as lp
import reference
from guard import Frame, assert_same, filled, page_guarded
from layoutpack import _conversion, _engine, formats
from layoutpack._arrays import dense_strides
from test_streaming import at_offset, check

# What the explanation says of the way, and a conversion that takes it: formats, logical shape, dtypes, streaming.
WAYS = [
    ("source lines gathered", "NCHW", "NC1HWC0", (2, 40, 64, 64), ["u1", "u2"], False),
    ("source lines gathered", "NHWC", "NCHW", (1, 2048, 5, 7), ["u1", "u2"], False),
    ("output lines made", "NCHW", "NHWC", (1, 2048, 5, 7), ["u1", "u2", "u4", "u8"], False),
    ("output lines made", "NC1HWC0", "NCHW", (1, 64, 64, 64), ["u1", "u2"], False),
    ("output lines made", "HW", "WH", (2048, 1024), ["u1", "u2", "u4"], False),
    ("32 planes at a time", "FRACTAL_Z", "NCHW", (96, 80, 3, 3), ["u1", "u2", "u4", "u8"], False),
    ("16 planes at a time", "NCHW", "FRACTAL_Z", (96, 96, 3, 3), ["u2", "u4"], True),
    ("output lines made", "OIHW", "OIHW16i16o", (32, 48, 3, 3), ["u2", "u4"], True),
    ("through scratch by 66 rows", "HW", "WH", (2101, 66), ["u2", "u4", "u8"], True),
    ("through scratch by 256 rows", "HW", "WH", (512, 700), ["u2", "u4", "u8"], True),
    ("through scratch", "NCHW", "NHWC", (2, 255, 13, 13), ["u1", "u2", "u4"], True),
    ("through scratch", "NHWC", "NC1HWC0", (1, 80, 20, 24), ["u2"], True),
    ("through scratch", "NC1HWC0", "NHWC", (1, 512, 9, 11), ["u1", "u2", "u4"], True),
    ("through scratch", "NC1HWC0", "NHWC", (1, 64, 9, 11), ["u1", "u2", "u4"], True),
    ("through scratch", "NHWC", "NCHW", (2, 3, 40, 56), ["u1", "u2", "u4"], True),
    ("through scratch", "NHWC", "NCHW", (2, 4, 40, 64), ["u1", "u2", "u4", "u8"], True),
    ("through scratch", "NCHW", "NHWC", (2, 3, 40, 33), ["u1", "u2", "u4", "u8"], True),
    ("through scratch", "NCHW", "NHWC", (2, 4, 40, 33), ["u1", "u2", "u4", "u8"], True),
    ("through scratch", "NCHW", "NHWC", (1, 3, 5, 7), ["u1", "u2", "u4"], True),
    ("through scratch", "NCHW", "NC1HWC0", (2, 3, 40, 33), ["u1", "u2", "u4"], True),
    ("through scratch", "NCHW", "NC1HWC0", (2, 1, 3, 5), ["u1", "u2", "u4"], True),
    ("output lines made", "NCHW", "FRACTAL_Z", (64, 32, 5, 5), ["u1", "u2", "u4"], False),
    ("by transpose", "NHWC", "NCHW", (2, 4, 40, 33), ["u1", "u2", "u4", "u8"], False),
    ("by transpose", "NCHW", "NC1HWC0", (1, 3, 40, 33), ["u1", "u2", "u4"], False),
    ("by copy", "NHWC", "NC1HWC0", (1, 3, 40, 33), ["u1", "u2", "u4"], False),
]
CASES = [(*way[:4], dtype, way[5]) for way in WAYS for dtype in way[4]]


def arrays(src, dst, shape, dtype):
    """The input and the expected output of a conversion."""
    x = filled(shape, dtype)
    stored = {}
    for name in (src, dst):
        if sorted(name) == sorted(src if len(shape) == 2 else "NCHW") or name == "OIHW":
            order = dict(zip(src if len(shape) == 2 else "NCHW", range(len(shape)), strict=True))
            axes = range(4) if name == "OIHW" else [order[letter] for letter in name]
            stored[name] = np.ascontiguousarray(x.transpose(axes))
        elif name == "OIHW16i16o":
            n, c, h, w = shape
            stored[name] = np.ascontiguousarray(x.reshape(n // 16, 16, c // 16, 16, h, w).transpose(0, 2, 4, 5, 3, 1))
        else:
            stored[name] = reference.pack(x, name, "NCHW", c0=lp.default_c0(dtype), n0=16)
    return stored[src], stored[dst]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[1]}-{c[2]}-{c[3]}-{c[4]}")
def test_every_way(case):
    words, src, dst, shape, dtype, streaming = case
    stored, expected = arrays(src, dst, shape, dtype)
    keywords = {} if src in ("NCHW", "OIHW", "NHWC", "HW") else {"logical_shape": expected.shape}
    plan = lp.plan(src, dst, stored.shape, dtype, streaming=streaming, **keywords)
    assert words in plan.explain()
    for src_offset, dst_offset in ((0, 0), (16, 16), (1, 40), (48, 7)):
        x, _, _ = at_offset(stored.shape, dtype, src_offset)
        x[...] = stored
        for threads in (1, 2):
            out, buffer, (start, stop) = at_offset(expected.shape, dtype, dst_offset)
            plan(x, out=out, threads=threads)
            assert_same(out, expected)
            assert (buffer[:start] == 0xA5).all()
            assert (buffer[stop:] == 0xA5).all()


def test_scattered_pieces_are_streamed_before_others():
    plans = [lp.plan("NCHW", "FRACTAL_Z", (256, 192, 5, 5), "u2", streaming=s) for s in ("auto", True, False)]
    assert ["no streaming" in plan.explain() for plan in plans] == [False, False, True]
    x = filled((256, 192, 5, 5), "u2")
    results = [plan(x) for plan in plans]
    assert_same(results[0], results[2])
    assert_same(results[1], reference.pack(x, "FRACTAL_Z", "NCHW", c0=16, n0=16))


VIEWS = {
    "mirrored": lambda x: x[..., ::-1],
    "upside down": lambda x: x[:, :, ::-1],
    "every second": lambda x: x[..., ::2],
    "every third, backwards": lambda x: x[:, :, ::-3, ::-3],
    "field": lambda x: np.stack([x, x, x], axis=-1)[..., 1],
    "crop": lambda x: x[:, 1:-1, 2:-3, 3:-2],
    "turned channels": lambda x: x[:, ::-1],
}


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "V3", "c16"])
@pytest.mark.parametrize("channels", [3, 4, 5, 40])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("last", [False, True])
def test_views(view, channels, dtype, last):
    base = filled((2, channels, 37, 70), dtype)
    if last:  # the same array in channels-last memory
        base = np.ascontiguousarray(base.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    x = VIEWS[view](base)
    assert_same(lp.repack(x, "NCHW", "NCHW"), np.ascontiguousarray(x))
    assert_same(lp.repack(x, "NCHW", "NHWC"), np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    assert_same(lp.to_nc1hwc0(x, c0=8), reference.pack(np.ascontiguousarray(x), "NC1HWC0", "NCHW", c0=8))
    for streaming in (False, True):
        plan = lp.plan("NCHW", "NHWC", x.shape, dtype, streaming=streaming)
        assert_same(plan(x), np.ascontiguousarray(x.transpose(0, 2, 3, 1)))


each_isa = pytest.mark.parametrize("isa", _engine.isa_available())
each_end = pytest.mark.parametrize("at", ["start", "end"])


def run(plan, isa, x, out):
    """A plan with the kernels of any instruction set that the processor has."""
    groups = plan._conversion.groups(x.strides, out.strides)
    _engine.Program(groups, plan._fill, isa).run(out, x, 1)
    return groups


@each_isa
@each_end
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[1]}-{c[2]}-{c[3]}-{c[4]}")
def test_no_way_leaves_its_pages(case, at, isa):
    _, src, dst, shape, dtype, streaming = case
    stored, expected = arrays(src, dst, shape, dtype)
    keywords = {} if src in ("NCHW", "OIHW", "NHWC", "HW") else {"logical_shape": expected.shape}
    x, out = page_guarded(stored.shape, dtype, at=at), page_guarded(expected.shape, dtype, at=at)
    x[...] = stored
    run(lp.plan(src, dst, stored.shape, dtype, streaming=streaming, **keywords), isa, x, out)
    assert_same(out, expected)


# Small conversions of n times m pixels, by the kernel of dense arrays. Others go by the strided kernel.
SMALL = {
    "transpose": ("AB", "BA", lambda n, m: (n, m), "transpose"),
    "transpose of planes": ("NCHW", "NHWC", lambda n, m: (2, n, m, 3), "transpose"),
    "pixels of three": ("NHWC", "NCHW", lambda n, m: (1, n, m, 3), "transpose"),
    "blocks with padding": ("NCHW", "NCHW16c", lambda n, m: (1, n, m, 1), "transpose"),
    "rows": ("ABC", "BAC", lambda n, m: (2, n, m), "copy"),
    "rows with padding": ("NHWC", "NCHW16c", lambda n, m: (1, 1, n, m), "copy"),
}
LENGTHS = [*range(1, 18), 31, 32, 33, 63, 64, 65]
MEMORY = [(0, 0, 0), (5, 0, 1), (5, 3, 0)]  # gaps between rows and between words, and bytes off the page


@each_isa
@each_end
@pytest.mark.parametrize("dtype", ["u1", "u2", "V3", "u4", "u8", "c16"])
@pytest.mark.parametrize(("src", "dst", "shape", "kernel"), SMALL.values(), ids=SMALL)
def test_no_kernel_leaves_its_pages(src, dst, shape, kernel, dtype, at, isa):
    """Nor does it write into the gaps of out. Arrays of all lengths, so that the far end lies at every address."""
    kernels = set()
    for n, m in zip(LENGTHS, LENGTHS[9:] + LENGTHS[:9], strict=True):
        stored = filled(shape(n, m), dtype)
        expected = reference.pack(stored, dst, src)
        for streaming, (rows, words, shift) in itertools.product((False, True), MEMORY):
            source, target = (
                Frame(x.shape, dtype, gaps=[rows] * (x.ndim - 1) + [words], shift=shift, pages=at)
                for x in (stored, expected)
            )
            source.array[...] = stored
            plan = lp.plan(src, dst, stored.shape, dtype, streaming=streaming)
            groups = run(plan, isa, source.array, target.array)
            assert_same(target.array, expected)
            assert target.intact()
            kernels |= {box.panel.kernel for group in groups for box in group.boxes}
    assert kernels >= {kernel, "strided"}


@each_isa
@each_end
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
@pytest.mark.parametrize("channels", [16, 32, 48])
def test_kernels_of_nine_words(channels, dtype, at, isa):
    """Weights of 3 x 3 kernels (K) with two blocks of channels (B), whose planes (N) are neighbours of one another on
    one side, or on none."""
    orders = [("NBCK", "BKNC"), ("BKNC", "NBCK"), ("NBCK", "BNKC"), ("BNKC", "NBCK")]
    for n, (src, dst) in itertools.product((1, 2, 3, 6), orders):
        sizes = {"N": n, "B": 2, "C": channels, "K": 9}
        stored = filled([sizes[axis] for axis in src], dtype)
        expected = np.ascontiguousarray(stored.transpose([src.index(axis) for axis in dst]))
        x, out = page_guarded(stored.shape, dtype, at=at), page_guarded(expected.shape, dtype, at=at)
        x[...] = stored
        run(lp.plan(src, dst, stored.shape, dtype, streaming=False), isa, x, out)
        assert_same(out, expected)


@each_isa
@each_end
@pytest.mark.parametrize(("dtype", "c0"), [("u1", 32), ("u1", 64), ("u2", 16), ("u2", 32), ("u4", 8), ("u4", 16)])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_few_channels_with_padding(channels, dtype, c0, at, isa):
    """Pixels of 32 and 64 bytes, side by side and not, and below them rows of nothing but padding."""
    for n, gap in itertools.product((*range(14, 19), *range(30, 35), 50, *range(62, 67), 127, 192), (0, 3)):
        x = page_guarded((n, channels), dtype, at=at, strides=(np.dtype(dtype).itemsize, n * np.dtype(dtype).itemsize))
        x[...] = filled((n, channels), dtype)
        expected = reference.pack(np.ascontiguousarray(x), "FRACTAL_NZ", "HW", c0=c0, m0=64, fill=77)
        out = Frame(expected.shape, dtype, gaps=[0] * (expected.ndim - 2) + [gap, 0], pages=at)
        run(lp.plan("ND", "FRACTAL_NZ", x.shape, dtype, c0=c0, m0=64, fill=77, streaming=False), isa, x, out.array)
        assert_same(out.array, expected)
        assert out.intact()


@each_isa
@pytest.mark.parametrize("row", [32, 64])
@pytest.mark.parametrize("rows", [130, 131])
def test_runs_from_every_byte_of_a_line(rows, row, isa):
    """Past the caches. An even number of rows lets all runs begin at the same byte of a line. In pieces of 16 or 17
    rows, since these are so far apart."""
    stored = filled((rows, 120, row), "u1")[:, :3]
    plan = lp.plan("ABC", "BAC", stored.shape, "u1", streaming=True)
    for offset in range(64):
        out, buffer, (start, stop) = at_offset((3, rows, row), "u1", offset)
        groups = run(plan, isa, stored, out)
        assert_same(out, stored.transpose(1, 0, 2))
        assert (buffer[:start] == 0xA5).all()
        assert (buffer[stop:] == 0xA5).all()
    assert [(box.panel.kernel, box.tiling.scratch_run) for box in groups[0].boxes] == [("copy", True)]


@pytest.mark.parametrize("dtype", ["u1", "u2", "V3", "u4", "u8", "c16"])
def test_every_tile_fits_the_scratch(dtype):
    rng = np.random.default_rng(7)
    pairs = [("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NCHW", "NC1HWC0"), ("NCHW", "FRACTAL_Z"), ("OIHW", "HWIO")]
    for _ in range(60):
        shape = tuple(int(2 ** rng.uniform(0, limit)) for limit in (5, 11, 7, 7))
        for src, dst in pairs:
            sizes = shape if src != "NHWC" else (shape[0], shape[2], shape[3], shape[1])
            small = np.lib.stride_tricks.as_strided(np.zeros(1, dtype), sizes, (0, 0, 0, 0))  # no memory behind it
            c0 = 16 if dst in ("NC1HWC0", "FRACTAL_Z") else None
            c = _conversion.Conversion(
                formats.as_format(src),
                formats.as_format(dst),
                sizes,
                small.dtype,
                blocks=(c0, None, None),
                streaming=True,
            )
            for order in ((0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)):
                c.program(dense_strides(sizes, c.itemsize, order), c.strides, bytes(c.itemsize))


def test_long_rows_of_bytes_off_the_lines():
    for shape in ((1, 131, 208, 15), (1, 82, 40, 100), (1, 40, 61, 67)):
        check((*("NHWC", "NCHW"), shape), "u1", 0, 16)


@each_isa
@pytest.mark.parametrize(
    ("channels", "src", "dst"),
    [
        *[(3, "NCHW", "NHWC"), (4, "NCHW", "NHWC"), (3, "NCHW", "NC1HWC0"), (1, "NCHW", "NC1HWC0")],
        *[(3, "NHWC", "NCHW"), (4, "NHWC", "NCHW")],
    ],
)
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_pixels_from_every_byte_of_a_line(channels, src, dst, dtype, isa):
    """Past the caches; of a length that leaves a part of a step, of whole lines, and too short for the way to one."""
    for pixels in (40, 331, 576):
        stored = filled((1, channels, 1, pixels) if src == "NCHW" else (1, 1, pixels, channels), dtype)
        plan = lp.plan(src, dst, stored.shape, dtype, streaming=True, **({"fill": 77} if "0" in dst else {}))
        expected = reference.pack(stored, dst, src, c0=lp.default_c0(dtype), fill=77)
        for offset in range(64):
            out, buffer, (start, stop) = at_offset(expected.shape, dtype, offset)
            run(plan, isa, stored, out)
            assert_same(out, expected)
            assert (buffer[:start] == 0xA5).all()
            assert (buffer[stop:] == 0xA5).all()
