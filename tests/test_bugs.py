"""Bugs that users of other packages reported, each tested as a kind.

The name of a test ends with the report (owner, repository, number). The first parameters are the reported case with
numbers worked out by hand; the others are its neighbours, compared with the oracle.
"""

import importlib.util
import itertools
import os

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import layoutpack as lp
import reference
from guard import (
    Frame,
    assert_fresh,
    assert_same,
    canonical_strides,
    counted,
    filled,
    lines_before_guards,
    page_guarded,
)
from programs import run_python

WORDS = ["u1", "u2", "u4", "u8"]
# Formats with a to_ and a from_ function, with a logical shape that is ragged on every blocked axis.
RAGGED = {
    "NC1HWC0": (2, 9, 3, 5),
    "NC1HWC0_C04": (2, 9, 3, 5),
    "NDC1HWC0": (2, 9, 2, 3, 5),
    "FRACTAL_Z": (18, 9, 2, 3),
    "FRACTAL_Z_3D": (18, 9, 2, 2, 3),
    "FRACTAL_NZ": (2, 18, 20),
    "FRACTAL_ZZ": (2, 18, 20),
    "FRACTAL_ZN": (2, 18, 20),
    "FRACTAL_NN": (2, 18, 20),
}
each_format = pytest.mark.parametrize("fmt", RAGGED)


def to(fmt):
    return getattr(lp, f"to_{fmt.lower()}")


def back(fmt):
    return getattr(lp, f"from_{fmt.lower()}")


def edge(fmt, c0=16):
    """The keyword for C0 where the format leaves a choice."""
    return {"c0": c0} if fmt in reference.BLOCKS else {}


