"""The functions as objects, plans, lp.Format and its table, block size policies, and the examples in the documents."""

import concurrent.futures
import doctest
import importlib
import inspect
import itertools
import pickle
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

import layoutpack as lp
import reference
from guard import Frame, assert_fresh, assert_same, counted, filled
from layoutpack.formats import as_format

STEMS = [
    *("nc1hwc0", "nc1hwc0_c04", "ndc1hwc0", "fractal_z", "fractal_z_3d"),
    *("fractal_nz", "fractal_zz", "fractal_zn", "fractal_nn"),
]
CONVERSIONS = ["repack", *(f"to_{stem}" for stem in STEMS), *(f"from_{stem}" for stem in STEMS)]
# Other functions of the interface that a user reads help() of.
HELPERS = [
    *("packed_shape", "default_c0", "plan", "is_contiguous", "is_channels_last", "is_strides_like_channels_last"),
    *("memory_formats", "suggest_memory_format", "channels_last_strides", "to_channels_last", "to_contiguous"),
    *("to_memory_format", "storage_order", "storage_offsets", "get_num_threads", "set_num_threads", "show_config"),
]

each_conversion = pytest.mark.parametrize("name", CONVERSIONS)

# ---------------------------------------------------------------------- attributes


@each_conversion
def test_attributes(name):
    function = getattr(lp, name)
    assert callable(function)
    assert (function.__name__, function.nin, function.nout) == (name, 1, 1)
    assert isinstance(function.signature, str)
    assert name in repr(function)


@pytest.mark.parametrize(
    ("stem", "logical", "packed"),
    [
        ("nc1hwc0", "(n,c,h,w)", "(n,c1,h,w,c0)"),
        ("nc1hwc0_c04", "(n,c,h,w)", "(n,c1,h,w,c0)"),
        ("ndc1hwc0", "(n,c,d,h,w)", "(n,d,c1,h,w,c0)"),
        ("fractal_nz", "(...,h,w)", "(...,w1,h1,h0,w0)"),
        ("fractal_zz", "(...,h,w)", "(...,h1,w1,h0,w0)"),
        ("fractal_zn", "(...,h,w)", "(...,h1,w1,w0,h0)"),
        ("fractal_nn", "(...,h,w)", "(...,w1,h1,w0,h0)"),
    ],
)
def test_signature_strings(stem, logical, packed):
    assert getattr(lp, f"to_{stem}").signature == f"{logical}->{packed}"
    assert getattr(lp, f"from_{stem}").signature == f"{packed}->{logical}"


@each_conversion
def test_python_signature(name):
    parameters = inspect.signature(getattr(lp, name)).parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    first = 3 if name == "repack" else 1
    assert kinds[:first] == [inspect.Parameter.POSITIONAL_ONLY] * first
    assert list(parameters)[first] == "out"
    assert kinds[first] is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert set(kinds[first + 1 :]) == {inspect.Parameter.KEYWORD_ONLY}
    defaults = {"fill": None, "dtype": None, "casting": "same_kind", "copy": True, "threads": None, "c0": None}
    for keyword, default in defaults.items():
        assert parameters[keyword].default == default
    assert name.startswith("to_") or {"shape", "channels"} <= set(parameters)


@pytest.mark.parametrize("stem", STEMS)
def test_natural_orders(stem):
    order = reference.NATURAL[stem.upper()]
    assert inspect.signature(getattr(lp, f"to_{stem}")).parameters["src"].default == order
    assert inspect.signature(getattr(lp, f"from_{stem}")).parameters["dst"].default == order


@each_conversion
@pytest.mark.parametrize("section", ["Parameters", "Returns", "Raises", "Examples"])
def test_docstring_sections(name, section):
    document = inspect.getdoc(getattr(lp, name))
    assert re.search(rf"^{section}\n-{{{len(section)}}}$", document, re.MULTILINE)


@each_conversion
def test_docstring_names_every_parameter(name):
    function = getattr(lp, name)
    document = inspect.getdoc(function)
    section = document.split("Parameters\n----------\n")[1].split("\n\nReturns\n")[0]
    described = {word for line in re.findall(r"^(\w.*?) ?:", section, re.MULTILINE) for word in line.split(", ")}
    assert described == set(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", HELPERS)
def test_helpers_are_documented(name):
    function = getattr(lp, name)
    assert function.__name__ == name
    assert len(inspect.getdoc(function)) > 20


@each_conversion
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_functions_pickle(name, protocol):
    function = getattr(lp, name)
    assert pickle.loads(pickle.dumps(function, protocol)) is function


# ---------------------------------------------------------------------- examples


def run(test):
    """The results of the examples of one doctest."""
    return doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)


