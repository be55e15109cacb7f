"""Every refusal: the type of the error, what its message names, and that nothing was written before it."""

import re
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import layoutpack as lp
import reference
from guard import CANARY, Frame, assert_same, counted

IMAGE = counted((2, 20, 3, 4))
PACKED = reference.pack(IMAGE, "NC1HWC0", "NCHW")  # (2, 2, 3, 4, 16)
MATRIX = counted((18, 20))
TILES = reference.pack(MATRIX, "FRACTAL_NZ", "ND")  # (2, 2, 16, 16)
WEIGHT = counted((18, 20, 3, 2))
ROWS = reference.pack(WEIGHT, "FRACTAL_Z", "NCHW")  # (12, 2, 16, 16)
BYTES = IMAGE.astype("u1")


class Refusal(NamedTuple):
    function: object
    args: tuple
    keywords: dict
    error: type | tuple
    words: list
    out: tuple | None  # shape and dtype of an out that would be right, had the rest been


def no(function, *args, error=ValueError, words, out=None, **keywords):
    return Refusal(function, args, keywords, error, words, out)


def says(message, word):
    """Whether the message has the word, or one of several as in "a|b".

    Short words and numbers must stand alone, letters of axes in their own case.
    """
    found = False
    for option in word.split("|"):
        pattern = re.escape(option)
        if option.isalnum() and (len(option) < 3 or option.isdigit()):
            pattern = rf"(?<![\w.]){pattern}(?!\w)"
        found |= bool(re.search(pattern, message, 0 if len(option) == 1 else re.IGNORECASE))
    return found


def check(refusal, **more):
    with pytest.raises(refusal.error) as caught:
        refusal.function(*refusal.args, **refusal.keywords, **more)
    missing = [word for word in refusal.words if not says(str(caught.value), word)]
    assert not missing, str(caught.value)


class Sparse:
    """Looks like a sparse matrix: no array protocol at all."""

    shape, dtype = (18, 20), np.dtype("f4")

    def toarray(self):
        raise AssertionError("nobody asked for a dense copy")


class OnDevice:
    """A tensor in the memory of another device."""

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **keywords):
        raise BufferError("not on the CPU")


def zeros(*shape, dtype="f4"):
    return np.zeros(shape, dtype)


BOTH = (TypeError, ValueError)
ONE_BLOCK = lp.Format("MINE", logical="N C H W", physical="N H W C0", blocks={"C": 8})
NC1HWC0, NZ, FZ = (PACKED.shape, "f4"), (TILES.shape, "f4"), (ROWS.shape, "f4")
NCHW = (IMAGE.shape, "f4")
HUGE = np.broadcast_to(np.float32(1), (2**14, 16, 2**15, 2**15))
TOO_HUGE = np.broadcast_to(np.uint8(1), (1, 1, 2**31, 2**31))

INPUTS = {
    "objects": no(lp.to_nc1hwc0, IMAGE.astype(object), error=TypeError, words=["object"], out=NC1HWC0),
    "a field of objects": no(lp.to_nc1hwc0, zeros(2, 20, 3, 4, dtype="f4,O"), error=TypeError, words=["object"]),
    "strings of any length": no(
        lp.to_nc1hwc0, zeros(2, 20, 3, 4, dtype=np.dtypes.StringDType()), error=TypeError, words=["String"]
    ),
    "a masked array": no(
        lp.to_nc1hwc0, np.ma.masked_array(IMAGE), error=TypeError, words=["masked", "filled"], out=NC1HWC0
    ),
    "a masked matrix": no(lp.to_fractal_nz, np.ma.ones((18, 20), "f4"), error=TypeError, words=["masked", "filled"]),
    "a list of objects": no(lp.to_fractal_nz, [[None, None]], error=TypeError, words=["object"]),
    "a ragged list": no(lp.to_fractal_nz, [[1, 2], [3]], words=[]),
    "nothing": no(lp.to_nc1hwc0, None, error=TypeError, words=[], out=NC1HWC0),
    "text": no(lp.to_nc1hwc0, "NCHW", error=BOTH, words=[], out=NC1HWC0),
    "a number": no(lp.to_nc1hwc0, 3.0, error=BOTH, words=[], out=NC1HWC0),
    "a sparse matrix": no(lp.to_fractal_nz, Sparse(), error=TypeError, words=["Sparse|object"], out=NZ),
    "device memory": no(lp.to_nc1hwc0, OnDevice(), error=TypeError, words=["CPU"], out=NC1HWC0),
    "by keyword": no(lp.to_nc1hwc0, x=IMAGE, error=TypeError, words=[]),
    "no input": no(lp.to_nc1hwc0, error=TypeError, words=[]),
}