def element_strides(x):
    return tuple(stride // x.itemsize for stride in x.strides)


# ---------------------------------------------------------------------- tails and padding


def test_fewer_channels_than_one_block_onednn_71():
    packed = lp.to_nc1hwc0(counted((1, 7, 1, 5)) - 1, c0=8)
    assert packed.shape == (1, 1, 1, 5, 8)
    assert packed.ravel()[:8].tolist() == [0, 5, 10, 15, 20, 25, 30, 0]


@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize("channels", range(1, 8))
def test_a_lone_tail_of_any_length_onednn_71(channels, dtype):
    x = filled((2, channels, 3, 5), dtype)
    packed = lp.to_nc1hwc0(x, c0=8)
    assert_same(packed, reference.pack(x, "NC1HWC0", "NCHW", c0=8))
    assert_same(lp.from_nc1hwc0(packed, channels=channels), x)


def test_reblocking_drops_old_padding_onednn_1272():
    packed = reference.pack(counted((1, 17, 1, 2)), "NC1HWC0", "NCHW", c0=16)
    packed[reference.padding("NC1HWC0", "NCHW", (1, 17, 1, 2), c0=16)] = np.nan
    result = lp.repack(packed, "NC1HWC0", "NC1HWC0", channels=17, c0=4)
    assert result.shape == (1, 5, 1, 2, 4)
    assert result.ravel()[-8:].tolist() == [33, 0, 0, 0, 34, 0, 0, 0]
    assert not np.isnan(result).any()


@pytest.mark.parametrize(("old", "new"), [(16, 4), (4, 16), (8, 16), (16, 12), (12, 16), (7, 16), (16, 7), (16, 16)])
@pytest.mark.parametrize("channels", [1, 4, 15, 16, 17, 31, 33])
def test_reblocking_between_any_block_sizes_onednn_1272(channels, old, new):
    x = counted((2, channels, 1, 3))
    packed = reference.pack(x, "NC1HWC0", "NCHW", c0=old, fill=np.nan)
    result = lp.repack(packed, "NC1HWC0", "NC1HWC0", channels=channels, c0=new)
    assert_same(result, reference.pack(x, "NC1HWC0", "NCHW", c0=new))


def test_a_reused_buffer_keeps_nothing_openvino_33967():
    out = np.full((1, 2, 1, 1, 8), 0xFFFFFFFF, np.uint32).view(np.float32)
    assert lp.to_nc1hwc0(counted((1, 9, 1, 1)), out, c0=8) is out
    assert out.ravel().tolist() == [*range(1, 10), *[0] * 7]
    assert out.ravel()[9:].tobytes() == bytes(28)


@each_format
@pytest.mark.parametrize("dtype", [*WORDS, "V3"])
def test_out_is_overwritten_padding_included_openvino_33967(fmt, dtype):
    x = filled(RAGGED[fmt], dtype)
    expected = reference.pack(x, fmt, reference.NATURAL[fmt])
    out = np.empty_like(expected)
    out.view(np.uint8)[...] = 0xFF
    assert to(fmt)(x, out=out, **edge(fmt)) is out
    assert_same(out, expected)


@pytest.mark.parametrize("c0", [4, 8, 16, 32])
@pytest.mark.parametrize("channels", range(1, 41))
def test_every_channel_count_onnxruntime_14392(channels, c0):
    x = counted((1, channels, 1, 1))
    packed = lp.to_nc1hwc0(x, c0=c0)
    assert_same(packed, reference.pack(x, "NC1HWC0", "NCHW", c0=c0))
    assert_same(lp.from_nc1hwc0(packed, channels=channels), x)


@pytest.mark.parametrize("shape", [(1, 4, 5, 5), (2, 8, 5, 5), (1, 4, 1, 7), (3, 4, 13, 1)])
def test_no_hidden_gaps_ncnn_1985(shape):
    x = counted(shape)
    packed = lp.to_nc1hwc0(x, c0=4)
    assert packed.nbytes == x.nbytes
    assert packed.flags.c_contiguous
    unpacked = lp.from_nc1hwc0(packed, channels=shape[1])
    assert unpacked.flags.c_contiguous
    assert_same(unpacked, x)


@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize("channels", [3, 4, 17])
def test_every_image_size_ncnn_1014(channels, dtype):
    for height, width in itertools.product(range(1, 21), repeat=2):
        x = filled((1, channels, height, width), dtype)
        packed = lp.to_nc1hwc0(x, c0=4)
        assert_same(packed, reference.pack(x, "NC1HWC0", "NCHW", c0=4))
        assert_same(lp.from_nc1hwc0(packed, channels=channels), x)


def test_one_element_items_are_not_one_copy_mnn_1307():
    packed = lp.to_nc1hwc0(counted((4, 1, 1, 1)), c0=4)
    assert packed.ravel().tolist() == [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]
    assert lp.from_nc1hwc0(packed, channels=1).ravel().tolist() == [1, 2, 3, 4]


@each_format
@pytest.mark.parametrize("dtype", WORDS)
def test_axes_of_extent_one_anywhere_mnn_1307(fmt, dtype):
    full = RAGGED[fmt]
    for ones in itertools.product([False, True], repeat=len(full)):
        shape = tuple(1 if one else n for one, n in zip(ones, full, strict=True))
        x = filled(shape, dtype)
        packed = to(fmt)(x, **edge(fmt, 4))
        assert_same(packed, reference.pack(x, fmt, reference.NATURAL[fmt], c0=4))
        assert_same(back(fmt)(packed, shape=shape), x)


def test_a_fractal_matrix_with_ragged_sizes_sglang_21209():
    a = counted((18, 20))
    packed = lp.to_fractal_nz(a)
    assert packed.shape == (2, 2, 16, 16)
    assert (packed[1, 0, 0, 0], packed[0, 1, 1, 15], packed[1, 1, 1, 3]) == (17, 356, 360)
    assert packed.sum() == a.sum()
    assert np.count_nonzero(packed) == a.size
    assert_same(lp.from_fractal_nz(packed, shape=(18, 20)), a)


@pytest.mark.parametrize("fmt", ["FRACTAL_NZ", "FRACTAL_ZZ", "FRACTAL_ZN", "FRACTAL_NN"])
@pytest.mark.parametrize("dtype", ["i1", "f2", "f4"])
def test_fractal_matrices_of_any_size_sglang_21209(fmt, dtype):
    c0 = 32 if dtype == "i1" else 16
    for shape in itertools.product([1, 15, 16, 17, 31, 32, 33], repeat=2):
        a = filled(shape, dtype)
        packed = to(fmt)(a)
        assert_same(packed, reference.pack(a, fmt, "ND", c0=c0))
        assert_same(back(fmt)(packed, shape=shape), a)


@pytest.mark.parametrize(("fill", "dtype"), [(128, "u1"), (-1, "i2"), (0.5, "f4"), (None, "u1"), (0, "u1")])
def test_padding_of_another_value_tvm_12261(fill, dtype):
    x = counted((2, 5, 3, 2), dtype)
    packed = lp.to_nc1hwc0(x, c0=8, fill=fill)
    assert np.unique(packed[:, 0, :, :, 5:]).tolist() == [fill or 0]
    assert_same(packed, reference.pack(x, "NC1HWC0", "NCHW", c0=8, fill=fill))


# ---------------------------------------------------------------------- strides of the input


def test_a_flipped_image_open3d_4792():
    x = np.arange(8).reshape(1, 2, 2, 2)[:, :, ::-1]
    assert lp.repack(x, "NCHW", "NHWC").ravel().tolist() == [2, 6, 3, 7, 0, 4, 1, 5]


def test_a_bgr_image_pytorch_92680():
    x = np.arange(6, dtype=np.uint8).reshape(1, 1, 2, 3)[..., ::-1]
    result = lp.repack(x, "NHWC", "NCHW")
    assert result.ravel().tolist() == [2, 5, 1, 4, 0, 3]
    assert all(stride > 0 for stride in result.strides)


@pytest.mark.parametrize("flips", list(itertools.product([1, -1], repeat=4)))
@pytest.mark.parametrize("dst", ["NHWC", "NCHW", "NC1HWC0", "FRACTAL_Z"])
def test_every_combination_of_flips_open3d_4792_pytorch_92680(dst, flips):
    x = filled((2, 9, 3, 5), "u2")[tuple(slice(None, None, step) for step in flips)]
    result = lp.repack(x, "NCHW", dst)
    assert_same(result, reference.pack(x, dst, "NCHW"))
    assert_fresh(result, x)


@pytest.mark.parametrize("convert", [lp.to_contiguous, lp.to_channels_last])
@pytest.mark.parametrize("shape", [(1, 10, 20), (5, 1, 6), (1, 3, 1, 4), (2, 1, 1, 5), (1, 2, 1, 3, 1)])
def test_no_negative_stride_survives_on_an_axis_of_one_numpy_23349(convert, shape):
    x = counted(shape)[(slice(None, None, -1),) * len(shape)]
    for view in (x, x[::-1]):
        result = convert(view)
        np.testing.assert_array_equal(result, view)
        if convert is lp.to_contiguous:
            assert result.strides == canonical_strides(shape, 4)
        else:
            assert element_strides(result) == tuple(lp.channels_last_strides(shape))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_flipped_array_goes_on_by_dlpack_pytorch_188023(library):
    """In a process of its own, since a negative stride kills it."""
    if not importlib.util.find_spec(library):
        pytest.skip(f"needs {library}")
    code = f"""
        import numpy as np, {library}, layoutpack as lp
        x = np.arange(1, 121, dtype=np.float32).reshape(1, 5, 4, 6)
        for view in (x[..., ::-1], x[:, ::-1, ::-1], x[::-1]):
            for convert in (
                lambda v: lp.to_nc1hwc0(v, c0=16),
                lambda v: lp.repack(v, "NCHW", "NHWC", copy=None),
                lambda v: lp.repack(v, "NCHW", "NCHW", copy=None),
                lp.to_contiguous,
                lp.to_channels_last,
            ):
                y = convert(view)
                assert (np.asarray({library}.from_dlpack(y)) == y).all()
    """
    done = run_python(code)
    assert done.returncode == 0, done.stderr


steps = st.sampled_from([slice(None), slice(None, None, -1), slice(None, None, -2), slice(1), slice(0, None, 3)])
CONVERSIONS = [
    *(lambda x, dst=dst: lp.repack(x, "NCHW", dst, copy=None) for dst in ("NCHW", "NHWC", "HWCN", "NC1HWC0", "NCHW1c")),
    lambda x: lp.to_fractal_nz(x, copy=None),
    lambda x: lp.from_nc1hwc0(x[:, None], channels=x.shape[-1], copy=None),
    lp.to_contiguous,
    lp.to_channels_last,
]


@given(st.tuples(*[st.integers(1, 4)] * 4), st.tuples(*[steps] * 4), st.permutations(range(4)), st.booleans())
def test_no_result_has_a_negative_stride_pytorch_188023(shape, index, order, broadcast):
    x = counted(shape).transpose(order)[index]
    if broadcast:
        x = np.broadcast_to(x[:1], (3, *x.shape[1:]))
    for convert in CONVERSIONS:
        assert min(convert(x).strides) >= 0


@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (2, 3, 4, 5), (1, 3, 7), (1, 3, 2, 4, 5)])
def test_a_batch_axis_added_by_indexing_pytorch_68430(shape):
    image = lp.to_channels_last(counted(shape), copy=True)[0][None]
    assert lp.is_channels_last(image)
    again = lp.to_channels_last(image, copy=False)
    assert np.shares_memory(again, image)
    assert element_strides(again) == tuple(lp.channels_last_strides(image.shape))
    np.testing.assert_array_equal(again, image)


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("stride", [999, -999, 0, 1, 2**40])
def test_one_channel_with_a_meaningless_stride_pytorch_82060(stride, at):
    x = page_guarded((1, 1, 4, 4), np.float32, at=at, strides=(4 * stride, 4 * stride, 16, 4))
    x[...] = counted((1, 1, 4, 4))
    assert lp.is_channels_last(x)
    assert lp.is_contiguous(x)
    for result in (lp.to_channels_last(x), lp.to_channels_last(x, copy=True), lp.to_contiguous(x)):
        np.testing.assert_array_equal(result, x)
    for dst in ("NHWC", "NC1HWC0", "FRACTAL_Z", "NCHW"):
        assert_same(lp.repack(x, "NCHW", dst), reference.pack(x, dst, "NCHW"))