@pytest.mark.parametrize("name", [*CONVERSIONS, "default_c0", "packed_shape", "plan", "Format"])
def test_examples_of_a_function(name):
    document = inspect.getdoc(getattr(lp, name))
    results = run(doctest.DocTestParser().get_doctest(document, {"lp": lp, "np": np}, name, None, None))
    assert results.failed == 0
    assert results.attempted > 0


def test_examples_of_the_modules():
    """Every module that is Python, except the one that runs the command line."""
    attempted = 0
    for found in pkgutil.walk_packages(lp.__path__, "layoutpack."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        if not module.__file__.endswith(".py"):
            continue
        for test in doctest.DocTestFinder().find(module, extraglobs={"lp": lp, "np": np}):
            results = run(test)
            assert results.failed == 0, test.name
            attempted += results.attempted
    assert attempted > 0


# ---------------------------------------------------------------------- plans

# Source, destination, input shape, keywords of the plan, order and logical shape of the array that is meant.
PLANS = {
    "pack": ("NCHW", "NC1HWC0", (2, 20, 3, 4), {}, "NCHW", (2, 20, 3, 4)),
    "pack from NHWC": ("NHWC", "NC1HWC0", (2, 3, 4, 20), {"c0": 8}, "NHWC", (2, 3, 4, 20)),
    "pack and fill": ("NCHW", "NC1HWC0", (2, 20, 3, 4), {"fill": 3}, "NCHW", (2, 20, 3, 4)),
    "unpack by shape": ("NC1HWC0", "NCHW", (2, 2, 3, 4, 16), {"logical_shape": (2, 20, 3, 4)}, "NCHW", (2, 20, 3, 4)),
    "unpack by channels": ("NC1HWC0", "NCHW", (2, 2, 3, 4, 16), {"channels": 20}, "NCHW", (2, 20, 3, 4)),
    "tiles": ("ND", "FRACTAL_NZ", (5, 20, 28), {"m0": 8}, "ND", (5, 20, 28)),
    "weights": ("OIHW", "FRACTAL_Z", (18, 20, 3, 2), {"n0": 5}, "OIHW", (18, 20, 3, 2)),
    "transpose": ("NCHW", "NHWC", (2, 20, 3, 4), {}, "NCHW", (2, 20, 3, 4)),
    "nothing to do": ("NHWC", "NHWC", (2, 3, 4, 20), {}, "NHWC", (2, 3, 4, 20)),
    "empty": ("NCHW", "NC1HWC0", (0, 20, 3, 4), {}, "NCHW", (0, 20, 3, 4)),
}


@pytest.fixture(params=PLANS.values(), ids=PLANS)
def planned(request):
    """A plan, an input for it and the result that is due."""
    src, dst, shape, keywords, order, logical = request.param
    x = filled(logical, "f4")
    edges = {name: keywords[name] for name in ("c0", "n0", "m0") if name in keywords}
    storage = reference.pack(x, src, order)
    assert storage.shape == shape
    return (
        lp.plan(src, dst, shape, "f4", **keywords),
        storage,
        reference.pack(x, dst, order, fill=keywords.get("fill"), **edges),
    )


def test_a_plan_is_reusable(planned):
    plan, x, expected = planned
    for _ in range(2):
        result = plan(x)
        assert_same(result, expected)
        assert_fresh(result, x)
    out = np.full_like(expected, np.nan)
    assert plan(x, out=out) is out
    assert_same(out, expected)


def test_a_plan_takes_any_strides(planned):
    plan, x, expected = planned
    orders = [None, range(x.ndim)[::-1], [*range(1, x.ndim), 0]]
    for order, flip, gap, shift in itertools.product(orders, [False, True], [0, 3], [0, 1]):
        source = Frame.of(x, order=order, flips=[flip] * x.ndim, gaps=[gap] * x.ndim, shift=shift)
        target = Frame(expected.shape, expected.dtype, flips=[flip] * expected.ndim, gaps=[3 - gap] * expected.ndim)
        assert_same(plan(source.array), expected)
        assert plan(source.array, out=target.array) is target.array
        assert_same(target.array, expected)
        assert target.intact()


def test_a_plan_pickles(planned):
    plan, x, expected = planned
    again = pickle.loads(pickle.dumps(plan))
    assert_same(again(x), expected)
    assert again.nbytes == plan.nbytes
    assert again.explain() == plan.explain()


def test_a_plan_explains_itself(planned):
    plan, _, expected = planned
    assert isinstance(plan.nbytes, int)
    assert plan.nbytes >= expected.nbytes
    assert isinstance(plan.explain(), str)
    for word in ("box", "thread", "streaming") if expected.size else ("thread",):
        assert word in plan.explain().lower()


def test_a_plan_serves_many_threads(planned):
    plan, x, expected = planned
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for result in pool.map(lambda _: plan(x), range(64)):
            assert_same(result, expected)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_large_plan_serves_many_threads(threads):
    inputs = [filled((1, 35, 100, 101 + extra), "u4")[..., :101] for extra in range(4)]  # equal shapes, other strides
    plan = lp.plan("NCHW", "NC1HWC0", (1, 35, 100, 101), "u4")
    with lp.threads(threads), concurrent.futures.ThreadPoolExecutor(4) as pool:
        for x, result in zip(inputs * 2, pool.map(plan, inputs * 2), strict=True):
            assert_same(result, reference.pack(x, "NC1HWC0", "NCHW"))


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "words"),
    [
        ((2, 20, 3, 5), "f4", ValueError, r"(?s)\(2, 20, 3, 4\).*\(2, 20, 3, 5\)|\(2, 20, 3, 5\).*\(2, 20, 3, 4\)"),
        ((20, 3, 4), "f4", ValueError, r"\(20, 3, 4\)"),
        ((2, 20, 3, 4, 1), "f4", ValueError, r"\(2, 20, 3, 4, 1\)"),
        ((2, 20, 3, 4), "f8", TypeError, "float64"),
        ((2, 20, 3, 4), "i4", TypeError, "int32"),
        ((2, 20, 3, 4), ">f4", TypeError, "f4"),
    ],
)
def test_a_plan_refuses_other_arrays(shape, dtype, error, words):
    plan = lp.plan("NCHW", "NC1HWC0", (2, 20, 3, 4), "f4")
    target = Frame((2, 2, 3, 4, 16), "f4")
    before = target.buffer.tobytes()
    for keywords in ({}, {"out": target.array}):
        with pytest.raises(error, match=words):
            plan(np.zeros(shape, dtype), **keywords)
    assert target.buffer.tobytes() == before


