# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Between Python and the engine: calls that come again, fresh arrays, views, and what tells arrays apart."""

cimport cython
cimport numpy as cnp
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uintptr_t
from libc.string cimport memcmp

import numpy as np

from layoutpack import _threads

cnp.import_array()

ALIGNMENT = 64
"""Bytes: a fresh array starts on a border of so many, one cache line and the widest vector."""

# ---- calls that come again ----------------------------------------------------------------------------------------

cdef enum:
    RECALL_RANK = 8
    RECALL_SLOTS = 64


@cython.final
cdef class Call:
    """A call that was checked and ran: what decided about it, and what it ran."""

    cdef object program
    cdef object factors
    cdef ptrdiff_t chunks
    cdef tuple arguments
    cdef cnp.dtype dtype
    cdef cnp.dtype result
    # Of the array that a call makes.
    cdef tuple shape
    cdef tuple strides
    cdef object nbytes
    cdef int src_rank, dst_rank
    cdef ptrdiff_t src[2 * RECALL_RANK]
    cdef ptrdiff_t dst[2 * RECALL_RANK]


cdef list calls = [None] * RECALL_SLOTS
cdef int _MAX_THREADS = _threads.MAX_THREADS


cdef void describe(cnp.ndarray a, ptrdiff_t *shape) noexcept:
    cdef int i, rank = cnp.PyArray_NDIM(a)
    for i in range(rank):
        shape[2 * i], shape[2 * i + 1] = cnp.PyArray_DIM(a, i), cnp.PyArray_STRIDE(a, i)


cdef bint fits(cnp.ndarray a, cnp.dtype dtype, int rank, const ptrdiff_t *shape) noexcept:
    cdef int i
    if <void *> cnp.PyArray_DESCR(a) != <void *> dtype or cnp.PyArray_NDIM(a) != rank:
        return False
    for i in range(rank):
        if cnp.PyArray_DIM(a, i) != shape[2 * i] or cnp.PyArray_STRIDE(a, i) != shape[2 * i + 1]:
            return False
    return True


cdef bint same(object a, object b) noexcept:
    """Whether two arguments are the same and will stay so. 16.0 is not 16 here, and True is not 1."""
    cdef double x, y
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is int or type(a) is str:
        return a == b
    if type(a) is float:  # 0.0 is not -0.0 either
        x, y = a, b
        return memcmp(&x, &y, sizeof(double)) == 0
    return type(a) is tuple and all_same(a, b)


cdef bint all_same(tuple a, tuple b) noexcept:
    cdef Py_ssize_t i, n = len(a)
    if n != len(b):
        return False
    for i in range(n):
        if not same(a[i], b[i]):
            return False
    return True


cdef Py_ssize_t slot_of(cnp.ndarray x, tuple arguments) noexcept:
    cdef size_t h = <size_t> <void *> arguments[1] >> 4
    cdef int i
    for i in range(cnp.PyArray_NDIM(x)):
        h = h * 31 + <size_t> cnp.PyArray_DIM(x, i) + (<size_t> cnp.PyArray_STRIDE(x, i) >> 1)
    return (h ^ h >> 6 ^ h >> 12) % RECALL_SLOTS


cdef Call find(x, out, tuple arguments):
    if not cnp.PyArray_CheckExact(x) or not (out is None or cnp.PyArray_CheckExact(out)):
        return None
    cdef Call call = calls[slot_of(x, arguments)]
    if call is None or not fits(x, call.dtype, call.src_rank, call.src) or not all_same(arguments, call.arguments):
        return None
    if out is None:
        return call if call.dst_rank < 0 else None
    if not fits(out, call.result, call.dst_rank, call.dst) or not cnp.PyArray_ISWRITEABLE(out) or not disjoint(x, out):
        return None
    return call


def recall(x, out, tuple arguments not None, threads):
    """The result of such a call where it was made before, or None: then everything has to be checked.

    A service asks for the same conversion again and again, and checking takes 5 us: as long as moving 200 KB.
    """
    cdef Call call = find(x, out, arguments)
    if call is None:
        return None
    cdef object number = 1
    if threads is not None and not (type(threads) is int and 0 < threads <= _MAX_THREADS):
        threads = _threads.as_thread_count(threads)
    if call.chunks > 1:
        number = _threads.thread_number(call.nbytes, threads, call.chunks)
    if out is None:
        out = empty(call.shape, call.result, call.strides, call.nbytes)
    call.program.run(out, x, number, call.factors)
    return out


