"""One conversion in every library that has one: layoutpack, NumPy, PyTorch, OpenCV, ONNX Runtime and oneDNN.

A conversion is described once, as what NumPy users write today (pad, reshape, transpose, reshape, crop), and each rival
gets it in its own terms, with a kept output. What a library cannot do, or is not installed, is None.
"""

import ctypes
import ctypes.util
import functools
import importlib.util
import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import layoutpack as lp


class Case(NamedTuple):
    """A conversion: two formats, a dtype and the logical shape (N C H W, N C W, or matrices)."""

    src: str
    dst: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self):
        return f"{self.src} -> {self.dst} {self.dtype} {'x'.join(map(str, self.shape))}"


class Moves(NamedTuple):
    """Pad to `padded`, view as `split`, transpose by `perm`, view as `merged`, crop to `out`."""

    inp: tuple[int, ...]
    padded: tuple[int, ...]
    split: tuple[int, ...]
    perm: tuple[int, ...]
    merged: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def pure(self):
        """Whether elements only change places."""
        return self.padded == self.inp and self.out == self.merged

    @property
    def matrices(self):
        """The same as a batch of matrix transpositions (batch, rows, columns), or None."""
        if self.perm == (1, 0):
            return 1, *self.split
        lead = 0
        while lead < len(self.perm) and self.perm[lead] == lead:
            lead += 1
        rest = [p - lead for p in self.perm[lead:]]
        n = len(rest)
        for k in range(1, n):
            if rest == [*range(k, n), *range(k)]:
                s = self.split
                return math.prod(s[:lead]), math.prod(s[lead : lead + k]), math.prod(s[lead + k :])
        return None


