"""Numbers converted on the way: dtype=, scale= and bias= against NumPy, which does one thing after the other."""

import functools
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import layoutpack as lp
from guard import page_guarded
from layoutpack import _conversion, _engine, _numbers

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
RESULTS = [np.dtype(np.float32), np.dtype(np.float16), BFLOAT16]
SOURCES = [*RESULTS, *map(np.dtype, ("uint8", "int8", "uint16", "int16"))]
OTHERS = [np.dtype(name) for name in ("float64", "int32", "uint64", "bool", ">f4", ">u2")]
PAIRS = [(src, dst) for src in SOURCES for dst in RESULTS if src != dst]

# Source order, destination and a shape that is ragged there; images, blocked and plain, matrices and weights.
MOVES = [
    ("NCHW", "NCHW", (2, 5, 7, 9)),
    ("NCHW", "NHWC", (2, 3, 13, 21)),
    ("NCHW", "NHWC", (1, 70, 9, 15)),
    ("NHWC", "NCHW", (2, 13, 21, 3)),
    ("NHWC", "NCHW", (1, 9, 7, 67)),
    ("NCHW", "NC1HWC0", (2, 20, 11, 13)),
    ("NCHW", "NC1HWC0", (1, 3, 33, 31)),
    ("NHWC", "NC1HWC0", (2, 19, 23, 3)),
    ("NHWC", "NC1HWC0", (1, 9, 9, 40)),
    ("NCHW", "NCHW4c", (1, 6, 5, 70)),
    ("NCHW", "FRACTAL_Z", (18, 20, 3, 3)),
    ("ND", "FRACTAL_NZ", (2, 37, 70)),
    ("ND", "FRACTAL_ZN", (37, 70)),
    ("CHWN", "NCHW", (3, 5, 9, 4)),
]


def every_value(src, dst):
    """Numbers that try every case of the rounding from `src` to `dst`."""
    if src.itemsize < 4:
        return np.arange(1 << (8 * src.itemsize)).astype(f"u{src.itemsize}").view(src)
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 100_000, dtype=np.uint32)
    # Around every number of the shorter type, and half way to the next.
    short = every_value(dst, src).astype(np.float32).view(np.uint32) if dst.itemsize == 2 else bits
    half = 1 << (12 if dst == np.float16 else 15)
    near = [(short.astype(np.int64) + at).astype(np.uint32) for at in (-1, 0, 1, half - 1, half, half + 1)]
    return np.concatenate([bits, *near]).view(np.float32)


def numpy_cast(x, *dtypes):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for dtype in dtypes:
            x = x.astype(dtype)
    return x


def programs(x, src, dst, dtype, factors=None, streaming=False, place=np.empty):
    """The result of one conversion by every instruction set, in a place of the given shape and dtype."""
    cast = _numbers.find_cast(x.dtype, dtype, factors)
    blocks = (16 if "0" in dst else None, None, None)
    c = _conversion.conversion_for(src, dst, x.shape, dtype, None, None, blocks, streaming, cast)
    for isa in _engine.isa_available():
        out = place(c.shape, dtype)
        out[...] = np.uint8(7).astype(dtype)
        program = _engine.Program(c.groups(x.strides, out.strides), bytes(dtype.itemsize), isa, cast)
        program.run(out, x, 1, factors)
        yield isa, out


@pytest.mark.parametrize(("src", "dst"), PAIRS, ids=str)
def test_every_value_rounds_as_in_numpy(src, dst):
    x = every_value(src, dst)
    want = numpy_cast(x, dst)
    results = dict(programs(x, "N", "N", dst))
    word = f"u{dst.itemsize}"
    nan = np.isnan(want.astype(np.float32))
    for y in results.values():
        np.testing.assert_array_equal(y.view(word)[~nan], want.view(word)[~nan])
        assert np.isnan(y.astype(np.float32)[nan]).all()
        np.testing.assert_array_equal(y.view(word), results["scalar"].view(word))  # NaN payloads too


@pytest.mark.parametrize(("src", "dst"), PAIRS, ids=str)
@pytest.mark.parametrize("move", MOVES, ids=str)
def test_dtype_is_a_cast_and_a_move(src, dst, move, rng):
    a, b, shape = move
    x = numpy_cast(rng.integers(-300, 300, shape), src)
    want = lp.repack(numpy_cast(x, dst), a, b, c0=16 if "0" in b else None)
    for streaming in (False, True):
        for isa, y in programs(x, a, b, dst, streaming=streaming):
            assert y.tobytes() == want.tobytes(), (isa, streaming)