def test_a_plan_refuses_another_out():
    plan = lp.plan("NCHW", "NC1HWC0", (2, 20, 3, 4), "f4")
    with pytest.raises(ValueError, match=r"\(2, 2, 3, 4, 16\)"):
        plan(np.zeros((2, 20, 3, 4), "f4"), out=np.zeros((2, 2, 3, 4, 8), "f4"))


@pytest.mark.parametrize(
    ("arguments", "keywords", "error"),
    [
        (("NCHW", "NC1HWC0", (2, 20, 3), "f4"), {}, ValueError),
        (("NCHW", "NC1HWC0", (2, 20, 3, 4), object), {}, TypeError),
        (("NCHW", "NC1HWC0", (2, 20, 3, 4), "f4"), {"c0": 0}, ValueError),
        (("NCHW", "NC1HWC9", (2, 20, 3, 4), "f4"), {}, ValueError),
        (("NCHW", "NC1HWC0", (2, 20, 3, 4), ml_dtypes.int4), {}, ValueError),
        (("NC1HWC0", "NCHW", (2, 2, 3, 4, 16), "f4"), {}, TypeError),
        (("NC1HWC0", "NCHW", (2, 2, 3, 4, 16), "f4"), {"channels": 33}, ValueError),
        (("NC1HWC0", "NCHW", (2, 2, 3, 4, 16), "f4"), {"logical_shape": (2, 20, 3, 5)}, ValueError),
    ],
)
def test_plans_that_cannot_be(arguments, keywords, error):
    with pytest.raises(error):
        lp.plan(*arguments, **keywords)


# ---------------------------------------------------------------------- lp.FORMATS and lp.Format