@each_format
@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("dtype", ["u1", "u2", "V3", "u4", "u8", "c16"])
def test_never_touches_a_byte_outside_pytorch_82060(fmt, at, dtype):
    """Input and output lie between pages that kill the process when touched."""
    order = reference.NATURAL[fmt]
    for c0, n in itertools.product([4, 16], [1, 3, 16, 17, 33]):
        shape = {2: (n, n), 4: (n % 5, n, 3, 2), 5: (2, n, 2, 1, 3)}[len(order)]
        x = page_guarded(shape, dtype, at=at)
        x[...] = filled(shape, dtype)
        expected = reference.pack(x, fmt, order, c0=c0)
        packed = to(fmt)(x, out=page_guarded(expected.shape, dtype, at=at), **edge(fmt, c0))
        assert_same(packed, expected)
        assert_same(back(fmt)(packed, out=page_guarded(shape, dtype, at=at)), x)


@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (2, 1, 4, 4), (1, 1, 1, 1), (2, 3, 1), (2, 1, 5), (2, 1, 2, 2, 2)])
def test_ambiguous_shapes_report_both_layouts_pytorch_30325(shape):
    last = {3: lp.channels_last_1d, 4: lp.channels_last, 5: lp.channels_last_3d}[len(shape)]
    both = frozenset({lp.contiguous_format, last})
    x = counted(shape)
    assert [lp.memory_formats(x) for _ in range(3)] == [both] * 3
    assert lp.memory_formats(lp.to_channels_last(x)) == both