VIEWS = {
    "flipped": lambda x: x[..., ::-1],
    "upside down": lambda x: x[..., ::-1, :],
    "every second": lambda x: x[..., ::2],
    "cropped": lambda x: x[..., 1:-1, 2:-1],
    "turned": lambda x: x.swapaxes(-1, -2),
    "broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "a field": lambda x: np.rec.fromarrays([x, x], dtype=[("a", x.dtype), ("b", x.dtype)]).b,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtypes", [("f4", "f2"), ("u1", "f4"), ("f2", "f4"), ("i2", "f2")])
@pytest.mark.parametrize("dst", ["NCHW", "NHWC", "NC1HWC0", "FRACTAL_Z"])
def test_views(view, dtypes, dst, rng):
    x = VIEWS[view](rng.integers(0, 200, (2, 20, 18, 22)).astype(dtypes[0]))
    want = lp.repack(np.ascontiguousarray(x).astype(dtypes[1]), "NCHW", dst)
    out = np.zeros((*want.shape, 2), dtypes[1])[..., 0]  # no two elements are neighbours
    for y in (lp.repack(x, "NCHW", dst, dtype=dtypes[1]), lp.repack(x, "NCHW", dst, out)):
        np.testing.assert_array_equal(y, want)
        assert y.dtype == want.dtype
    assert not out.base[..., 1].any()


@pytest.mark.parametrize("src", OTHERS, ids=str)
@pytest.mark.parametrize("move", MOVES, ids=str)
def test_other_casts_by_numpy(src, move, rng, monkeypatch):
    """Slice by slice, with slices of every size."""
    a, b, shape = move
    x = numpy_cast(rng.integers(0, 200, shape), src)
    blocks = {"c0": 16} if "0" in b else {}
    for dst in ("float32", "float64", "int16"):
        want = lp.repack(x.astype(dst), a, b, **blocks)
        for size in (1, 3000, 1 << 20):
            monkeypatch.setattr(_conversion, "_SLICE_BYTES", size)
            y = lp.repack(x, a, b, dtype=dst, casting="unsafe", fill=0, **blocks)
            np.testing.assert_array_equal(y, want, strict=True)


def test_slices_cover_an_axis_that_blocks_do_not_divide(monkeypatch):
    monkeypatch.setattr(_conversion, "_SLICE_BYTES", 1)
    x = np.arange(45 * 37, dtype=np.float64).reshape(45, 37)
    y = lp.to_fractal_nz(x, dtype=np.float32)
    np.testing.assert_array_equal(y, lp.to_fractal_nz(x.astype(np.float32)))
    z = lp.repack(y, "FRACTAL_NZ", "FRACTAL_NZ", shape=(45, 37), c0=8, dtype=np.int32, casting="unsafe")
    np.testing.assert_array_equal(z, lp.to_fractal_nz(x.astype(np.int32), c0=8))


def test_two_casts_one_after_the_other():
    """By dtype= to one type, by out= to another."""
    x = np.array([[[[1 + 2**-12, 70000, 3]]]], np.float32)
    out = np.empty_like(x)
    lp.repack(x, "NCHW", "NHWC", out.transpose(0, 2, 3, 1), dtype=np.float16)
    np.testing.assert_array_equal(out, [[[[1, np.inf, 3]]]])


def test_nothing_warns_and_nothing_is_cast_without_leave():
    x = np.full((1, 3, 4, 4), 1e30, np.float32)
    assert np.isinf(lp.to_nc1hwc0(x, dtype=np.float16)[:, :, :, :, :3]).all()
    assert np.isinf(lp.to_nc1hwc0(x.astype(np.float64), dtype=np.float16)[:, :, :, :, :3]).all()
    out = np.full((1, 4, 4, 3), 5, np.float16)
    with pytest.raises(TypeError, match="cannot cast from float32 to float16 according to the rule 'safe'"):
        lp.repack(x, "NCHW", "NHWC", out, casting="safe")
    assert (out == 5).all()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_matter(threads, rng):
    x = rng.integers(0, 256, (4, 100, 120, 3)).astype(np.uint8)
    kw = {"dtype": np.float16, "scale": (0.1, 0.2, 0.3), "bias": (1, 2, 3)}
    assert (
        lp.repack(x, "NHWC", "NC1HWC0", threads=threads, **kw).tobytes()
        == lp.repack(x, "NHWC", "NC1HWC0", threads=1, **kw).tobytes()
    )


# ---------------------------------------------------------------------------------------------- scale and bias


def exact(x, scale, bias):
    """x * scale + bias as a fraction, from the float32 values of scale and bias."""
    return Fraction(float(x)) * Fraction(float(scale)) + Fraction(float(bias))