def moves(case):
    """The description of a case."""
    c0 = lp.default_c0(case.dtype)
    shape, pair = case.shape, (case.src, case.dst)
    if "FRACTAL_NZ" in pair:
        *lead, h, w = shape
        k, h1, w1 = len(lead), -(-h // 16), -(-w // c0)
        batch = tuple(range(k))
        stored = (*lead, w1, h1, 16, c0)
        padded, split = (*lead, h1 * 16, w1 * c0), (*lead, h1, 16, w1, c0)
        if case.dst == "FRACTAL_NZ":
            return Moves(shape, padded, split, (*batch, k + 2, k, k + 1, k + 3), stored, stored)
        return Moves(stored, stored, stored, (*batch, k + 1, k + 2, k, k + 3), padded, shape)
    n, c, *space = shape
    s = len(space)
    axes = tuple(range(2, 2 + s))
    c1, n1 = -(-c // c0), -(-n // 16)
    whole, last, five = (n, c1 * c0, *space), (n, *space, c), (n, c1, *space, c0)
    if pair in (("NCHW", "NHWC"), ("NCW", "NWC")):
        return Moves(shape, shape, shape, (0, *axes, 1), last, last)
    if pair == ("NHWC", "NCHW"):
        return Moves(last, last, last, (0, s + 1, *range(1, s + 1)), shape, shape)
    if pair == ("NCHW", "NC1HWC0"):
        return Moves(shape, whole, (n, c1, c0, *space), (0, 1, *range(3, 3 + s), 2), five, five)
    if pair == ("NC1HWC0", "NCHW"):
        return Moves(five, five, five, (0, 1, s + 2, *axes), whole, shape)
    if pair == ("NHWC", "NC1HWC0"):
        split = (n, *space, c1, c0)
        return Moves(last, (n, *space, c1 * c0), split, (0, s + 1, *range(1, s + 1), s + 2), five, five)
    if pair == ("NC1HWC0", "NHWC"):
        return Moves(five, five, five, (0, *axes, 1, s + 2), (n, *space, c1 * c0), last)
    weights, blocks = (n1 * 16, c1 * c0, *space), (n1, 16, c1, c0, *space)
    if pair == ("NCHW", "FRACTAL_Z"):
        stored = (c1 * math.prod(space), n1, 16, c0)
        return Moves(shape, weights, blocks, (2, 4, 5, 0, 1, 3), stored, stored)
    if pair == ("FRACTAL_Z", "NCHW"):
        stored = (c1 * math.prod(space), n1, 16, c0)
        return Moves(stored, stored, (c1, *space, n1, 16, c0), (3, 4, 0, 5, 1, 2), weights, shape)
    if pair == ("OIHW", "OIHW16i16o"):
        stored = (n1, c1, *space, 16, 16)
        return Moves(shape, weights, blocks, (0, 2, 4, 5, 3, 1), stored, stored)
    raise KeyError(pair)


def aligned(shape, dtype, offset):
    """A touched array that starts `offset` bytes behind a 64-byte border."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.ones(size + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    return room[start : start + size].view(dtype).reshape(shape)


def crop(shape):
    return tuple(slice(0, n) for n in shape)


def reference(x, m):
    """The result, as users write it in NumPy."""
    whole = x
    if m.padded != m.inp:
        whole = np.zeros(m.padded, x.dtype)
        whole[crop(m.inp)] = x
    return np.ascontiguousarray(whole.reshape(m.split).transpose(m.perm).reshape(m.merged)[crop(m.out)])


def run_layoutpack(case, m, x, out, threads):
    keywords = {"shape": case.shape} if case.dst in ("NCHW", "ND") else {"shape": m.out} if case.dst == "NHWC" else {}
    return lambda: lp.repack(x, case.src, case.dst, out=out, threads=threads, **keywords)


def run_numpy(case, m, x, out, threads):
    if threads > 1:
        return None
    if m.out != m.merged:
        view = x.reshape(m.split).transpose(m.perm)
        return lambda: np.copyto(out, view.reshape(m.merged)[crop(m.out)])
    target = out.reshape([m.split[p] for p in m.perm])
    if m.padded == m.inp:
        view = x.reshape(m.split).transpose(m.perm)
        return lambda: np.copyto(target, view)
    whole = np.zeros(m.padded, x.dtype)
    inner, view = whole[crop(m.inp)], whole.reshape(m.split).transpose(m.perm)

    def run():
        np.copyto(inner, x)
        np.copyto(target, view)

    return run


def run_torch(case, m, x, out, threads):
    import torch

    a, o = torch.from_numpy(x), torch.from_numpy(out)
    whole = a if m.padded == m.inp else torch.zeros(m.padded, dtype=a.dtype)
    inner = whole[crop(m.inp)]
    view = whole.view(m.split).permute(m.perm)
    between = torch.empty(view.shape, dtype=a.dtype) if m.out != m.merged else None

    def run():
        torch.set_num_threads(threads)
        if whole is not a:
            inner.copy_(a)
        if between is None:
            o.view(view.shape).copy_(view)
        else:
            between.copy_(view)
            o.copy_(between.view(m.merged)[crop(m.out)])

    return run


def run_opencv(case, m, x, out, threads):
    import cv2

    if case.dtype == "float16" or not m.pure or m.matrices is None:
        return None
    batch, rows, columns = m.matrices
    a, o = x.reshape(batch, rows, columns), out.reshape(batch, columns, rows)
    if rows == 3 and len(case.shape) == 4:
        planes = [list(a[i].reshape(3, *case.shape[2:])) for i in range(batch)]
        images = o.reshape(batch, *case.shape[2:], 3)
        body = [lambda i=i: cv2.merge(planes[i], images[i]) for i in range(batch)]
    elif columns == 3 and len(case.shape) == 4:
        images = a.reshape(batch, *case.shape[2:], 3)
        planes = [list(o[i].reshape(3, *case.shape[2:])) for i in range(batch)]
        body = [lambda i=i: cv2.split(images[i], planes[i]) for i in range(batch)]
    else:
        body = [lambda i=i: cv2.transpose(a[i], o[i]) for i in range(batch)]

    def run():
        cv2.setNumThreads(threads)
        for part in body:
            part()

    return run


def run_onnxruntime(case, m, x, out, threads):
    import onnxruntime
    from onnx import TensorProto, helper

    if not m.pure:
        return None
    kind = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "uint8": TensorProto.UINT8}[case.dtype]
    result = [m.split[p] for p in m.perm]
    graph = helper.make_graph(
        [helper.make_node("Transpose", ["x"], ["y"], perm=list(m.perm))],
        "conversion",
        [helper.make_tensor_value_info("x", kind, m.split)],
        [helper.make_tensor_value_info("y", kind, result)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, x.dtype, list(m.split), x.ctypes.data)
    binding.bind_output("y", "cpu", 0, out.dtype, result, out.ctypes.data)
    return lambda: session.run_with_iobinding(binding)


class OneDNN:
    """oneDNN's reorder through its C interface (version 3)."""

    TYPES = {"float32": 3, "float16": 2, "uint8": 6}

    def __init__(self):
        # The wheel puts it beside Python; else it is where the system keeps its libraries.
        found = [str(path) for path in sorted((Path(sys.prefix) / "lib").glob("libdnnl.so*"))]
        name = found[0] if found else ctypes.util.find_library("dnnl")
        if name is None:
            raise ImportError("libdnnl")
        self.dnnl = ctypes.CDLL(name)
        self.openmp = ctypes.CDLL("libgomp.so.1")
        self.dnnl.dnnl_fmt_tag2str.restype = ctypes.c_char_p
        self.tags = {self.dnnl.dnnl_fmt_tag2str(i).decode(): i for i in range(2, 1200)}
        self.engine, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("dnnl_engine_create", ctypes.byref(self.engine), 1, ctypes.c_size_t(0))
        self.call("dnnl_stream_create", ctypes.byref(self.stream), self.engine, 1)

    def call(self, name, *arguments):
        if status := getattr(self.dnnl, name)(*arguments):
            raise RuntimeError(f"{name} returned {status}")

    def by_tag(self, shape, dtype, tag):
        d, dims = ctypes.c_void_p(), (ctypes.c_int64 * len(shape))(*shape)
        self.call(
            "dnnl_memory_desc_create_with_tag", ctypes.byref(d), len(shape), dims, self.TYPES[dtype], self.tags[tag]
        )
        return d

    def by_strides(self, shape, dtype, strides):
        d, kind = ctypes.c_void_p(), ctypes.c_int64 * len(shape)
        made = "dnnl_memory_desc_create_with_strides"
        self.call(made, ctypes.byref(d), len(shape), kind(*shape), self.TYPES[dtype], kind(*strides))
        return d

    def sides(self, case, m):
        """Descriptors of both sides: by the tags of its own fast paths, else by strides."""
        c0, rank = lp.default_c0(case.dtype), len(case.shape)
        plain, last = "abcdef"[:rank], "a" + "cdef"[: rank - 2] + "b"
        block = "aB" + "cdef"[: rank - 2] + f"{c0}b"
        tags = {
            "NCHW": plain,
            "NHWC": last,
            "NCW": plain,
            "NWC": last,
            "NC1HWC0": block,
            "ND": plain,
            "FRACTAL_NZ": f"BA16a{c0}b" if rank == 2 else f"aCB16b{c0}c",
            "OIHW": plain,
            "OIHW16i16o": "ABcd16b16a",
        }
        if {case.src, case.dst} <= set(tags) and {tags[case.src], tags[case.dst]} <= set(self.tags):
            return tuple(self.by_tag(case.shape, case.dtype, tags[f]) for f in (case.src, case.dst))
        if not m.pure:
            return None
        size = m.split
        src = [math.prod(size[i + 1 :]) for i in range(len(size))]
        dst = [math.prod(size[p] for p in m.perm[m.perm.index(i) + 1 :]) for i in range(len(size))]
        return self.by_strides(size, case.dtype, src), self.by_strides(size, case.dtype, dst)

    def make(self, case, m, x, out, threads):
        self.openmp.omp_set_num_threads(threads)
        try:
            sides = self.sides(case, m)
            if sides is None:
                return None
            description, primitive = ctypes.c_void_p(), ctypes.c_void_p()
            made = "dnnl_reorder_primitive_desc_create"
            self.call(made, ctypes.byref(description), sides[0], self.engine, sides[1], self.engine, None)
            self.call("dnnl_primitive_create", ctypes.byref(primitive), description)
        except RuntimeError:
            return None
        memories = [ctypes.c_void_p(), ctypes.c_void_p()]
        for memory, side, array in zip(memories, sides, (x, out), strict=True):
            data = ctypes.c_void_p(array.ctypes.data)
            self.call("dnnl_memory_create", ctypes.byref(memory), side, self.engine, data)

        class Argument(ctypes.Structure):
            _fields_ = [("number", ctypes.c_int), ("memory", ctypes.c_void_p)]

        arguments = (Argument * 2)(Argument(1, memories[0]), Argument(17, memories[1]))

        def run():
            self.openmp.omp_set_num_threads(threads)
            self.dnnl.dnnl_primitive_execute(primitive, self.stream, 2, arguments)
            self.dnnl.dnnl_stream_wait(self.stream)

        return run


@functools.cache
def onednn():
    return OneDNN()


def run_onednn(case, m, x, out, threads):
    return onednn().make(case, m, x, out, threads)


RUNS = {
    "layoutpack": run_layoutpack,
    "numpy": run_numpy,
    "torch": run_torch,
    "opencv": run_opencv,
    "onnxruntime": run_onnxruntime,
    "onednn": run_onednn,
}
MODULES = {"torch": "torch", "opencv": "cv2", "onnxruntime": "onnx"}


def installed(library):
    """Whether a library can take part."""
    if library in MODULES and importlib.util.find_spec(MODULES[library]) is None:
        return False
    try:
        return library != "onednn" or bool(onednn())
    except (ImportError, OSError, AttributeError):
        return False


LIBRARIES = [library for library in RUNS if installed(library)]


class Run:
    """A case, its arrays, and its run in one library; `make` returns None where there is none.

    With `check`, the arrays hold random values and every library is held to NumPy's result first.
    """

    def __init__(self, case, offset=16, check=False):
        self.case, self.moves, self.want = case, moves(case), None
        self.x = aligned(self.moves.inp, case.dtype, offset)
        self.out = aligned(self.moves.out, case.dtype, offset)
        if check:
            # No subnormals among the values: oneDNN flushes those of 16 bits to zero.
            every_byte = self.x.view(np.uint8)
            every_byte[...] = np.random.default_rng(0).integers(4, 120, every_byte.shape, np.uint8)
            self.want = reference(self.x, self.moves)

    def make(self, library, threads=1):
        run = RUNS[library](self.case, self.moves, self.x, self.out, threads)
        if run is None or self.want is None:
            return run
        self.out[...] = 1
        run()
        if np.array_equal(self.out.view(np.uint8), self.want.view(np.uint8)):
            return run
        if library == "layoutpack":
            raise AssertionError(f"{self.case}: wrong result")
        return None

    def make_fresh(self):
        """layoutpack and NumPy as users write them, on one thread: every call makes a new result."""
        return {
            "layoutpack": run_layoutpack(self.case, self.moves, self.x, None, 1),
            "numpy": lambda: reference(self.x, self.moves),
        }
