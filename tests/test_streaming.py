"""Stores past the caches: the same bytes for every address of input and output, and not one byte beside them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutpack as lp
from guard import assert_same
from programs import run_python

# Pairs and shapes (N, C, H, W) that take every way of the engine: rows side by side, long rows on and off a line, runs
# of a block, pixels of three words, padding, planes of odd sizes.
WAYS = [
    ("NCHW", "NC1HWC0", (2, 40, 12, 16)),
    ("NCHW", "NC1HWC0", (1, 3, 40, 33)),
    ("NC1HWC0", "NCHW", (2, 48, 16, 24)),
    ("NC1HWC0", "NCHW", (1, 33, 13, 13)),
    ("NCHW", "NHWC", (1, 64, 16, 20)),
    ("NCHW", "NHWC", (2, 3, 24, 32)),
    ("NHWC", "NCHW", (1, 70, 32, 32)),
    ("NHWC", "NC1HWC0", (2, 50, 9, 11)),
    ("NC1HWC0", "NHWC", (2, 64, 9, 11)),
    ("NCHW", "FRACTAL_Z", (20, 40, 3, 3)),
    ("FRACTAL_Z", "NCHW", (20, 40, 3, 3)),
    ("NCHW", "WHCN", (16, 4, 24, 16)),
]


def at_offset(shape, dtype, offset, guard=192):
    """An array that begins `offset` bytes past a cache line, and the whole buffer around it, filled with 0xA5."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.full(size + 2 * guard + 64, 0xA5, np.uint8)
    start = guard + (-(buffer.ctypes.data + guard)) % 64 + offset
    return buffer[start : start + size].view(dtype).reshape(shape), buffer, (start, start + size)


def plans(src, dst, shape, dtype):
    logical = tuple(
        dict(zip("NCHW", shape, strict=True))[axis] for axis in (dst if set(dst) == set("NCHW") else "NCHW")
    )
    packed = lp.packed_shape(shape, src, src="NCHW", dtype=dtype)
    keywords = {} if src in ("NCHW", "NHWC") else {"logical_shape": logical}
    return packed, *(lp.plan(src, dst, packed, dtype, streaming=s, **keywords) for s in (False, True))


def check(way, dtype, src_offset, dst_offset, threads=1):
    packed, plain, streamed = plans(*way, dtype)
    x, _, _ = at_offset(packed, dtype, src_offset)
    rng = np.random.default_rng(0)
    x.view(np.uint8)[...] = rng.integers(0, 256, x.view(np.uint8).shape, np.uint8)
    out, buffer, (start, stop) = at_offset(plain.shape, dtype, dst_offset)
    assert streamed(x, out=out, threads=threads) is out
    assert_same(out, plain(x))
    assert (buffer[:start] == 0xA5).all()
    assert (buffer[stop:] == 0xA5).all()


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}-{way[1]}-{way[2][1]}")
def test_every_way_and_address(way, dtype):
    for offset in (0, 1, 2, 4, 8, 16, 24, 32, 48, 63):
        check(way, dtype, 0, offset)
        check(way, dtype, offset, 16)


@given(
    st.sampled_from(WAYS),
    st.sampled_from(["u1", "u2", "u4", "V3", "c16"]),
    *[st.integers(0, 63)] * 2,
    st.integers(1, 3),
)
def test_any_address(way, dtype, src_offset, dst_offset, threads):
    check(way, dtype, src_offset, dst_offset, threads)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
@pytest.mark.parametrize(("src", "dst"), [("NCHW", "NC1HWC0"), ("NC1HWC0", "NCHW"), ("NCHW", "NHWC"), ("NHWC", "NCHW")])
def test_larger_than_the_cache_by_several_chunks(src, dst, dtype, threads):
    check((src, dst, (2, 96, 112, 112)), dtype, 0, 16, threads)


def test_the_choice_is_told():
    threshold = lp.show_config()["streaming_threshold"]
    for n in (1, 200):
        auto, on, off = (lp.plan("NCHW", "NC1HWC0", (n, 64, 56, 56), "f2", streaming=s) for s in ("auto", True, False))
        assert "no streaming stores" not in on.explain()
        assert "no streaming stores" in off.explain()
        assert auto.explain() == (on if 2 * auto.nbytes >= threshold else off).explain()
    with pytest.raises(TypeError, match="streaming"):
        lp.plan("NCHW", "NC1HWC0", (1, 64, 56, 56), "f2", streaming="yes")


@pytest.mark.parametrize("text", ["-1", "1.5", "x"])
def test_a_threshold_that_is_no_number_of_bytes(text):
    code = "import warnings; warnings.simplefilter('error'); import layoutpack"
    done = run_python(code, LAYOUTPACK_STREAMING_THRESHOLD=text)
    assert f"LAYOUTPACK_STREAMING_THRESHOLD={text!r} is not a number of bytes" in done.stderr