@pytest.mark.parametrize("src", SOURCES, ids=str)
def test_one_rounding(src):
    rng = np.random.default_rng(3)
    x = numpy_cast(rng.integers(-100, 100, 400) / 7, src)
    scale, bias = np.float32(1 / 3), np.float32(-2.1)
    for isa, y in programs(x, "N", "N", np.dtype(np.float32), _numbers.as_factors(scale, bias, "")):
        for value, result in zip(x, y, strict=True):
            error = abs(Fraction(float(result)) - exact(value, scale, bias))
            assert error <= Fraction(abs(float(result))) / (1 << 24), isa
        for dst in RESULTS[1:]:
            short = dict(programs(x, "N", "N", dst, _numbers.as_factors(scale, bias, "")))[isa]
            np.testing.assert_array_equal(short, numpy_cast(y, dst))


@pytest.mark.parametrize("dst", RESULTS, ids=str)
@pytest.mark.parametrize("src", [np.dtype(np.uint8), np.dtype(np.float32), BFLOAT16], ids=str)
@pytest.mark.parametrize("move", [move for move in MOVES if "C" in move[0]], ids=str)
def test_each_channel_has_its_own(src, dst, move, rng):
    a, b, shape = move
    channels = shape[a.index("C")]
    x = numpy_cast(rng.integers(0, 200, shape), src)
    factors = _numbers.as_factors(rng.standard_normal(channels), rng.standard_normal(channels), "")
    along_c = tuple(channels if axis == "C" else 1 for axis in a)
    wide = x.astype(np.longdouble) * factors.scale.reshape(along_c) + factors.bias.reshape(along_c)
    want = lp.repack(numpy_cast(wide, np.float32, dst), a, b, c0=16 if "0" in b else None)
    for streaming in (False, True):
        for isa, y in programs(x, a, b, dst, factors, streaming):
            np.testing.assert_array_equal(y, want, err_msg=f"{isa}, streaming {streaming}")


PIXELS = {  # of bytes: how many, and which of them are channels
    "three": (3, slice(None)),
    "three backwards": (3, slice(None, None, -1)),
    "four": (4, slice(None)),
    "the first three of four": (4, slice(3)),
    "the last three of four": (4, slice(1, None)),
    "four backwards": (4, slice(None, None, -1)),
    "every second": (4, slice(None, None, 2)),
}
LENGTHS = [1, 7, 8, 9, 15, 16, 17, 20, 31, 32, 33, 47, 70]


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("dst", ["NCHW", "NC1HWC0", "NCHW4c", "NCHW8c", "NHWC"])
@pytest.mark.parametrize("pixels", PIXELS)
def test_pixels_between_guards(pixels, dst, at, rng):
    size, channels = PIXELS[pixels]
    for n in LENGTHS:
        x = page_guarded((1, 1, n, size), np.uint8, at=at)
        x[...] = rng.integers(0, 256, x.shape)
        x = x[..., channels]
        scale, bias = (np.float32([a, 2 * a, -a, 4 * a][: x.shape[-1]]) for a in (0.5, 3))
        for factors, scaled in ((None, x), (_numbers.as_factors(scale, bias, ""), x * scale + bias)):
            for dtype in RESULTS:
                want = lp.repack(numpy_cast(scaled, dtype), "NHWC", dst, c0=16 if "0" in dst else None)
                for isa, y in programs(x, "NHWC", dst, dtype, factors, place=functools.partial(page_guarded, at=at)):
                    assert y.tobytes() == want.tobytes(), (isa, n, dtype, factors)


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("pixels", PIXELS)
def test_pixels_as_matrices_between_guards(pixels, at, rng):
    """Rows of three or four bytes that become blocks of 16 x 16, with rows of padding below."""
    size, columns = PIXELS[pixels]
    place = functools.partial(page_guarded, at=at)
    for n in LENGTHS:
        x = place((n, size), np.uint8)
        x[...] = rng.integers(0, 256, x.shape)
        x = x[:, columns]
        for dtype in RESULTS:
            want = lp.repack(numpy_cast(x, dtype), "ND", "FRACTAL_NZ", c0=16)
            for isa, y in programs(x, "ND", "FRACTAL_NZ", dtype, place=place):
                assert y.tobytes() == want.tobytes(), (isa, n, dtype)


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("dst", ["NC1HWC0", "NHWC"])
@pytest.mark.parametrize("channels", [1, 8, 15, 16, 17, 31, 32, 33, 48, 70])
def test_lines_between_guards(channels, dst, at, rng):
    """Lines of float32, with every kind of number, that become columns of shorter ones."""
    scale, bias = rng.standard_normal((2, channels)).astype(np.float32)
    for n in LENGTHS:
        x = page_guarded((1, channels, 1, n), np.float32, at=at)
        x[...] = rng.integers(0, 1 << 32, x.shape, dtype=np.uint32).view(np.float32)
        x[rng.random(x.shape) < 0.3] = 1.5
        for dtype in RESULTS[1:]:
            want = lp.repack(numpy_cast(x, dtype), "NCHW", dst, c0=16 if "0" in dst else None)
            place = functools.partial(page_guarded, at=at)
            results = [y for _, y in programs(x, "NCHW", dst, dtype, place=place)]
            np.testing.assert_array_equal(results[0].astype(np.float32), want.astype(np.float32))
            scaled = [y for _, y in programs(x, "NCHW", dst, dtype, _numbers.as_factors(scale, bias, ""), place=place)]
            assert len({y.tobytes() for y in results}) == len({y.tobytes() for y in scaled}) == 1, (n, dtype)