RANKS = {
    "no axes": no(lp.to_nc1hwc0, zeros(), words=["NCHW", "N C H W", "4", "0"], out=NC1HWC0),
    "one axis short": no(lp.to_nc1hwc0, zeros(3, 4, 5), words=["NCHW", "N C H W", "4", "3"], out=NC1HWC0),
    "one axis long": no(lp.to_nc1hwc0, zeros(2, 20, 1, 3, 4), words=["NCHW", "N C H W", "4", "5"], out=NC1HWC0),
    "a volume of four axes": no(lp.to_ndc1hwc0, IMAGE, words=["NCDHW", "N C D H W", "5", "4"]),
    "a kernel of three axes": no(lp.to_fractal_z, zeros(3, 4, 5), words=["NCHW", "N C H W", "4", "3"], out=FZ),
    "another order": no(lp.to_nc1hwc0, IMAGE, src="NCDHW", words=["NCDHW", "N C D H W", "5", "4"], out=NC1HWC0),
    "too short for leading axes": no(lp.to_nc1hwc0, zeros(3, 4, 5), src="...NCHW", words=["NCHW", "4", "3"]),
    "a vector as matrix": no(lp.to_fractal_nz, zeros(5), words=["FRACTAL_NZ", "H W", "2", "1", "reshape"], out=NZ),
    "a vector as ZN": no(lp.to_fractal_zn, zeros(5), words=["FRACTAL_ZN", "H W", "2", "1", "reshape"]),
    "a number as matrix": no(lp.to_fractal_zz, zeros(), words=["FRACTAL_ZZ", "H W", "2", "0"]),
    "plain storage": no(lp.from_nc1hwc0, IMAGE, channels=20, words=["NC1HWC0", "N C1 H W C0", "5", "4"]),
    "a plain matrix as tiles": no(
        lp.from_fractal_nz, MATRIX, shape=(18, 20), words=["FRACTAL_NZ", "W1 H1 H0 W0", "4", "2"]
    ),
    "plain to plain": no(lp.repack, IMAGE, "NCDHW", "NDHWC", words=["NCDHW", "5", "4"]),
}

NAMES = {
    "unknown source": no(lp.repack, PACKED, "NC1HWC1", "NCHW", words=["NC1HWC1"], out=NCHW),
    "unknown destination": no(lp.repack, IMAGE, "NCHW", "FRACTAL_Q", words=["FRACTAL_Q"], out=NC1HWC0),
    "no name": no(lp.repack, IMAGE, "", "NHWC", words=[]),
    "a letter twice": no(lp.repack, IMAGE, "NCHH", "NHWC", words=["NCHH", "H"]),
    "blocks of nothing": no(lp.repack, IMAGE, "NCHW", "NCHW0c", words=["NCHW0c"], out=NC1HWC0),
    "blocks of an axis that is not there": no(lp.repack, IMAGE, "NCHW", "NCHW16k", words=["NCHW16k"], out=NC1HWC0),
    "no string": no(lp.repack, IMAGE, 4, "NHWC", error=TypeError, words=["int|4"]),
    "an axis lost": no(lp.repack, IMAGE, "NCHW", "NHW", words=["NHW", "C", "20", "1"], out=((2, 3, 4), "f4")),
    "an axis lost in blocks": no(
        lp.to_nc1hwc0, zeros(2, 20, 5, 3, 4), src="NCDHW", words=["NC1HWC0", "D", "5", "1"], out=NC1HWC0
    ),
    "more axes than an array has": no(lp.to_fractal_nz, zeros(*(1,) * 63), words=["65", "64"]),
    "longer than the only block": no(
        lp.repack, IMAGE, "NCHW", ONE_BLOCK, words=["MINE", "C", "8", "20"], out=((2, 3, 4, 8), "f4")
    ),
    "no channels": no(lp.to_nc1hwc0, zeros(2, 3, 4), src="NHW", words=["C"], out=NC1HWC0),
}