ROWS = {
    "NC1HWC0": ("N C H W", "N C1 H W C0"),
    "NC1HWC0_C04": ("N C H W", "N C1 H W C0"),
    "NDC1HWC0": ("N C D H W", "N D C1 H W C0"),
    "FRACTAL_NZ": ("... H W", "... W1 H1 H0 W0"),
    "FRACTAL_ZZ": ("... H W", "... H1 W1 H0 W0"),
    "FRACTAL_ZN": ("... H W", "... H1 W1 W0 H0"),
    "FRACTAL_NN": ("... H W", "... W1 H1 W0 H0"),
    "FRACTAL_Z": ("N C H W", "(C1 H W) N1 N0 C0"),
    "FRACTAL_Z_3D": ("N C D H W", "(D C1 H W) N1 N0 C0"),
}
LOGICAL = {"N C H W": (18, 21, 2, 3), "N C D H W": (17, 5, 2, 1, 3), "... H W": (2, 18, 21)}


def test_the_table():
    assert isinstance(lp.FORMATS, Mapping)
    assert set(reference.FORMATS) - {"ND"} <= set(lp.FORMATS)
    for name, fmt in lp.FORMATS.items():
        assert isinstance(fmt, lp.Format)
        assert fmt.name == name
        assert isinstance(fmt.blocks, Mapping)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_shows_its_pattern(name):
    fmt = lp.FORMATS[name]
    assert (fmt.logical, fmt.physical) == ROWS[name]
    cut = {token[0] for token in re.findall(r"[A-Z]1", fmt.physical)}
    assert set(fmt.blocks) == cut


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("blocks", [{"c0": 16}, {"c0": 4}, {"dtype": "f4"}, {"dtype": "i1"}])
def test_packed_shape(name, blocks):
    logical = ROWS[name][0]
    fmt, shape = lp.FORMATS[name], LOGICAL[logical]
    if name == "NC1HWC0_C04" and blocks == {"c0": 16}:
        blocks = {}
    edges = {"c0": blocks.get("c0") or {"f4": 16, "i1": 32, None: 4}[blocks.get("dtype")]}
    expected = reference.packed_shape(name, reference.NATURAL[name], shape, **edges)
    for result in (fmt.packed_shape(shape, **blocks), lp.packed_shape(shape, name, **blocks)):
        assert result == expected
        assert isinstance(result, tuple)
        assert all(type(n) is int for n in result)


@pytest.mark.parametrize(
    ("shape", "fmt", "keywords", "expected"),
    [
        ((2, 2, 32, 32), "FRACTAL_Z", {"src": "HWCN", "dtype": "f2"}, (8, 2, 16, 16)),
        ((2, 2, 32, 32), "FRACTAL_Z", {"src": "HWCN", "dtype": "i1"}, (4, 2, 16, 32)),
        ((20, 28), "FRACTAL_NZ", {"dtype": "f2"}, (2, 2, 16, 16)),
        ((20, 28), "FRACTAL_NZ", {"dtype": "f4", "c0": 8, "m0": 4}, (4, 5, 4, 8)),
        ((20, 28), "FRACTAL_ZN", {"dtype": "i1", "n0": 8}, (1, 4, 8, 32)),
        ((7, 5, 3), "NC1HWC0", {"src": "CHW", "dtype": "f4"}, (1, 1, 5, 3, 16)),
        ((3, 7, 5), "NCHW4c", {"src": "HWC"}, (1, 2, 3, 7, 4)),
        ((2, 3, 4, 20), "nChw8c", {"src": "NHWC"}, (2, 3, 3, 4, 8)),
        ((40, 20, 3, 2), "OIHW16i16o", {}, (3, 2, 3, 2, 16, 16)),
        ((2, 3, 4, 20), "NCHW", {"src": "NHWC"}, (2, 20, 3, 4)),
        ((9, 2, 3, 4, 20), "NC1HWC0", {"src": "...NHWC", "dtype": "f4"}, (9, 2, 2, 3, 4, 16)),
        ((0, 0, 3, 4), "NC1HWC0", {"dtype": "f4"}, (0, 0, 3, 4, 16)),
    ],
)
def test_packed_shape_of_examples(shape, fmt, keywords, expected):
    assert lp.packed_shape(shape, fmt, **keywords) == expected


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("edges", [{"c0": 16}, {"c0": 4, "n0": 5, "m0": 7}])
def test_index_of_every_element(name, edges):
    fmt, shape = lp.FORMATS[name], LOGICAL[ROWS[name][0]]
    given = {edge: size for edge, size in edges.items() if edge in reference.BLOCKS.get(name, ())}
    for at in np.ndindex(shape):
        expected = reference.index(name, reference.NATURAL[name], at, shape, **given)
        assert tuple(fmt.index(at, shape, **given)) == expected