def test_channels_last_of_sequences_pytorch_74935():
    x = lp.to_channels_last(np.arange(24).reshape(2, 3, 4))
    assert x.shape == (2, 3, 4)
    assert element_strides(x) == (12, 1, 3)
    assert lp.storage_order(x).tolist()[:16] == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, 12, 16, 20, 13]


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 7), (8, 3, 32), (2, 1, 5), (2, 5, 1)])
def test_channels_last_of_any_sequence_pytorch_74935(shape):
    x = counted(shape)
    result = lp.to_channels_last(x, copy=True)
    assert_same(result, x)
    assert element_strides(result) == (shape[1] * shape[2], 1, shape[1])
    assert lp.is_contiguous(result, lp.channels_last_1d)
    assert_same(lp.storage_order(result), x.transpose(0, 2, 1).ravel())


@pytest.mark.parametrize("dtype", ["i1", "f2", "u4", "f8", "c16", "S5"])
@pytest.mark.parametrize("src", ["NCHW", "NHWC"])
def test_broadcast_and_stepped_inputs_cudf_10849(src, dtype):
    x = filled((4, 6, 4, 10), dtype)
    views = [
        np.broadcast_to(x[:1, :3, :1, :1], (2, 3, 4, 5)),
        np.broadcast_to(x[:, :, :1], (4, 6, 7, 10)),
        np.broadcast_to(x[0, 0, 0, 0], (3, 17, 2, 2)),
        x[:, :, ::2],
        x[::3, 1::2, ::-2, 3::3],
        as_strided(x, (3, 4, 3, 2), (x.strides[0], x.strides[3], x.strides[3], x.strides[3])),
    ]
    for view in views:
        for dst in ("NCHW", "NHWC", "NC1HWC0"):
            assert_same(lp.repack(view, src, dst, **edge(dst)), reference.pack(view, dst, src))


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_an_image_without_a_batch_axis_vision_9547(batch):
    image = counted((4, 5, 3)).transpose(2, 0, 1)
    assert lp.is_channels_last(image, layout="CHW")
    assert not lp.is_channels_last(image)  # three axes without a layout are (N, C, L)
    assert not lp.is_channels_last(np.ascontiguousarray(image), layout="CHW")
    images = np.broadcast_to(image, (batch, 3, 4, 5))
    assert lp.is_channels_last(images) is (batch < 2)