BLOCKS = {
    "c0 of zero": no(lp.to_nc1hwc0, IMAGE, c0=0, words=["c0", "0"], out=NC1HWC0),
    "c0 below zero": no(lp.to_nc1hwc0, IMAGE, c0=-16, words=["c0", "-16"], out=NC1HWC0),
    "n0 of zero": no(lp.to_fractal_z, WEIGHT, n0=0, words=["n0", "0"], out=FZ),
    "m0 below zero": no(lp.to_fractal_nz, MATRIX, m0=-1, words=["m0", "-1"], out=NZ),
    "c0 of no integer": no(lp.to_nc1hwc0, IMAGE, c0=16.5, error=TypeError, words=["c0"], out=NC1HWC0),
    "c0 that plain orders have not": no(lp.repack, IMAGE, "NCHW", "NHWC", c0=16, words=["c0", "16"]),
    "n0 that images have not": no(lp.to_nc1hwc0, IMAGE, n0=16, words=["NC1HWC0", "n0", "16"], out=NC1HWC0),
    "c0 of text": no(lp.to_nc1hwc0, IMAGE, c0="16", error=TypeError, words=["c0"], out=NC1HWC0),
    "c0 beyond every memory": no(lp.to_nc1hwc0, IMAGE, c0=2**62, words=[], out=NC1HWC0),
    "c0 that the storage has not": no(
        lp.from_nc1hwc0, PACKED, channels=20, c0=8, words=["NC1HWC0", "c0", "8", "16"], out=NCHW
    ),
    "a pair with a wrong source": no(
        lp.repack, PACKED, "NC1HWC0", "NC1HWC0", channels=20, c0=(8, 16), words=["c0", "8", "16"], out=NC1HWC0
    ),
    "c0 that the name fixes": no(lp.to_nc1hwc0_c04, IMAGE, c0=16, words=["NC1HWC0_C04", "4", "16"]),
    "storage of another fixed c0": no(lp.from_nc1hwc0_c04, PACKED, channels=20, words=["NC1HWC0_C04", "4", "16"]),
    "storage of another tag": no(lp.repack, PACKED, "NCHW8c", "NCHW", shape=IMAGE.shape, words=["NCHW8c", "8", "16"]),
    "no default for 4 bits": no(lp.to_nc1hwc0, BYTES.view(ml_dtypes.int4), words=["int4", "c0"]),
    "no default for float8": no(lp.to_nc1hwc0, BYTES.view(ml_dtypes.float8_e5m2), words=["float8_e5m2", "c0"]),
    "no default for an output of float8": no(
        lp.to_nc1hwc0, IMAGE, dtype=ml_dtypes.float8_e4m3fn, words=["float8_e4m3fn", "c0"]
    ),
    "groups": no(lp.to_fractal_z, WEIGHT, groups=2, words=["groups", "2"], out=FZ),
    "groups of a volume": no(lp.to_fractal_z_3d, zeros(18, 20, 1, 3, 2), groups=3, words=["groups", "3"], out=FZ),
    "groups on the way back": no(
        lp.from_fractal_z, ROWS, shape=WEIGHT.shape, groups=2, words=["groups", "2"], out=(WEIGHT.shape, "f4")
    ),
    "groups by any pair": no(lp.repack, WEIGHT, "NCHW", "FRACTAL_Z", groups=9, words=["groups", "9"], out=FZ),
}

