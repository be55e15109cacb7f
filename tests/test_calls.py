"""Calls that come again skip the checks of the first: nothing may be taken over that has changed in between."""

import numpy as np
import pytest

import layoutpack as lp
from guard import assert_same, counted

X = counted((2, 20, 4, 6), "f2")
Y = lp.to_nc1hwc0(X)


def again(call, n=3):
    """The result of a call that was made several times."""
    for _ in range(n - 1):
        call()
    return call()


def test_results_are_fresh_every_time():
    results = [lp.to_nc1hwc0(X) for _ in range(4)]
    assert len({r.ctypes.data for r in results}) == 4
    for r in results:
        assert_same(r, Y)
        assert r.flags.owndata is False
        assert r.ctypes.data % 64 == 0


def test_the_input_may_change():
    x = X.copy()
    out = again(lambda: lp.to_nc1hwc0(x))
    x[...] = 0
    assert_same(out, Y)
    assert not lp.to_nc1hwc0(x).any()


def test_an_output_that_became_read_only():
    out = np.empty_like(Y)
    again(lambda: lp.to_nc1hwc0(X, out=out))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        lp.to_nc1hwc0(X, out=out)


def test_an_output_that_overlaps_although_the_one_before_did_not():
    memory = np.zeros(4 * X.size, "f2")
    x, apart = memory[: X.size].reshape(X.shape), memory[2 * X.size :][: X.size].reshape(2, 4, 6, 20)
    over = memory[8:][: X.size].reshape(2, 4, 6, 20)
    x[...] = X
    again(lambda: lp.repack(x, "NCHW", "NHWC", out=apart))
    lp.repack(x, "NCHW", "NHWC", out=over)
    assert_same(over.copy(), np.ascontiguousarray(X.transpose(0, 2, 3, 1)))


def test_other_strides_of_the_same_shape():
    again(lambda: lp.to_nc1hwc0(X))
    assert_same(lp.to_nc1hwc0(X[:, ::-1]), lp.to_nc1hwc0(X[:, ::-1].copy()))
    assert_same(lp.to_nc1hwc0(X[::-1]), Y[::-1].copy())


def test_equal_numbers_of_other_types_are_not_the_same():
    again(lambda: lp.from_nc1hwc0(Y, channels=20))
    again(lambda: lp.to_nc1hwc0(X, c0=16))
    for wrong in (16.0, "16", [16]):
        with pytest.raises(TypeError):
            lp.to_nc1hwc0(X, c0=wrong)
    with pytest.raises(TypeError):
        lp.from_nc1hwc0(Y, channels=20.0)
    again(lambda: lp.from_nc1hwc0(Y, shape=(2, 20, 4, 6)))
    with pytest.raises(TypeError):
        lp.from_nc1hwc0(Y, shape=(2.0, 20, 4, 6))


def test_a_fill_that_can_change():
    fill = np.array(3, "f2")
    assert again(lambda: lp.to_nc1hwc0(X, fill=fill))[0, 1, 0, 0, 15] == 3
    fill[...] = 5
    assert lp.to_nc1hwc0(X, fill=fill)[0, 1, 0, 0, 15] == 5


def test_fills_one_after_the_other():
    for fill in (0, 1, 2.5, -0.0, 1):
        assert_same(again(lambda fill=fill: lp.to_nc1hwc0(X, fill=fill))[0, 1, 0, 0, 15:], np.full(1, fill, "f2"))


def test_dtypes_one_after_the_other():
    again(lambda: lp.to_nc1hwc0(X, c0=16))
    for dtype in ("i2", ">f2", "u2", "f2"):
        x = X.view(dtype)
        assert lp.to_nc1hwc0(x, c0=16).dtype == np.dtype(dtype)
    assert again(lambda: lp.to_nc1hwc0(X, dtype="f4", c0=16)).dtype == "f4"


def test_subclasses_and_masks_are_looked_at():
    again(lambda: lp.to_nc1hwc0(X))
    assert type(lp.to_nc1hwc0(X.view(np.recarray))) is np.ndarray
    with pytest.raises(TypeError, match="mask"):
        lp.to_nc1hwc0(np.ma.array(X))


def test_threads_are_checked_every_time():
    again(lambda: lp.to_nc1hwc0(X, threads=1))
    for wrong in (0, 1.0, True, "2"):
        with pytest.raises((TypeError, ValueError)):
            lp.to_nc1hwc0(X, threads=wrong)


def test_many_calls_in_turn():
    shapes = [(1, c, h, 5) for c in (1, 3, 16, 17) for h in range(1, 40)]
    for _ in range(2):
        for shape in shapes:
            x = counted(shape, "i4")
            assert_same(lp.from_nc1hwc0(lp.to_nc1hwc0(x), shape=shape), x)


def test_plans_come_again():
    plan = lp.plan("NCHW", "NC1HWC0", X.shape, "f2", fill=7)
    other = lp.plan("NCHW", "NC1HWC0", X.shape, "f2")
    for _ in range(3):
        assert plan(X)[0, 1, 0, 0, 15] == 7
        assert other(X)[0, 1, 0, 0, 15] == 0
    with pytest.raises(TypeError):
        plan(X.view("i2"))


@pytest.mark.parametrize("made_by", ["call", "plan"])
@pytest.mark.parametrize("fields", [["a"], ["a", "c"]])
def test_an_output_of_some_fields_leaves_the_others_alone(fields, made_by):
    records = np.zeros((1, 2, 4, 3), [("a", "u1"), ("b", "f4"), ("c", "u1")])
    records["b"] = 5
    z = records[fields].copy()
    for name in fields:
        z[name] = np.arange(24).reshape(1, 2, 4, 3)
    expected = records.reshape(1, 4, 3, 2).copy()
    expected[fields] = z.transpose(0, 2, 3, 1)
    records = records.reshape(1, 4, 3, 2)
    convert = lp.plan("NCHW", "NHWC", z.shape, z.dtype) if made_by == "plan" else None
    for _ in range(2):
        if convert:
            convert(z, out=records[fields])
        else:
            lp.repack(z, "NCHW", "NHWC", out=records[fields])
        assert_same(records, expected)
