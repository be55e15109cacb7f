"""Arrays in awkward memory, and the checks on results that several test files share."""

import ctypes
import mmap

import numpy as np

from reference import to_bytes

CANARY = 0xA5
MARGIN = 64

# ---------------------------------------------------------------------- arrays


def filled(shape, dtype):
    """Reproducible random bytes as an array of the dtype, any dtype without references."""
    dtype = np.dtype(dtype)
    raw = np.random.default_rng([*shape, dtype.itemsize]).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    if dtype.kind == "b":
        raw &= 1
    return np.ndarray(shape, dtype, raw.data if raw.size else bytearray(64))


def counted(shape, dtype="f4"):
    """1, 2, 3, ... in index order: no element is zero, all differ while the dtype can hold them."""
    return (np.arange(np.prod(shape, dtype=int)) + 1).astype(dtype).reshape(shape)


class Frame:
    """An array with chosen strides in a buffer of canary bytes, which lie around it and in the gaps of its strides.

    `order` lists the axes from the slowest to the fastest, `gaps` the free bytes added to the stride of each axis,
    `flips` the axes that run backwards, `shift` the bytes by which it is moved. Any gap or shift that is no multiple of
    the item size gives unaligned elements.

    With `pages`, "start" or "end", the array begins or ends, but for `shift`, at a page that cannot be touched.
    """

    def __init__(self, shape, dtype, *, order=None, gaps=None, flips=None, shift=0, pages=None):
        ndim, itemsize = len(shape), np.dtype(dtype).itemsize
        gaps, flips = gaps or [0] * ndim, flips or [False] * ndim
        below = {None: MARGIN + shift, "start": shift, "end": 0}[pages]
        above = {None: MARGIN, "start": 0, "end": shift}[pages]
        strides, offset, pitch, span = [0] * ndim, below, itemsize, itemsize
        for axis in reversed(range(ndim) if order is None else order):
            pitch += gaps[axis]
            strides[axis] = -pitch if flips[axis] else pitch
            offset += pitch * (shape[axis] - 1) if flips[axis] and shape[axis] else 0
            span += pitch * max(shape[axis] - 1, 0)
            pitch *= max(shape[axis], 1)
        size = below + span + above
        self.buffer = np.empty(size, np.uint8) if pages is None else page_guarded((size,), np.uint8, at=pages)
        self.buffer[...] = CANARY
        self._place = (offset, tuple(strides))
        self.array = np.ndarray(shape, dtype, self.buffer, offset, tuple(strides))
        self.bytes = self._bytes(self.buffer)

    def _bytes(self, buffer):
        offset, strides = self._place
        itemsize = self.array.dtype.itemsize
        return np.ndarray((*self.array.shape, itemsize), np.uint8, buffer, offset, (*strides, 1))

    @classmethod
    def of(cls, x, **layout):
        """A copy of x in such a frame."""
        frame = cls(x.shape, x.dtype, **layout)
        frame.bytes[...] = to_bytes(x)
        return frame

    def intact(self):
        """Whether every byte of the buffer that belongs to no element is still a canary."""
        rest = self.buffer.copy()
        self._bytes(rest)[...] = CANARY
        return bool((rest == CANARY).all())

    def protect(self):
        """Let a write to the array kill the process from now on. NumPy still takes it for writeable."""
        outside = self.buffer.ctypes.data % mmap.PAGESIZE
        _protect(self.buffer, -outside, outside + self.buffer.size, _PROT_READ)
        return self


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PROT_NONE, _PROT_READ = 0, 1


def _protect(memory, start, size, access):
    """Let the pages of that part of memory be read only, or not touched at all."""
    if _libc.mprotect(memory.ctypes.data + start, size, access):
        raise OSError(ctypes.get_errno(), "mprotect")


def page_guarded(shape, dtype, *, at="end", strides=None):
    """A zero array in memory of its own between two pages that cannot be touched.

    The bytes its strides span end exactly where the upper page starts (at="end") or begin exactly where the lower one
    ends (at="start"), so one byte read or written too far kills the process.
    """
    dtype, page = np.dtype(dtype), mmap.PAGESIZE
    strides = np.empty(shape, dtype).strides if strides is None else strides
    reach = [stride * (n - 1) for n, stride in zip(shape, strides, strict=True)] if 0 not in shape else []
    below, above = -sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    span = below + above + dtype.itemsize
    room = -(-span // page) * page
    memory = np.frombuffer(mmap.mmap(-1, room + 2 * page), np.uint8)
    for guard in (0, page + room):
        _protect(memory, guard, page, _PROT_NONE)
    first = page + (room - span if at == "end" else 0) + below
    return np.ndarray(shape, dtype, memory, first, strides)


def lines_before_guards(lines, length, dtype):
    """A zero array (lines, length) whose every line ends where a page that cannot be touched begins."""
    dtype, page = np.dtype(dtype), mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, 2 * page * lines), np.uint8)
    for line in range(lines):
        _protect(memory, (2 * line + 1) * page, page, _PROT_NONE)
    return np.ndarray((lines, length), dtype, memory, page - length * dtype.itemsize, (2 * page, dtype.itemsize))


# ---------------------------------------------------------------------- checks


def assert_same(actual, expected):
    """Equal in dtype, shape and every byte."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.tobytes() != expected.tobytes():
        differ = (to_bytes(actual) != to_bytes(expected)).any(-1)
        where = tuple(int(i) for i in np.argwhere(differ)[0])
        got, needed = to_bytes(actual)[where].tobytes().hex(), to_bytes(expected)[where].tobytes().hex()
        raise AssertionError(f"{differ.sum()} of {differ.size} elements differ, first {where}: {got}, needed {needed}")


def canonical_strides(shape, itemsize):
    """The byte strides of a dense row-major array."""
    return tuple(itemsize * int(np.prod(shape[axis + 1 :], dtype=int)) for axis in range(len(shape)))


def assert_fresh(result, *inputs):
    """A result without out= is a plain, writeable array of its own with clean strides, on a 64-byte border."""
    assert type(result) is np.ndarray
    assert result.flags.writeable
    assert result.flags.c_contiguous
    assert result.ctypes.data % 64 == 0
    if result.size:
        assert result.strides == canonical_strides(result.shape, result.itemsize)
    assert not any(np.shares_memory(result, x) for x in inputs)