BACK = {
    "nothing said": no(lp.from_nc1hwc0, PACKED, error=TypeError, words=["NC1HWC0", "shape", "channels"]),
    "nothing said of a matrix": no(lp.from_fractal_nz, TILES, error=TypeError, words=["FRACTAL_NZ", "shape"]),
    "nothing said of weights": no(lp.from_fractal_z, ROWS, error=TypeError, words=["FRACTAL_Z", "shape"]),
    "nothing said between blocks": no(
        lp.repack, PACKED, "NC1HWC0", "NC1HWC0", c0=16, error=TypeError, words=["channels", "shape"], out=NC1HWC0
    ),
    "channels of one block less": no(lp.from_nc1hwc0, PACKED, channels=16, words=["NC1HWC0", "C", "16", "2"]),
    "channels of one block more": no(lp.from_nc1hwc0, PACKED, channels=33, words=["NC1HWC0", "C", "33", "2"]),
    "no channels": no(lp.from_nc1hwc0, PACKED, channels=0, words=["C", "0"]),
    "channels below zero": no(lp.from_nc1hwc0, PACKED, channels=-1, words=["-1"]),
    "channels of no integer": no(lp.from_nc1hwc0, PACKED, channels=20.5, error=TypeError, words=["channels"]),
    "channels of an empty storage": no(lp.from_nc1hwc0, zeros(2, 0, 3, 4, 16), channels=1, words=["C", "1", "0"]),
    "channels of a matrix": no(lp.from_fractal_nz, TILES, channels=20, error=BOTH, words=["FRACTAL_NZ", "channels"]),
    "channels of weights": no(lp.from_fractal_z, ROWS, channels=20, error=BOTH, words=["FRACTAL_Z", "shape"]),
    "a shape of another rank": no(lp.from_nc1hwc0, PACKED, shape=(20, 3, 4), words=["4", "(20, 3, 4)"], out=NCHW),
    "a shape of another width": no(lp.from_nc1hwc0, PACKED, shape=(2, 20, 3, 5), words=["NC1HWC0", "W", "5", "4"]),
    "a shape of another batch": no(lp.from_nc1hwc0, PACKED, shape=(3, 20, 3, 4), words=["NC1HWC0", "N", "3", "2"]),
    "a shape of other channels": no(lp.from_nc1hwc0, PACKED, shape=(2, 40, 3, 4), words=["NC1HWC0", "C", "40"]),
    "a shape in another order": no(lp.from_nc1hwc0, PACKED, shape=(2, 20, 3, 4), dst="NHWC", words=["NC1HWC0"]),
    "a shape below zero": no(lp.from_nc1hwc0, PACKED, shape=(2, -20, 3, 4), words=["-20"], out=NCHW),
    "a shape of no integers": no(lp.from_nc1hwc0, PACKED, shape="NCHW", error=TypeError, words=["shape"], out=NCHW),
    "a shape that the input has not": no(
        lp.to_nc1hwc0, IMAGE, shape=(2, 21, 3, 4), words=["C", "20", "21"], out=NC1HWC0
    ),
    "channels that the input has not": no(lp.to_nc1hwc0, IMAGE, channels=21, words=["C", "20", "21"], out=NC1HWC0),
    "shape and channels disagree": no(
        lp.from_nc1hwc0, PACKED, shape=(2, 20, 3, 4), channels=21, words=["20", "21"], out=NCHW
    ),
    "a matrix too high": no(lp.from_fractal_nz, TILES, shape=(33, 20), words=["FRACTAL_NZ", "33", "2"]),
    "a matrix too low": no(lp.from_fractal_nz, TILES, shape=(16, 20), words=["FRACTAL_NZ", "16", "2"]),
    "a matrix too wide": no(lp.from_fractal_nz, TILES, shape=(18, 33), words=["FRACTAL_NZ", "33", "2"]),
    "other leading axes": no(lp.from_fractal_nz, zeros(3, 2, 2, 16, 16), shape=(2, 18, 20), words=["3", "2"]),
    "rows that do not come out": no(lp.from_fractal_z, ROWS, shape=(18, 20, 3, 3), words=["FRACTAL_Z", "12", "18"]),
    "too many outputs": no(lp.from_fractal_z, ROWS, shape=(33, 20, 3, 2), words=["FRACTAL_Z", "N", "33"]),
    "too few outputs": no(lp.from_fractal_z, ROWS, shape=(16, 20, 3, 2), words=["FRACTAL_Z", "N", "16"]),
}