def test_from_blocks_and_to_others(rng):
    """Channels that lie in blocks of one size, and come to lie in blocks of another."""
    x = rng.standard_normal((2, 20, 5, 7)).astype(np.float32)
    scale = np.arange(1, 21)
    packed = lp.to_nc1hwc0(x, c0=8)
    want = lp.to_nc1hwc0(x * scale.reshape(1, 20, 1, 1).astype(np.float32), c0=6)
    y = lp.repack(packed, "NC1HWC0", "NC1HWC0", channels=20, c0=6, scale=scale)
    np.testing.assert_array_equal(y, want)
    backwards = np.empty_like(want)[:, ::-1, :, :, ::-1]
    np.testing.assert_array_equal(
        lp.repack(packed, "NC1HWC0", "NC1HWC0", backwards, channels=20, c0=6, scale=scale), want
    )


def test_padding_stays_fill():
    y = lp.to_nc1hwc0(np.ones((1, 3, 2, 2), np.uint8), dtype=np.float32, scale=2, bias=5, fill=-1)
    assert (y[..., :3] == 7).all()
    assert (y[..., 3:] == -1).all()


def test_a_call_that_comes_again_looks_at_its_factors():
    x = np.ones((1, 3, 2, 2), np.float32)
    for scale in (2.0, 3.0, (1.0, 2.0, 3.0), [4, 4, 4], np.full(3, 5.0), 0.0):
        for _ in range(3):
            want = np.broadcast_to(np.reshape(scale, (1, -1, 1, 1)), x.shape)
            np.testing.assert_array_equal(lp.repack(x, "NCHW", "NCHW", scale=scale), want)
    factors = np.full(3, 2.0)
    for value in (2.0, 7.0):
        factors[:] = value
        assert (lp.repack(x, "NCHW", "NCHW", scale=factors) == value).all()
    zero = np.zeros((1, 3, 2, 2), np.float32)
    assert not np.signbit(lp.repack(zero, "NCHW", "NCHW", bias=0.0)).any()
    assert np.signbit(lp.repack(-zero, "NCHW", "NCHW", bias=-0.0)).all()


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"scale": (1, 2)}, ValueError, "axis C is 3 long, scale and bias are given for 2 channels"),
        ({"scale": (1, 2, 3), "bias": (1, 2)}, ValueError, "scale has 3 values and bias 2"),
        ({"scale": "2"}, TypeError, "scale must be a number"),
        ({"bias": 1j}, TypeError, "bias must be a number"),
        (
            {"scale": np.ones((3, 1))},
            ValueError,
            r"a number or one for each channel, got the shape \(3, 1\)",
        ),
        ({"scale": ()}, ValueError, r"scale must be a number or one for each channel, got the shape \(0,\)"),
        ({"scale": np.inf}, ValueError, "scale must be finite in float32"),
        ({"bias": 1e39}, ValueError, "bias must be finite in float32"),
        ({"scale": 2, "dtype": np.float64}, TypeError, "give float32, float16 or bfloat16; not float64"),
        ({"scale": 2, "dtype": None}, TypeError, "an input of uint8 needs dtype="),
        ({"scale": 2, "copy": False, "dtype": np.float32}, ValueError, "needs a copy"),
    ],
)
def test_refused(keywords, error, words):
    x = np.ones((1, 3, 2, 2), np.uint8)
    with pytest.raises(error, match=words):
        lp.repack(x, "NCHW", "NCHW", **{"dtype": np.float32, **keywords})


def test_channels_that_are_fused_have_no_factors():
    fused = lp.Format("FUSED", logical="N C", physical="(N C)1 (N C)0", blocks={"(N C)": 4})
    x = np.ones((2, 6), np.float32)
    with pytest.raises(ValueError, match="no axis C of its own"):
        lp.repack(x, "NC", fused, scale=np.ones(6))
    np.testing.assert_array_equal(lp.repack(x, "NC", fused, scale=2), 2 * lp.repack(x, "NC", fused))


def test_a_matrix_has_no_channels():
    with pytest.raises(ValueError, match="no axis C of its own"):
        lp.to_fractal_nz(np.ones((4, 4), np.float32), scale=(1, 2))