@pytest.mark.parametrize(("shape", "src"), [((2, 20, 3, 4, 5), "NCDHW"), ((2, 3, 4, 5, 20), "NDHWC")])
@pytest.mark.parametrize("fmt", ["NC1HWC0", "NC1HWC0_C04", "FRACTAL_Z"])
def test_a_volume_is_not_a_blocked_image_paddlecustomdevice_380(fmt, shape, src):
    x = counted(shape)
    with pytest.raises(ValueError, match=r"\b4 axes.*\b5\b"):
        to(fmt)(x)
    with pytest.raises(ValueError, match="D"):
        to(fmt)(x, src=src)
    flat = counted([1 if axis == "D" else n for axis, n in zip(src, shape, strict=True)])
    assert_same(to(fmt)(flat, src=src), reference.pack(flat, fmt, src))


@pytest.mark.parametrize("dtype", WORDS)
def test_lines_that_push_each_other_out_of_the_cache_go_through_scratch_numpy_32453(dtype):
    """Whether it is faster shows in asv_bench; here, that the planner sees the sizes where a plain loop collapses."""
    for columns in (4096, 6144, 8192):
        for streaming in (False, True):
            assert "scratch" in lp.plan("HW", "WH", (columns, columns), dtype, streaming=streaming).explain()
    for columns in (4095, 4097):  # nor does it pay for scratch where lines spread out by themselves
        assert "scratch" not in lp.plan("HW", "WH", (columns, columns), dtype, streaming=False).explain()


@pytest.mark.parametrize("shape", [(4096, 130), (130, 4096), (4097, 130), (130, 4097)])
@pytest.mark.parametrize("dtype", WORDS)
def test_transposing_at_such_sizes_numpy_32453_numpy_28711(shape, dtype):
    x = filled(shape, dtype)
    for streaming in (False, True):
        assert_same(lp.plan("HW", "WH", shape, dtype, streaming=streaming)(x), np.ascontiguousarray(x.T))


# ---------------------------------------------------------------------- dtypes and memory


def test_big_endian_pytorch_3671():
    x = counted((1, 2, 1, 3), ">f4")
    result = lp.repack(x, "NCHW", "NHWC")
    assert result.dtype == np.dtype(">f4")
    assert result.ravel().tolist() == [1, 4, 2, 5, 3, 6]


@each_format
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", ["i2", "f4", "c8", "f8", "c16", "M8[s]", "U2"])
def test_byte_order_is_kept_pytorch_3671(fmt, kind, order):
    x = filled(RAGGED[fmt], order + kind)
    packed = to(fmt)(x)
    assert_same(packed, reference.pack(x, fmt, reference.NATURAL[fmt]))
    assert packed.dtype.byteorder == x.dtype.byteorder
    assert_same(back(fmt)(packed, shape=x.shape), x)


@each_format
def test_a_read_only_input_numpy_20742(fmt):
    x = filled(RAGGED[fmt], "f4")
    before = x.tobytes()
    x.flags.writeable = False
    packed = to(fmt)(x)
    assert packed.flags.writeable
    packed.flags.writeable = False
    unpacked = back(fmt)(packed, shape=x.shape)
    assert unpacked.flags.writeable
    assert_same(unpacked, x)
    assert x.tobytes() == before
    again = lp.repack(packed, fmt, fmt, shape=x.shape)
    assert again.flags.writeable
    assert_same(again, packed)