KEYWORDS = {
    "fill out of range": no(lp.to_nc1hwc0, BYTES, c0=16, fill=300, words=["fill", "300"], out=(PACKED.shape, "u1")),
    "fill of text": no(lp.to_nc1hwc0, IMAGE, fill="none", error=BOTH, words=["fill"], out=NC1HWC0),
    "fill of an object": no(lp.to_nc1hwc0, IMAGE, fill=object(), error=BOTH, words=["fill"], out=NC1HWC0),
    "fill of several": no(lp.to_nc1hwc0, IMAGE, fill=[1, 2], error=BOTH, words=["fill"], out=NC1HWC0),
    "a dtype of another kind": no(
        lp.to_nc1hwc0, IMAGE, dtype="i4", error=TypeError, words=["float32", "int32", "same_kind"]
    ),
    "casting that forbids": no(
        lp.to_nc1hwc0, IMAGE, dtype="f2", casting="safe", error=TypeError, words=["float32", "float16", "safe"]
    ),
    "casting on the way back": no(
        lp.from_nc1hwc0, PACKED, channels=20, dtype="u1", error=TypeError, words=["float32", "uint8", "same_kind"]
    ),
    "casting unknown": no(lp.to_nc1hwc0, IMAGE, dtype="f4", casting="maybe", words=["casting", "maybe"]),
    "a dtype of objects": no(lp.to_nc1hwc0, IMAGE, dtype=object, error=TypeError, words=["object"]),
    "no dtype": no(lp.to_nc1hwc0, IMAGE, dtype="float33", error=TypeError, words=["float33"]),
    "no threads": no(lp.to_nc1hwc0, IMAGE, threads=0, words=["threads", "0"], out=NC1HWC0),
    "threads of no integer": no(lp.to_nc1hwc0, IMAGE, threads=1.5, error=TypeError, words=["threads"], out=NC1HWC0),
    "an unknown keyword": no(lp.to_nc1hwc0, IMAGE, co=16, error=TypeError, words=["co"], out=NC1HWC0),
    "an unknown keyword of repack": no(lp.repack, IMAGE, "NCHW", "NHWC", co=16, error=TypeError, words=["co"]),
}

SIZES = {
    "elements beyond counting": no(lp.to_nc1hwc0, TOO_HUGE, c0=16, words=[]),
    "bytes beyond counting": no(lp.repack, TOO_HUGE.view("u1"), "NCHW", "NHWC", dtype="f8", words=[]),
    "more than any memory": no(lp.to_nc1hwc0, HUGE, error=MemoryError, words=[]),
    "more than any memory, unpacked": no(
        lp.from_nc1hwc0, HUGE[:, None].transpose(0, 1, 3, 4, 2), channels=16, error=MemoryError, words=[]
    ),
    "more than any memory, plain": no(lp.repack, HUGE, "NCHW", "NHWC", error=MemoryError, words=[]),
}

