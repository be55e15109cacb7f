"""pack_images against what people write without it: stack, convert, subtract, divide, transpose."""

import ml_dtypes
import numpy as np
import pytest

import layoutpack as lp
from layoutpack import _conversion, images

RESULTS = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
MEAN, STD = (0.485, 0.456, 0.406, 0.5), (0.229, 0.224, 0.225, 0.25)


def frames(rng, n, shape, dtype):
    """Images of the most different strides."""
    views = (
        lambda x: x[2:-2, 2:-2],
        lambda x: x[3:-1, 1:-3][::-1],
        lambda x: np.asfortranarray(x[2:-2, 2:-2]),
        lambda x: np.ascontiguousarray(x[2:-2, 2:-2]),
    )
    high, wide, channels = shape
    return [views[i % 4](rng.integers(0, 256, (high + 4, wide + 4, channels)).astype(dtype)) for i in range(n)]


def by_hand(batch, scale, mean, std, reverse_channels):
    """NHWC in float64, and the bound of the error before the last rounding."""
    batch = batch.astype(np.float64)
    n = batch.shape[-1]
    if reverse_channels and n > 1:
        batch = batch[..., [2, 1, 0, 3][:n]]
    a, b = np.divide(scale, std), np.divide(mean, std)
    y = batch * a - b
    return y, 2.0**-24 * (np.abs(batch * a) + np.abs(b) + np.abs(y)) * (1 + 2**-20)


@pytest.mark.parametrize("dtype", RESULTS, ids=str)
@pytest.mark.parametrize("source", [np.uint8, np.float32, np.uint16, np.float64, np.int32])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dst", ["NCHW", "NHWC", "CHWN", "NC1HWC0", "NCHW4c"])
@pytest.mark.parametrize("reverse_channels", [False, True])
def test_normalised(dtype, source, channels, dst, reverse_channels, rng):
    made = frames(rng, 5, (13, 18, channels), source)
    mean, std = MEAN[:channels], STD[:channels]
    kw = {"dst": dst, "dtype": dtype, "scale": 1 / 255, "mean": mean, "std": std, "reverse_channels": reverse_channels}
    y = lp.pack_images(made, **kw)
    assert y.dtype == dtype
    want, bound = by_hand(np.stack(made), 1 / 255, mean, std, reverse_channels)
    got = lp.repack(y, dst, "NHWC", shape=want.shape).astype(np.float64)
    half_unit = {"float32": 0, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype.name]  # of the last place
    bound = bound + np.abs(want) * half_unit * (1 + 2**-10)
    if dtype == np.float16:
        bound = np.maximum(bound, 2.0**-25)  # subnormal
    assert (np.abs(got - want) <= bound).all()
    # The same bytes from one array, and from each image by itself.
    assert lp.pack_images(np.stack(made), **kw).tobytes() == y.tobytes()
    axis = dst.index("N") if dst.isupper() and "0" not in dst else 0
    for i, image in enumerate(made):
        alone = lp.pack_images(image, **kw)
        np.testing.assert_array_equal(alone, np.take(y, [i], axis))
    if "C0" in dst or "c" in dst:
        assert not y[..., channels:].astype(np.float32).any()


def test_plain_is_a_cast():
    x = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    y = lp.pack_images([x, x])
    np.testing.assert_array_equal(y, np.stack([x, x]).transpose(0, 3, 1, 2).astype(np.float32), strict=True)
    np.testing.assert_array_equal(lp.pack_images([x], dtype=np.uint8, dst="NHWC"), x[None], strict=True)


@pytest.mark.parametrize("order", ["CHW", "HWC", "WCH"])
def test_order_of_the_axes(order, rng):
    x = rng.integers(0, 256, (2, 7, 9, 3)).astype(np.uint8)
    turned = x.transpose(0, *(1 + "HWC".index(axis) for axis in order))
    want = lp.pack_images(x, mean=7)
    for given in (turned, list(turned)):
        np.testing.assert_array_equal(lp.pack_images(given, src=order, mean=7), want)


def test_gray_without_an_axis():
    x = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for given in (x, [x], x[..., None], x[None, ..., None]):
        np.testing.assert_array_equal(lp.pack_images(given, std=2)[0, 0], x / np.float32(2))


def test_out_is_filled_and_returned(rng):
    made = frames(rng, 3, (8, 10, 3), np.uint8)
    out = np.full((3, 1, 8, 10, 16), np.nan, np.float16)
    assert lp.pack_images(made, out, dst="NC1HWC0", mean=1) is out
    np.testing.assert_array_equal(out, lp.pack_images(made, dst="NC1HWC0", mean=1, dtype=np.float16))
    wide = np.full((3, 3, 8, 20), 9, np.float32)
    lp.pack_images(made, wide[..., ::2], mean=1)
    np.testing.assert_array_equal(wide[..., ::2], lp.pack_images(made, mean=1))
    assert (wide[..., 1::2] == 9).all()