@pytest.mark.parametrize("query", ["is_contiguous", "is_channels_last", "is_strides_like_channels_last"])
def test_questions_about_a_read_only_array_numpy_20742(query):
    x = lp.to_channels_last(filled((2, 3, 4, 5), "f4"), copy=True)
    writeable = getattr(lp, query)(x)
    x.flags.writeable = False
    assert getattr(lp, query)(x) is writeable


def test_strided_functions_on_a_read_only_array_numpy_20742():
    x = filled((2, 3, 4, 5), "f4")
    x.flags.writeable = False
    assert lp.memory_formats(x) == {lp.contiguous_format}
    assert lp.suggest_memory_format(x) is lp.contiguous_format
    for result in (lp.to_channels_last(x), lp.to_contiguous(x, copy=True), lp.storage_order(x).reshape(x.shape)):
        assert result.flags.writeable
        assert_same(result, x)


@each_format
@pytest.mark.parametrize(
    ("dtype", "word"),
    [
        (ml_dtypes.bfloat16, "u2"),
        (ml_dtypes.float8_e4m3fn, "u1"),
        (ml_dtypes.float8_e5m2, "u1"),
        (ml_dtypes.float8_e8m0fnu, "u1"),
        (ml_dtypes.int4, "u1"),
        (ml_dtypes.uint4, "u1"),
    ],
)
def test_extension_dtypes_move_as_words_ml_dtypes_80(fmt, dtype, word):
    words = filled(RAGGED[fmt], word)  # random bits: NaN payloads and negative zero among them
    x = words.view(dtype)
    packed = to(fmt)(x, **edge(fmt))
    assert packed.tobytes() == to(fmt)(words, **edge(fmt)).tobytes()
    assert_same(packed, reference.pack(x, fmt, reference.NATURAL[fmt]))
    assert_same(back(fmt)(packed, shape=x.shape), x)


def test_a_field_of_a_packed_record_numpy_16660():
    records = np.zeros(12, dtype=[("name", "S5"), ("v", "f4")])
    records["v"] = np.arange(12)
    x = records["v"].reshape(1, 3, 2, 2)
    assert x.strides == (108, 36, 18, 9)
    assert lp.repack(x, "NCHW", "NHWC").ravel().tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]


@each_format
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "c16", "V3"])
@pytest.mark.parametrize("odd", [1, 5, 7])
def test_strides_that_no_item_size_divides_numpy_16660(fmt, dtype, odd):
    words, order = filled(RAGGED[fmt], dtype), reference.NATURAL[fmt]
    records = np.zeros(words.shape, dtype=[("name", f"S{odd}"), ("v", dtype)])
    records["v"] = words
    x = records["v"]
    assert x.strides[-1] == odd + words.itemsize
    packed = to(fmt)(x, **edge(fmt))
    assert_same(packed, reference.pack(words, fmt, order))

    storage = np.zeros(packed.shape, dtype=records.dtype)
    out = storage["v"]
    assert to(fmt)(x, out=out, **edge(fmt)) is out
    assert_same(out, packed)
    assert not any(storage["name"].ravel())
    assert_same(back(fmt)(out, shape=words.shape), words)


def test_input_and_out_that_overlap_numpy_16749():
    buffer = np.arange(40)
    x, out = buffer[:24].reshape(1, 3, 2, 4), buffer[8:32].reshape(1, 2, 4, 3)
    assert lp.repack(x, "NCHW", "NHWC", out) is out
    assert out.ravel().tolist() == [8 * c + i for i in range(8) for c in range(3)]
    assert buffer[:8].tolist() == list(range(8))
    assert buffer[32:].tolist() == list(range(32, 40))


@pytest.mark.parametrize("shift", range(-24, 25))
def test_input_and_out_at_any_distance_numpy_16749(shift):
    """As if the input had been copied first, for every way two dense arrays of 24 elements can overlap."""
    for dst in ("NHWC", "NC1HWC0"):
        buffer = np.arange(100, dtype=np.int32)
        x = buffer[30:54].reshape(1, 3, 2, 4)
        storage = reference.pack(x, dst, "NCHW", c0=4)
        place = slice(30 + shift, 30 + shift + storage.size)
        expected = buffer.copy()
        expected[place] = storage.ravel()
        lp.repack(x, "NCHW", dst, buffer[place].reshape(storage.shape), **edge(dst, 4))
        assert_same(buffer, expected)