REFUSALS = {
    f"{group}: {name}": refusal
    for group, table in {
        "input": INPUTS,
        "rank": RANKS,
        "name": NAMES,
        "block": BLOCKS,
        "back": BACK,
        "keyword": KEYWORDS,
        "size": SIZES,
    }.items()
    for name, refusal in table.items()
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_refused(refusal):
    check(refusal)


WITH_OUT = {name: refusal for name, refusal in REFUSALS.items() if refusal.out}


@pytest.mark.parametrize("refusal", WITH_OUT.values(), ids=WITH_OUT)
def test_refused_before_out_is_written(refusal):
    shape, dtype = refusal.out
    target = Frame(shape, dtype, gaps=[3] * len(shape))
    check(refusal, out=target.array)
    assert (target.buffer == CANARY).all()


# ---------------------------------------------------------------------- out=


def plain(*shape, dtype="f4"):
    return np.full(shape, 7, dtype)


def read_only():
    out = plain(*PACKED.shape)
    out.flags.writeable = False
    return out


def windows(strides):
    """An out of the right shape with these element strides over a memory that is too small for it."""
    return as_strided(plain(4000), PACKED.shape, [4 * stride for stride in strides])


EXACT = ["(2, 2, 3, 4, 16)"]
TO, FROM = (lp.to_nc1hwc0, IMAGE), (lp.from_nc1hwc0, PACKED)

# What is wrong with out: the function and its input, how out is made, further keywords, the error and its words.
OUTS = {
    "another shape": (TO, lambda: plain(2, 2, 3, 5, 16), {}, ValueError, [*EXACT, "(2, 2, 3, 5, 16)"]),
    "the logical shape": (TO, lambda: plain(2, 20, 3, 4), {}, ValueError, [*EXACT, "(2, 20, 3, 4)"]),
    "one axis more": (TO, lambda: plain(1, *PACKED.shape), {}, ValueError, [*EXACT, "(1, 2, 2, 3, 4, 16)"]),
    "another block size": (TO, lambda: plain(2, 2, 3, 4, 16), {"c0": 10}, ValueError, ["(2, 2, 3, 4, 10)", *EXACT]),
    "no axes": (TO, lambda: plain(), {}, ValueError, [*EXACT, "()"]),
    "read-only": (TO, read_only, {}, ValueError, ["read-only|writeable"]),
    "zero strides": (TO, lambda: windows((0, 0, 0, 0, 0)), {}, ValueError, ["out", "overlap|share memory"]),
    "one zero stride": (TO, lambda: windows((192, 0, 64, 16, 1)), {}, ValueError, ["out", "overlap|share memory"]),
    "overlapping windows": (TO, lambda: windows((384, 192, 64, 8, 1)), {}, ValueError, ["out", "overlap|share memory"]),
    "equal strides": (TO, lambda: windows((384, 192, 64, 1, 1)), {}, ValueError, ["out", "overlap|share memory"]),
    "axes that meet": (TO, lambda: windows((400, 200, 60, 16, 1)), {}, ValueError, ["out", "overlap|share memory"]),
    "another kind": (
        *(TO, lambda: plain(*PACKED.shape, dtype="i4"), {}),
        *(TypeError, ["float32", "int32", "same_kind"]),
    ),
    "objects": (TO, lambda: plain(*PACKED.shape, dtype=object), {}, TypeError, ["object"]),
    "copy=None": (TO, lambda: plain(*PACKED.shape), {"copy": None}, TypeError, ["copy", "out"]),
    "copy=False": (TO, lambda: plain(*PACKED.shape), {"copy": False}, TypeError, ["copy", "out"]),
    "too many channels": (FROM, lambda: plain(2, 33, 3, 4), {}, ValueError, ["33", "2"]),
    "too few channels": (FROM, lambda: plain(2, 16, 3, 4), {}, ValueError, ["16", "2"]),
    "another image": (FROM, lambda: plain(2, 20, 4, 4), {}, ValueError, ["H", "4", "3"]),
    "other channels than said": (FROM, lambda: plain(*IMAGE.shape), {"channels": 21}, ValueError, ["20", "21"]),
    "another shape than said": (FROM, lambda: plain(2, 20, 3, 4), {"shape": (2, 19, 3, 4)}, ValueError, ["20", "19"]),
    "another order": (FROM, lambda: plain(2, 20, 3, 4), {"dst": "NHWC"}, ValueError, ["NC1HWC0"]),
}


@pytest.mark.parametrize(("call", "make", "keywords", "error", "words"), OUTS.values(), ids=OUTS)
def test_out_refused_unwritten(call, make, keywords, error, words):
    function, x = call
    out = make()
    before = out.tobytes() if out.dtype.kind != "O" else out.tolist()
    for form in (out, (out,)):
        check(no(function, x, error=error, words=words, out=None, **keywords), out=form)
    assert (out.tobytes() if out.dtype.kind != "O" else out.tolist()) == before


@pytest.mark.parametrize("out", ["buffer", [plain(*PACKED.shape)], (), (plain(*PACKED.shape),) * 2, bytearray(3072)])
def test_out_that_is_no_array(out):
    check(no(lp.to_nc1hwc0, IMAGE, error=BOTH, words=["out"]), out=out)


def test_no_earlier_call_excuses_a_wrong_type():
    """16.0 and True equal ints, so a cache of plans must not take them for 16 and 1."""
    for good, bad in ((16, 16.0), (1, True), (20, 20.0)):
        lp.to_nc1hwc0(IMAGE, c0=good)
        with pytest.raises(BOTH, match="c0"):
            lp.to_nc1hwc0(IMAGE, c0=bad)


def test_a_refused_out_can_be_used_after_all():
    out = plain(*PACKED.shape)
    with pytest.raises(ValueError, match="c0"):
        lp.to_nc1hwc0(IMAGE, out, c0=0)
    assert_same(lp.to_nc1hwc0(IMAGE, out), PACKED)


# ---------------------------------------------------------------------- lp.Format, lp.packed_shape, lp.default_c0

IMAGES, CUT = "N C H W", {"C": 16}

# Patterns that are wrong: logical, physical, blocks and what the message points at.
PATTERNS = {
    "never closed": (IMAGES, "N (C1 H W C0", CUT, "("),
    "never opened": (IMAGES, "N C1 H) W C0", CUT, ")"),
    "a group in a group": (IMAGES, "((N C1) H) W C0", CUT, "("),
    "an empty group": (IMAGES, "N () C1 H W C0", CUT, "("),
    "a strange character": (IMAGES, "N C1 H? W C0", CUT, "?"),
    "an axis forgotten": (IMAGES, "N C1 H C0", CUT, "W"),
    "an axis too many": (IMAGES, "N C1 H W K C0", CUT, "K"),
    "an axis twice": (IMAGES, "N C1 H H W C0", CUT, "H"),
    "a block twice": (IMAGES, "N C1 C1 H W C0", CUT, "C1"),
    "an inner index forgotten": (IMAGES, "N C1 H W", CUT, "C0"),
    "cut and whole": (IMAGES, "N C C1 H W C0", CUT, "C"),
    "not cut": (IMAGES, "N C H W", CUT, "C"),
    "cut without a size": (IMAGES, "N C1 H W C0", {}, "C"),
    "a level forgotten": (IMAGES, "N C2 C1 H W", {"C": (4, 4)}, "C0"),
    "a level too many": (IMAGES, "N C2 C1 H W C0", {"C": 16}, "C2"),
    "batch axes that the logical side has not": (IMAGES, "... N C1 H W C0", CUT, "..."),
    "batch axes lost": ("... H W", "H1 W H0", {"H": 4}, "..."),
    "nothing at all": (IMAGES, "", CUT, "N"),
}


@pytest.mark.parametrize(("logical", "physical", "blocks", "place"), PATTERNS.values(), ids=PATTERNS)
def test_bad_patterns(logical, physical, blocks, place):
    with pytest.raises(ValueError, match=re.escape(place)) as caught:
        lp.Format("MINE", logical=logical, physical=physical, blocks=blocks)
    assert any(f"\n    {pattern}\n" in str(caught.value) for pattern in (logical, physical))


@pytest.mark.parametrize("logical", ["N C C W", "N C1 H W", "(N C) H W", "N C H? W", "N C ... W", ""])
def test_bad_logical_sides(logical):
    with pytest.raises(ValueError, match=rf"(?s)MINE.*\n *{re.escape(logical)}\n *\^"):
        lp.Format("MINE", logical=logical, physical="N C1 H W C0", blocks=CUT)


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ({"C": 0}, ValueError),
        ({"C": -16}, ValueError),
        ({"C": "q0"}, ValueError),
        ({"C": 1.5}, TypeError),
        ({"C": (16, 0)}, ValueError),
        ({"C": ()}, ValueError),
        ({"C": 16, "K": 4}, ValueError),
    ],
)
def test_bad_block_sizes_of_a_format(blocks, error):
    axis = list(blocks)[-1]
    physical = "N C2 C1 H W C0" if blocks[axis] == (16, 0) else "N C1 H W C0"
    with pytest.raises(error, match=axis):
        lp.Format("MINE", logical=IMAGES, physical=physical, blocks=blocks)