def test_out_may_overlap_an_image():
    memory = np.arange(2 * 3 * 8 * 8, dtype=np.float32)
    out = memory.reshape(2, 3, 8, 8)
    made = [memory[:192].reshape(8, 8, 3), memory[100:292].reshape(8, 8, 3)]
    want = np.stack([image.transpose(2, 0, 1) for image in made]) * 2
    np.testing.assert_array_equal(lp.pack_images(made, out, scale=2), want)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_many_images_on_several_threads(threads, rng, monkeypatch):
    made = frames(rng, 33, (60, 70, 3), np.uint8)
    want = lp.pack_images(np.stack(made), mean=3, threads=1)
    for limit in (0, 1 << 60):  # with streaming stores and without
        monkeypatch.setattr(images, "STREAMING_THRESHOLD", limit)
        monkeypatch.setattr(_conversion, "STREAMING_THRESHOLD", limit)
        _conversion.conversion_for.cache_clear()
        np.testing.assert_array_equal(lp.pack_images(made, mean=3, threads=threads), want)
    _conversion.conversion_for.cache_clear()


IMAGE = np.zeros((4, 5, 3), np.uint8)


@pytest.mark.parametrize(
    ("given", "keywords", "error", "words"),
    [
        ([IMAGE, IMAGE[:3]], {}, ValueError, r"images\[1\] has the shape \(3, 5, 3\), images\[0\] has \(4, 5, 3\)"),
        ([IMAGE, IMAGE[..., :2]], {}, ValueError, r"2 channels in images\[1\] of shape \(4, 5, 2\)"),
        ([IMAGE, IMAGE, IMAGE.astype("u2")], {}, TypeError, r"images\[2\] has the dtype uint16, images\[0\] has uint8"),
        ([IMAGE, IMAGE[0, 0]], {}, ValueError, r"images\[1\] must have the axes HWC, got the shape \(3,\)"),
        ([IMAGE, np.ma.array(IMAGE)], {}, TypeError, r"images\[1\]: a masked array"),
        ([], {}, ValueError, "no images"),
        (IMAGE.transpose(2, 0, 1), {}, ValueError, r"5 channels in images .* HWC; there may be 1 \(gray\)"),
        (np.zeros((1, 1, 4, 5, 3)), {}, ValueError, "must have the axes HWC"),
        ([IMAGE], {"mean": (1, 2)}, ValueError, r"mean or std has 2 values, images\[0\] has 3 channels"),
        (IMAGE, {"std": [1, 2]}, ValueError, "mean or std has 2 values, images has 3 channels"),
        (IMAGE, {"std": np.nan}, ValueError, "std must be finite in float32, got nan"),
        (IMAGE, {"mean": 1e300}, ValueError, "mean must be finite in float32"),
        (IMAGE, {"mean": [[1, 2, 3]]}, ValueError, r"mean must be a number .* got \[\[1, 2, 3\]\]"),
        (IMAGE, {"mean": ()}, ValueError, "mean must be a number"),
        (IMAGE, {"scale": "2"}, ValueError, "scale must be one number, got '2'"),
        (IMAGE, {"scale": 2 + 0j}, ValueError, "scale must be one number"),
        (IMAGE, {"scale": None}, ValueError, "scale must be one number"),
        ((x for x in [IMAGE]), {}, TypeError, "a list or tuple of arrays, got generator"),
        (None, {}, TypeError, "got NoneType"),
        (IMAGE, {"dst": "HWC"}, ValueError, "dst must have an axis N"),
        (IMAGE, {"dst": "FRACTAL_NZ"}, ValueError, "dst must have an axis N"),
        (IMAGE, {"mean": (1, 2), "std": (1, 2, 3)}, ValueError, "mean has 2 values and std has 3"),
        (IMAGE, {"std": (1, 0, 1)}, ValueError, "std must not be zero"),
        (IMAGE, {"mean": "1"}, ValueError, "mean must be a number"),
        (IMAGE, {"scale": np.nan}, ValueError, "scale must be finite"),
        (IMAGE, {"scale": (1, 2, 3)}, ValueError, "scale must be one number"),
        (IMAGE, {"src": "NHWC"}, ValueError, "src must be an order of H, W and C"),
        ([IMAGE], {"dst": "FRACTAL_Z"}, ValueError, "dst must have an axis N"),
        ([IMAGE], {"dst": "CHW"}, ValueError, "dst must have an axis N"),
        ([IMAGE], {"dtype": np.int16, "mean": 1}, TypeError, "not int16"),
        ([IMAGE.astype(complex)], {}, TypeError, "cannot cast"),
        ([IMAGE], {"out": np.zeros((1, 3, 4, 4), np.float32)}, ValueError, r"axis 3: 4 instead of 5"),
        ([IMAGE], {"threads": 0}, ValueError, "number of threads"),
    ],
)
def test_refused(given, keywords, error, words):
    with pytest.raises(error, match=words):
        lp.pack_images(given, **keywords)


def test_zeros_of_either_sign():
    x = np.array([[[-0.0, 1, 2]]], np.float32)
    for mean in (0.0, -0.0, 0.0):
        for given in ((mean, 0, 0), [mean, 0, 0], np.array([mean, 0, 0])):
            first = lp.pack_images(x, mean=given)[0, 0, 0, 0]
            assert np.signbit(first) == np.signbit(x[0, 0, 0] - np.float32(mean))


def test_the_short_types_become_each_other():
    x = np.ones((2, 2, 3), ml_dtypes.bfloat16)
    assert (lp.pack_images(x, dtype=np.float16) == 1).all()
    assert (lp.pack_images([x], dtype=np.float16, scale=2) == 2).all()


def test_images_are_not_written():
    made = [np.ones((8, 8, 3), np.float32) for _ in range(3)]
    for image in made:
        image.flags.writeable = False
    lp.pack_images(made, scale=2, reverse_channels=True)
    assert all((image == 1).all() for image in made)