# ---------------------------------------------------------------------- offsets above 32 bits


@pytest.fixture(scope="module")
def sparse_file(tmp_path_factory):
    """7 GiB of zeros that occupy almost no disk and, touched at a few places, almost no memory."""
    path = tmp_path_factory.mktemp("sparse") / "zeros"
    memory = np.memmap(path, np.uint8, "w+", shape=7 << 30)
    if os.stat(path).st_blocks * 512 > 1 << 20:
        pytest.skip("the file system has no sparse files")
    yield memory
    del memory
    path.unlink()


FAR = (1, 3, 2, 2)
FAR_STRIDES = (0, 1 << 31, 1 << 30, 1)


@pytest.fixture
def far(sparse_file):
    """Twelve cells, up to 5 GiB apart."""
    cells = as_strided(np.asarray(sparse_file), FAR, FAR_STRIDES)
    cells[...] = counted(FAR, "u1")
    return cells


def test_offsets_above_32_bits_onnxruntime_32299(far):
    assert lp.repack(far, "NCHW", "NHWC").ravel().tolist() == [1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12]


@pytest.mark.parametrize("flips", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
@pytest.mark.parametrize("dst", ["NCHW", "NHWC", "NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ"])
def test_far_input_onnxruntime_32299(far, dst, flips):
    x = far[:, :: flips[0], :: flips[1]]
    assert_same(lp.repack(x, "NCHW", dst, **edge(dst, 4)), reference.pack(x, dst, "NCHW", c0=4))


@pytest.mark.parametrize("flips", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
def test_far_output_onnxruntime_32299(far, flips):
    x = counted(FAR, "u1") + np.uint8(100)
    out = far[:, :: flips[0], :: flips[1]]
    assert lp.from_nc1hwc0(reference.pack(x, "NC1HWC0", "NCHW"), out) is out
    assert_same(np.ascontiguousarray(out), x)


def test_far_elements_that_span_two_pages_onnxruntime_32299(sparse_file):
    x = Frame.of(counted((1, 2, 2, 2), "f8"), order=(0, 1, 2, 3), gaps=(0, 3, 1, 0)).array
    far = np.ndarray(x.shape, x.dtype, sparse_file, 4091, (0, (3 << 30) + 1, (1 << 30) + 3, 8))
    far[...] = x
    assert_same(lp.repack(far, "NCHW", "NHWC"), reference.pack(x, "NHWC", "NCHW"))


@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize("length", range(1, 18))
def test_gaps_between_lines_are_not_read_pytorch_82060(dtype, length):
    """What lies between the elements of a view may be no memory at all."""
    x = lines_before_guards(35, length, dtype)
    x[...] = filled(x.shape, dtype)
    assert_same(lp.repack(x, "AB", "BA"), np.ascontiguousarray(x.T))
    assert_same(lp.repack(x, "AB", "AB16b", shape=x.shape), reference.pack(x, "AB16b", "AB"))
    assert_same(lp.to_fractal_nz(x, c0=16), reference.pack(x, "FRACTAL_NZ", "ND", c0=16))
    assert_same(lp.to_fractal_zn(x, c0=32), reference.pack(x, "FRACTAL_ZN", "ND", c0=32))


@pytest.mark.bigmem
def test_more_elements_than_32_bits_count_onnxruntime_32299():
    """The same with real memory: 2.2 GB in and 2.2 GB out."""
    x = np.empty((1, 3, 1 << 15, 22000), np.uint8)
    x[...] = np.arange(22000, dtype=np.uint16).astype(np.uint8)
    x += np.arange(3, dtype=np.uint8)[:, None, None] * 85
    x += (np.arange(1 << 15) % 83).astype(np.uint8)[:, None]
    assert x.size > 1 << 31
    y = lp.repack(x, "NCHW", "NHWC")
    for row in (0, 1, 9999, 16384, (1 << 15) - 1):
        np.testing.assert_array_equal(y[0, row], x[0, :, row].T)
    del x
    for row in (5, 32000):
        np.testing.assert_array_equal(lp.repack(y, "NHWC", "NCHW")[0, :, row], y[0, row].T)