FORMAT = lp.Format("MINE", logical=IMAGES, physical="N C1 H W C0", blocks={"C": "c0"})
HELPERS = {
    "neither c0 nor dtype": no(FORMAT.packed_shape, IMAGE.shape, error=TypeError, words=["MINE", "c0", "dtype"]),
    "index without either": no(FORMAT.index, (0, 0, 0, 0), IMAGE.shape, error=TypeError, words=["c0", "dtype"]),
    "packed_shape of another rank": no(FORMAT.packed_shape, (3, 4, 5), c0=16, words=["MINE", "4", "(3, 4, 5)"]),
    "packed_shape with c0 of zero": no(FORMAT.packed_shape, IMAGE.shape, c0=0, words=["c0", "0"]),
    "packed_shape below zero": no(FORMAT.packed_shape, (2, -20, 3, 4), c0=16, words=["-20"]),
    "the function, neither": no(lp.packed_shape, IMAGE.shape, "NC1HWC0", error=TypeError, words=["c0", "dtype"]),
    "the function, unknown": no(lp.packed_shape, IMAGE.shape, "NC1HWC1", c0=16, words=["NC1HWC1"]),
    "the function, a vector": no(lp.packed_shape, (5,), "FRACTAL_NZ", c0=16, words=["FRACTAL_NZ", "H W", "(5,)"]),
    "the function, no default": no(
        lp.packed_shape, IMAGE.shape, "NC1HWC0", dtype=ml_dtypes.float8_e4m3fn, words=["float8_e4m3fn", "c0"]
    ),
    "an unknown policy": no(lp.default_c0, "f4", policy="square", words=["policy", "square"]),
    **{
        f"no default for {name}": no(lp.default_c0, getattr(ml_dtypes, name), words=[name, "c0"])
        for name in ("int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn")
    },
}


@pytest.mark.parametrize("refusal", HELPERS.values(), ids=HELPERS)
def test_helpers_refuse(refusal):
    check(refusal)


def test_a_casting_rule_is_checked_even_where_nothing_is_cast():
    with pytest.raises(ValueError, match=r"casting.*bogus"):
        lp.to_nc1hwc0(IMAGE, casting="bogus")


def test_an_absurd_array_of_nothing():
    with pytest.raises(ValueError, match="too big"):
        lp.to_fractal_nz(np.zeros((0, 2**40, 2**20, 1), np.uint8))