def test_index_points_at_the_element():
    x = counted((2, 21, 3, 4), "i4")
    packed = lp.to_nc1hwc0(x)
    fmt = lp.FORMATS["NC1HWC0"]
    for at in np.ndindex(x.shape):
        assert packed[fmt.index(at, x.shape, dtype=x.dtype)] == x[at]


def test_index_from_the_end_and_beyond_it():
    fmt, shape = lp.FORMATS["NC1HWC0"], (2, 21, 3, 4)
    assert fmt.index((-1, -1, -3, 0), shape, c0=16) == fmt.index((1, 20, 0, 0), shape, c0=16)
    for at in ((2, 0, 0, 0), (0, 21, 0, 0), (0, 0, -4, 0)):
        with pytest.raises(IndexError):
            fmt.index(at, shape, c0=16)
    with pytest.raises(ValueError, match="4"):
        fmt.index((0, 0, 0), shape, c0=16)


@pytest.mark.parametrize("name", ROWS)
def test_formats_pickle_and_compare(name):
    fmt = lp.FORMATS[name]
    again = pickle.loads(pickle.dumps(fmt))
    assert again == fmt
    assert hash(again) == hash(fmt)
    assert (again.name, again.logical, again.physical, again.blocks) == (name, fmt.logical, fmt.physical, fmt.blocks)
    assert name in repr(fmt)
    assert all(fmt != other for other in lp.FORMATS.values() if other.name != name)


def test_a_format_of_ones_own():
    fmt = lp.Format("MINE", logical="N C H W", physical="N C1 H W C0", blocks={"C": 16})
    assert (fmt.name, fmt.logical, fmt.physical, dict(fmt.blocks)) == ("MINE", "N C H W", "N C1 H W C0", {"C": 16})
    assert fmt.packed_shape((2, 20, 3, 4)) == (2, 2, 3, 4, 16)
    assert tuple(fmt.index((1, 17, 2, 3), (2, 20, 3, 4))) == (1, 1, 2, 3, 1)
    again = pickle.loads(pickle.dumps(fmt))
    x = counted((2, 20, 3, 4))
    assert_same(lp.repack(x, "NCHW", again), lp.to_nc1hwc0(x))
    assert_same(lp.repack(lp.to_nc1hwc0(x), fmt, "NCHW", channels=20), x)
    with pytest.raises(AttributeError):
        fmt.name = "YOURS"


@pytest.mark.parametrize("name", ["NC1HWC0", "FRACTAL_Z"])
def test_a_row_and_its_name_are_the_same(name):
    x = counted((18, 20, 3, 2))
    packed = lp.repack(x, "NCHW", lp.FORMATS[name])
    assert_same(packed, lp.repack(x, "NCHW", name))
    assert_same(lp.repack(packed, lp.FORMATS[name], "NHWC", shape=(18, 3, 2, 20)), x.transpose(0, 2, 3, 1))


# ---------------------------------------------------------------------- lp.default_c0


@pytest.mark.parametrize(
    ("dtype", "cube", "bytes32"),
    [
        ("i1", 32, 32),
        ("u1", 32, 32),
        ("?", 16, 32),
        ("i2", 16, 16),
        ("f2", 16, 16),
        (ml_dtypes.bfloat16, 16, 16),
        ("f4", 16, 8),
        (">f4", 16, 8),
        ("i8", 16, 4),
        ("f8", 16, 4),
        ("c16", 16, 2),
        ("M8[ns]", 16, 4),
        ("S5", 16, 6),
        ("V64", 16, 1),
        ("f4,f8", 16, 2),
    ],
    ids=str,
)
def test_default_c0(dtype, cube, bytes32):
    assert lp.default_c0(dtype) == lp.default_c0(dtype, policy="cube") == cube
    assert lp.default_c0(np.dtype(dtype), policy="bytes32") == bytes32