def remember(
    cnp.ndarray x not None, cnp.ndarray y not None, bint fresh, tuple arguments not None, conversion,
    program not None, factors=None,
):
    """Keep a call that made `y` of `x`, by itself (`fresh`) or where the caller wanted it; see `recall`.

    The arguments must be of types whose values cannot change.
    """
    cdef Call call = Call.__new__(Call)
    if not cnp.PyArray_CheckExact(x) or not (fresh or cnp.PyArray_CheckExact(y)):
        return
    if x.ndim > RECALL_RANK or (not fresh and y.ndim > RECALL_RANK):
        return
    call.program, call.arguments, call.factors = program, arguments, factors
    call.chunks = program.chunks
    call.shape, call.strides, call.nbytes = conversion.shape, conversion.strides, conversion.nbytes
    call.dtype, call.result = x.dtype, y.dtype
    call.src_rank = x.ndim
    describe(x, call.src)
    call.dst_rank = -1
    if not fresh:
        call.dst_rank = y.ndim
        describe(y, call.dst)
    calls[slot_of(x, arguments)] = call


# ---- arrays -------------------------------------------------------------------------------------------------------

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(
        object subtype, cnp.dtype descr, int nd, const cnp.npy_intp *dims, const cnp.npy_intp *strides,
        void *data, int flags, object obj)
    int PyArray_SetBaseObject(cnp.ndarray arr, object base) except -1

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef extern from *:
    bint __builtin_mul_overflow(ptrdiff_t a, ptrdiff_t b, ptrdiff_t *product) noexcept


def empty(tuple shape, cnp.dtype dtype not None, tuple strides, nbytes):
    """A fresh array on a 64-byte border: a slice of an array of NumPy's, so that tracemalloc sees it.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    strides : tuple of int
        Bytes, those of a dense array.
    nbytes : int
        What the array takes: the product of the shape and the item size.
    """
    if nbytes > PY_SSIZE_T_MAX - ALIGNMENT:
        raise ValueError(f"an array of shape {shape} and dtype {dtype} is too big")
    cdef cnp.npy_intp size = nbytes + ALIGNMENT - 1
    cdef cnp.ndarray base = cnp.PyArray_EMPTY(1, &size, cnp.NPY_UINT8, 0)
    cdef uintptr_t start = <uintptr_t> cnp.PyArray_DATA(base)
    try:
        return make(base, <char *> ((start + 63) & ~<uintptr_t> 63), dtype, shape, strides)
    except OverflowError:  # an array of nothing whose other axes are absurd
        raise ValueError(f"an array of shape {shape} and dtype {dtype} is too big") from None


def apart(cnp.ndarray a not None, cnp.ndarray b not None):
    """Whether the lowest and highest bytes of two arrays already show that they share none."""
    return disjoint(a, b)


cdef bint disjoint(cnp.ndarray a, cnp.ndarray b) noexcept:
    cdef ptrdiff_t a_low, a_high, b_low, b_high
    if not (bounds(a, &a_low, &a_high) and bounds(b, &b_low, &b_high)):
        return False
    cdef uintptr_t a_at = <uintptr_t> cnp.PyArray_DATA(a)
    cdef uintptr_t b_at = <uintptr_t> cnp.PyArray_DATA(b)
    return a_at + a_high <= b_at + b_low or b_at + b_high <= a_at + a_low


cdef bint bounds(cnp.ndarray a, ptrdiff_t *low, ptrdiff_t *high) noexcept:
    """Offsets of the first byte of an array and of the byte behind its last; False where an array is not real."""
    cdef int i
    cdef ptrdiff_t extent, reach
    low[0], high[0] = 0, cnp.PyArray_ITEMSIZE(a)
    for i in range(cnp.PyArray_NDIM(a)):
        extent = cnp.PyArray_DIM(a, i)
        if extent == 0:
            low[0] = high[0] = 0
            return True
        if extent == 1:
            continue
        if __builtin_mul_overflow(extent - 1, cnp.PyArray_STRIDE(a, i), &reach):
            return False
        if reach < 0:
            low[0] += reach
        else:
            high[0] += reach
    return True


def view(cnp.ndarray base not None, tuple shape, tuple strides):
    """A base-class array over the memory of `base`, from its first element on; writeable if `base` is."""
    return make(base, <char *> cnp.PyArray_DATA(base), base.dtype, shape, strides)


cdef object make(cnp.ndarray base, char *data, cnp.dtype dtype, tuple shape, tuple strides):
    cdef cnp.npy_intp dims[64]
    cdef cnp.npy_intp steps[64]
    cdef int i, nd = len(shape)
    if nd > 64:
        raise ValueError(f"an array has at most 64 axes, the result needs {nd}")
    for i in range(nd):
        dims[i] = shape[i]
        steps[i] = strides[i]
    Py_INCREF(dtype)  # NewFromDescr takes the reference
    array = PyArray_NewFromDescr(
        np.ndarray, dtype, nd, dims, steps, data, cnp.PyArray_FLAGS(base) & cnp.NPY_ARRAY_WRITEABLE, None)
    Py_INCREF(base)  # SetBaseObject takes this one
    PyArray_SetBaseObject(array, base)
    return array
