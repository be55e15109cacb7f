"""Files that nobody should trust: drawn and mutated .npy files through the command line; and results kept in files."""

import contextlib
import io
import os
import pickle
import resource
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import layoutpack as lp
import reference
from guard import assert_same, counted
from layoutpack._cli import main

# ---------------------------------------------------------------------- hostile files

DESCRIPTIONS = [
    *("'<f4'", "'|u1'", "'>i2'", "'<U2'", "'|V3'", "'<M8[s]'", "'<M8[999s]'", "[('a', '<i2'), ('b', '|S3')]"),
    *("'|O'", "[('a', '|O')]", "[('a', [('b', '|O', (2,))])]", "'|V0'", "'|S0'", "('<f4', (2,))", "'|V99999999999'"),
    *("'f4,('", "'\\q'", "'é'", "3", "None", "'<f4', 'more': 1", "'<f4', 'descr': '|O'", "__import__('os')"),
]
LENGTHS = ["0", "1", "2", "3", "16", "17", "-1", "2L", "1.5", "True", f"{2**31}", f"{2**62}", f"{2**64}"]
ORDINARY = LENGTHS[:6]


class Bomb:
    """Leaves a folder behind where it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


@st.composite
def npy_files(draw):
    """A file that is right in most places, or nearly."""
    lengths = draw(st.lists(st.sampled_from(draw(st.sampled_from([ORDINARY, LENGTHS]))), max_size=6))
    shape = draw(st.sampled_from(["({},)", "({})", "[{}]", "{}"])).format(", ".join(lengths))
    order = draw(st.sampled_from(["True", "False", "0"]))
    text = f"{{'descr': {draw(st.sampled_from(DESCRIPTIONS))}, 'fortran_order': {order}, 'shape': {shape}, }}"
    text += " " * draw(st.sampled_from([0, 1, 13, 70_000])) + draw(st.sampled_from(["\n", "", "\0"]))
    header = text.encode(draw(st.sampled_from(["utf-8", "latin-1"])))
    version = draw(st.sampled_from([1, 1, 1, 2, 3, 0, 9]))
    size = max(len(header) + draw(st.sampled_from([0, 0, 0, 0, -1, 1, 7, -80, 10**9])), 0)
    width = 2 if version == 1 else 4
    data = draw(st.sampled_from([bytes(400), bytes(range(256)), b"", pickle.dumps(Bomb()), pickle.dumps([Bomb()] * 9)]))
    head = b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(8, "little")[:width]
    content = bytearray(head + header + data)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2, 5]))):
        place = draw(st.integers(0, len(head) + 120))
        content[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(content[: draw(st.integers(0, len(content)))] if draw(st.sampled_from([0, 0, 0, 1])) else content)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An empty folder to be in, and not more than 1 GiB of memory to be had."""
    path = tmp_path_factory.mktemp("files")
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 30), hard))
    with contextlib.chdir(path):
        yield path
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run(*argv):
    """Exit code, stdout and stderr of the command line, which must not warn: a warning would be more lines."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        code = main(list(argv))
    assert not caught, caught[0].message
    return code, out.getvalue(), err.getvalue()


CONVERSIONS = ["NCHW NHWC", "NCHW NC1HWC0 --c0 16", "AB BA", "ND FRACTAL_NZ --c0 16", "A A"]


PYTHON_2 = b"\x93NUMPY\1\0\x3a\0{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }\n" + bytes(8)


@example(content=PYTHON_2, conversion="A A")
@given(content=npy_files(), conversion=st.sampled_from(CONVERSIONS))
def test_any_file(folder, content, conversion):
    """It is read or refused in one line; nothing is unpickled, and no output is begun that is not finished."""
    source, target = folder / "x.npy", folder / "y.npy"
    target.unlink(missing_ok=True)
    source.write_bytes(content)
    src, dst, *options = conversion.split()
    for command in ("info x.npy", "verify x.npy", f"convert x.npy y.npy --from {src} --to {dst} {' '.join(options)}"):
        code, out, err = run(*command.split())
        if code == 0:
            assert (err, bool(out)) == ("", True)
        elif "FAILED" in out:  # a format of several that does not fit
            assert (code, err, command) == (1, "", "verify x.npy")
        else:
            assert (code, out, err.count("\n")) == (1, "", 1)
            assert err.startswith("layoutpack: error: ")
    assert source.read_bytes() == content
    if code == 0:
        np.load(target, allow_pickle=False)
    assert {path.name for path in folder.iterdir()} == {"x.npy", "y.npy"} - ({"y.npy"} if code else set())


# ---------------------------------------------------------------------- results in files


@pytest.mark.parametrize("dst", ["NHWC", "CHWN", "NC1HWC0", "FRACTAL_Z", "nChw4c"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_converted_file_holds_its_elements_in_logical_order_safetensors_826(dst, version, order, tmp_path):
    x = np.asarray(counted((1, 2, 3, 4)), order=order)
    source, target = tmp_path / "x.npy", tmp_path / "y.npy"
    with open(source, "wb") as file:
        np.lib.format.write_array(file, x, version)
    assert run("convert", str(source), str(target), "--from", "NCHW", "--to", dst)[0] == 0
    expected = reference.pack(x, dst, "NCHW")
    assert_same(np.load(target), expected)
    assert target.read_bytes().endswith(expected.tobytes())


VIEWS = {
    "dense": lambda x: x,
    "Fortran order": np.asfortranarray,
    "flipped": lambda x: x[:, ::-1, :, ::-1],
    "stepped": lambda x: x[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[:1], (3, *x.shape[1:])),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_results_are_safe_to_save_safetensors_826(view, tmp_path):
    """safetensors saves the memory of an array as it lies, strides or not; results lie as they are read."""
    safetensors = pytest.importorskip("safetensors.numpy")
    x = view(counted((2, 5, 3, 4)))
    results = {dst: lp.repack(x, "NCHW", dst) for dst in ("NCHW", "NHWC", "NC1HWC0", "FRACTAL_Z")}
    results["back"] = lp.from_nc1hwc0(results["NC1HWC0"], channels=x.shape[1])
    results["contiguous"] = lp.to_contiguous(lp.to_channels_last(x))
    path = tmp_path / "x.safetensors"
    safetensors.save_file(results, path)
    loaded = safetensors.load_file(path)
    for name, result in results.items():
        assert_same(loaded[name], result)
        expected = x if name in ("back", "contiguous") else reference.pack(x, name, "NCHW")
        assert_same(loaded[name], np.ascontiguousarray(expected))