def test_a_call_imports_nothing():
    """A lazy import, of numpy.ma say, would cost the first call more than a thousand later ones."""
    code = """
        import sys, numpy as np, layoutpack as lp
        before = set(sys.modules)
        x = np.ones((2, 20, 3, 4), np.float32)
        y = lp.to_nc1hwc0(x)
        lp.to_nc1hwc0(x, out=y)
        lp.from_nc1hwc0(y, channels=20, out=np.empty_like(x))
        lp.to_channels_last(x)
        print(*sorted(set(sys.modules) - before))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


# ---------------------------------------------------------------------------------------------- batch axes before a tag


@pytest.mark.parametrize(
    ("src", "dst"), [("...NHWC", "...NCHW16c"), ("NHWC", "...NCHW16c"), ("...NHWC", "NCHW16c"), ("NHWC", "NCHW16c")]
)
def test_letters_of_a_tag_count_behind_dots(src, dst):
    x = counted((2, 3, 4, 20), "i2")
    packed = lp.repack(x, src, dst)
    assert_same(packed, lp.repack(x, "NHWC", "NCHW16c"))
    assert_same(lp.repack(packed, dst, src, shape=x.shape), x)


def test_batches_of_blocked_tensors():
    x = counted((3, 2, 20, 4, 5), "f4")
    packed = lp.repack(x, "...NCHW", "...NCHW8c")
    again = lp.repack(packed, "...NCHW8c", "...NCHW16c", shape=x.shape)
    for one, image in zip(again, x, strict=True):
        assert_same(np.ascontiguousarray(one), lp.repack(image, "NCHW", "NCHW16c"))
    tag = as_format("...NCHW8c")
    assert pickle.loads(pickle.dumps(tag)) == tag
    assert not pickle.loads(pickle.dumps(tag)).is_positional


# ---------------------------------------------------------------------------------------------- formats at the limit


@pytest.mark.parametrize(
    ("logical", "physical", "blocks", "shape"),
    [
        ("A", "A1 (A0)1 (A0)0", {"A": 2, "(A0)": 4}, (3,)),
        ("A B", "B1 A1 (A0 B0)1 (A0 B0)0", {"A": 2, "B": 2, "(A0 B0)": 8}, (2, 2)),
        ("N C H W", "N C1 H W1 (W0 C0)1 (W0 C0)0", {"C": 4, "W": 2, "(W0 C0)": 16}, (1, 4, 1, 2)),
    ],
)
def test_padding_that_belongs_to_no_axis_is_refused_and_read_over(logical, physical, blocks, shape):
    torn = lp.Format("TORN", logical, physical, blocks)
    x = counted(shape, "u1")
    out = np.full(torn.packed_shape(shape), 0xEE, np.uint8)
    with pytest.raises(ValueError, match="TORN: cannot be written"):
        lp.repack(x, logical.replace(" ", ""), torn, out)
    assert (out == 0xEE).all()
    for index in np.ndindex(shape):
        out[torn.index(index, shape)] = x[index]
    assert_same(lp.repack(out, torn, logical.replace(" ", ""), shape=shape), x)


@pytest.mark.parametrize("keyword", ["c0", "n0", "m0"])
def test_a_stored_block_size_is_never_assumed(keyword):
    fused = lp.Format("FUSED", "N C", "N (C0 C1)", {"C": keyword})
    x = counted((1, 32), "i4")
    packed = lp.repack(x, "NC", fused, **{keyword: 8})
    with pytest.raises(TypeError, match=f"FUSED.*{keyword}="):
        lp.repack(packed, fused, "NC", shape=(1, 32))
    assert_same(lp.repack(packed, fused, "NC", shape=(1, 32), **{keyword: 8}), x)


def test_a_format_cannot_be_changed():
    for change in (lambda: setattr(lp.FORMATS["NC1HWC0"], "name", "X"), lambda: delattr(lp.FORMATS["NC1HWC0"], "name")):
        with pytest.raises(AttributeError, match="immutable"):
            change()


@pytest.mark.parametrize("name", [*CONVERSIONS, "to_channels_last", "to_contiguous", "to_memory_format"])
def test_every_conversion_has_the_attributes_of_a_ufunc(name):
    function = getattr(lp, name)
    assert function.__signature__ == inspect.signature(function)
    assert (function.nin, function.nout) == (1, 1)
    assert "->" in function.signature
