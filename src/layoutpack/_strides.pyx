# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True, autotestdict=False
"""Which memory formats an array is in, told by its strides alone.

Three answers are kept apart, and none stands for another:

* the formats an array is *dense* in (`is_contiguous`, `is_channels_last`, `memory_formats`), where the stride of an
  axis of size 1 says nothing, because it is never stepped along;
* whether the strides are *ordered* like channels-last (`is_strides_like_channels_last`), padding allowed and strides
  of size-1 axes counted, because they are the only place where an intent can hide;
* the format a *policy* picks (`suggest_memory_format`).

Everything is decided on signed byte strides read from the array itself. A buffer view is no substitute: it may state
other strides for size-1 axes. And nothing is divided by the item size: a field of a packed record does not divide.
"""

import enum
import functools
import operator

cimport numpy as cnp
import numpy as np
from cpython.pyport cimport PY_SSIZE_T_MAX
from numpy cimport npy_intp

cnp.import_array()


class MemoryFormat(enum.Enum):
    """Order in which dense memory holds the axes of an array of logical shape (N, C, spatial ...).

    Attributes
    ----------
    contiguous_format
        Row-major, for any number of axes: the last axis is the fastest.
    channels_last_1d, channels_last, channels_last_3d
        The channel axis is the fastest, then the spatial axes from last to first, then the batch axis, for arrays
        with 1, 2 or 3 spatial axes: the shapes (N, C, L), (N, C, H, W) and (N, C, D, H, W).

    See Also
    --------
    is_contiguous : Whether an array is dense in one of these formats.
    memory_formats : All the formats an array is dense in.

    Notes
    -----
    The members carry PyTorch's names (``torch.memory_format``), which has no ``channels_last_1d``: that one follows
    the proposals pytorch/pytorch#74935 and pytorch/rfcs#42. Each member is also a name of the package, so that
    ``layoutpack.channels_last`` is ``layoutpack.MemoryFormat.channels_last``.

    Examples
    --------
    >>> import layoutpack as lp
    >>> lp.MemoryFormat.channels_last
    layoutpack.channels_last
    >>> lp.MemoryFormat("channels_last") is lp.channels_last
    True
    """

    __module__ = "layoutpack"  # where users find it, and where pickles look for it

    contiguous_format = "contiguous_format"
    channels_last_1d = "channels_last_1d"
    channels_last = "channels_last"
    channels_last_3d = "channels_last_3d"

    def __repr__(self):
        return f"layoutpack.{self.name}"

    __str__ = __repr__


contiguous_format = MemoryFormat.contiguous_format
channels_last_1d = MemoryFormat.channels_last_1d
channels_last = MemoryFormat.channels_last
channels_last_3d = MemoryFormat.channels_last_3d

# The channels-last format with k spatial axes is entry k; row-major asks for none.
cdef tuple FORMATS = (contiguous_format, channels_last_1d, channels_last, channels_last_3d)

cdef enum:
    MAX_AXES = 5  # N, C and three spatial axes


cdef struct Order:
    int spatial         # number of spatial axes, 1 to 3; 0 where the rank fits no channels-last format
    int[MAX_AXES] axes  # from fastest to slowest: C, the spatial axes from last to first, N if there is one


# ---- The two tests ----

cdef bint dense(cnp.ndarray a, const int *axes) noexcept:
    """Whether the elements fill memory without gaps with `axes` from fastest to slowest, or row-major if it is NULL."""
    cdef int ndim = cnp.PyArray_NDIM(a), i, axis
    cdef const npy_intp *shape = cnp.PyArray_DIMS(a)
    cdef const npy_intp *strides = cnp.PyArray_STRIDES(a)
    cdef size_t want = cnp.PyArray_ITEMSIZE(a)  # unsigned: a hand-made array of absurd size must not overflow

    for axis in range(ndim):
        if shape[axis] == 0:
            return True  # NumPy gives empty arrays zero strides, so their strides cannot tell
    for i in range(ndim):
        axis = axes[i] if axes != NULL else ndim - 1 - i
        if shape[axis] != 1:
            if <size_t>strides[axis] != want:
                return False
            want *= <size_t>shape[axis]
    return True


cdef bint ordered(cnp.ndarray a, const Order *order) noexcept:
    """Whether each stride, those of size-1 axes included, reaches past all that the faster axes cover.

    Starting at the item size makes the test fit for byte strides: it turns away C strides of 0 and below.
    """
    cdef int last = order.spatial, i, axis  # axes[last] is the slowest spatial axis, axes[last + 1] is N
    cdef bint batched = cnp.PyArray_NDIM(a) > last + 1
    cdef const npy_intp *shape = cnp.PyArray_DIMS(a)
    cdef const npy_intp *strides = cnp.PyArray_STRIDES(a)
    cdef npy_intp reach = cnp.PyArray_ITEMSIZE(a)

    if reach == 0:
        return False  # elements without bytes have no order
    for i in range(last + 1):
        axis = order.axes[i]
        if shape[axis] == 0 or strides[axis] < reach:
            return False
        if strides[axis] > PY_SSIZE_T_MAX // shape[axis]:
            return i == last and not batched  # no slower stride can be large enough
        reach = strides[axis] * shape[axis]
    if reach == strides[order.axes[0]]:
        return False  # C and every spatial size is 1 and no stride tells them apart: it falls to row-major
    if not batched:
        return True
    axis = order.axes[last + 1]
    return shape[axis] != 0 and strides[axis] >= reach


# ---- From arguments to an array and an axis order ----

cdef cnp.ndarray as_ndarray(x):
    """`x` itself if it is an array, else the array it converts to; without a copy where it can lend its memory."""
    if cnp.PyArray_Check(x):
        return <cnp.ndarray>x
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array_interface__"):
        try:
            return np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f"{type(x).__name__} cannot be read as a CPU array ({error})") from error
    cdef cnp.ndarray a = np.asarray(x)
    if cnp.PyArray_NDIM(a) == 0 and cnp.PyArray_TYPE(a) == cnp.NPY_OBJECT:  # NumPy takes None, a set ... for a scalar
        raise TypeError(f"expected an array or something that converts to one, got {type(x).__name__}")
    return a


@functools.lru_cache
def _parse_layout(layout):
    """Axes that `layout` names, from slowest to fastest in channels-last memory, and how many of them are spatial."""
    position = {letter: axis for axis, letter in enumerate(layout)}
    for letter in position:
        if letter not in "NCDHWL":
            raise ValueError(f"layout {layout!r}: unknown axis {letter!r}, known are N, C, D, H, W and L")
    if len(position) != len(layout):
        raise ValueError(f"layout {layout!r} names an axis twice")
    spatial = [letter for letter in "DHWL" if letter in position]
    if "C" not in position or not spatial:
        raise ValueError(f"layout {layout!r} needs C and at least one of the spatial axes D, H, W and L")
    if "L" in position and len(spatial) > 1:
        raise ValueError(f"layout {layout!r}: L is the only spatial axis where it occurs")
    order = ["N"] * ("N" in position) + spatial + ["C"]
    return tuple([position[letter] for letter in order]), len(spatial)


cdef int read_order(int ndim, layout, Order *order) except -1:
    """Fill in the channels-last order of `ndim` axes. A rank outside 3 to 5 is no error unless a layout contradicts."""
    cdef int i
    if layout is None:
        order.spatial = ndim - 2 if 3 <= ndim <= MAX_AXES else 0
        if order.spatial:
            order.axes[0] = 1
            for i in range(1, ndim - 1):
                order.axes[i] = ndim - i
            order.axes[ndim - 1] = 0
        return 0
    if not isinstance(layout, str):
        raise TypeError(f"layout must be a string of axis letters or None, got {type(layout).__name__}")
    axes, order.spatial = _parse_layout(layout)
    if len(axes) != ndim:
        raise ValueError(f"layout {layout!r} names {len(axes)} axes, but there are {ndim}")
    for i in range(ndim):
        order.axes[i] = axes[ndim - 1 - i]
    return 0


cdef cnp.ndarray read(x, layout, Order *order):
    """The array of an argument `x`, and the channels-last order of its axes."""
    cdef cnp.ndarray a = as_ndarray(x)
    read_order(cnp.PyArray_NDIM(a), layout, order)
    return a


cdef int spatial_axes(memory_format) except -1:
    """Number of spatial axes a format asks for; 0 is row-major, which asks for nothing."""
    cdef int spatial
    for spatial in range(4):
        if FORMATS[spatial] is memory_format:
            return spatial
    raise TypeError(f"memory_format must be a member of layoutpack.MemoryFormat, got {memory_format!r}")


def memory_order(int ndim, memory_format=None, layout=None):
    """Axes from slowest to fastest in the dense memory of a format.

    Parameters
    ----------
    ndim : int
        Number of axes.
    memory_format : MemoryFormat, optional
        The format. None is the channels-last format that the rank, or `layout`, picks.
    layout : str, optional
        Names of the axes: letters of "NCDHWL" in the order of the axes, such as "CHW" for a bare image. Without
        it 3, 4 and 5 axes are read as (N, C, L), (N, C, H, W) and (N, C, D, H, W).

    Returns
    -------
    tuple of int
        A permutation of ``range(ndim)``.

    Raises
    ------
    ValueError
        If the format does not fit the number of axes or the layout, or the layout is malformed.
    TypeError
        If `memory_format` is not a MemoryFormat, or `layout` not a string.

    Examples
    --------
    >>> from layoutpack._strides import channels_last, memory_order
    >>> memory_order(4, channels_last)
    (0, 2, 3, 1)
    >>> memory_order(3, layout="CHW")
    (1, 2, 0)
    """
    cdef Order order
    cdef int wanted = -1 if memory_format is None else spatial_axes(memory_format)
    read_order(ndim, layout, &order)
    if wanted == 0:
        return tuple(range(ndim))
    if order.spatial == 0 or (wanted > 0 and wanted != order.spatial):
        name = "channels-last memory" if wanted < 0 else memory_format.name
        if layout is None:
            needed = "3, 4 or 5" if wanted < 0 else wanted + 2
            raise ValueError(f"{name} needs {needed} axes, got {ndim}; axes that are something else "
                             "are named by layout=, such as layout='CHW' for a bare image")
        raise ValueError(f"spatial axes: {name} has {wanted}, layout {layout!r} has {order.spatial}")
    return tuple([order.axes[ndim - 1 - i] for i in range(ndim)])


# ---- Detection ----

def is_contiguous(x, /, memory_format=contiguous_format, *, layout=None):
    """Whether an array is dense in a memory format.

    Parameters
    ----------
    x : array_like
        Any array. An array with a number of axes that the format is not made for is not in that format.
    memory_format : MemoryFormat, optional
        The format asked for; by default `contiguous_format`, row-major in the order of the axes of `x`.
    layout : str, optional
        Names of the axes of `x`: letters of "NCDHWL" in the order of the axes, such as "CHW" for a bare image. Without
        it 3, 4 and 5 axes are read as (N, C, L), (N, C, H, W) and (N, C, D, H, W).

    Returns
    -------
    bool
        True if the elements fill their memory without gaps in the order of the format. Strides of axes of size 1 are
        ignored, so one array can be in two formats. An array with no elements is in every format of its rank.

    Raises
    ------
    ValueError
        If `layout` does not name the axes of `x`.
    TypeError
        If `memory_format` is not a MemoryFormat, `layout` not a string, or `x` not an array.

    See Also
    --------
    is_channels_last : The same question for the channels-last format of the rank of `x`.
    memory_formats : All the formats at once.
    to_memory_format : Conversion.

    Notes
    -----
    This is what PyTorch's ``Tensor.is_contiguous`` answers (c10/core/Contiguity.h), on byte strides. It differs on
    purpose in one place: PyTorch tells empty channels-last tensors apart by their strides, which NumPy sets to 0.

    Examples
    --------
    >>> import numpy as np
    >>> import layoutpack as lp
    >>> x = np.zeros((2, 8, 8, 3)).transpose(0, 3, 1, 2)
    >>> lp.is_contiguous(x), lp.is_contiguous(x, lp.channels_last)
    (False, True)
    """
    cdef Order order
    cdef cnp.ndarray a = read(x, layout, &order)
    cdef int wanted = spatial_axes(memory_format)
    if wanted == 0:
        return dense(a, NULL)
    return wanted == order.spatial and dense(a, order.axes)


def is_channels_last(x, /, *, layout=None):
    """Whether an array is dense in the channels-last format of its rank.

    Parameters
    ----------
    x : array_like
        Any array; with other than 3, 4 or 5 axes and no `layout` the answer is False.
    layout : str, optional
        Names of the axes of `x`: letters of "NCDHWL" in the order of the axes, such as "CHW" for a bare image. Without
        it 3, 4 and 5 axes are read as (N, C, L), (N, C, H, W) and (N, C, D, H, W).

    Returns
    -------
    bool
        True if the elements fill their memory without gaps, channels fastest, then the spatial axes from last to
        first, then the batch. Strides of axes of size 1 are ignored. An array with no elements is channels-last.

    Raises
    ------
    ValueError
        If `layout` does not name the axes of `x`.
    TypeError
        If `layout` is not a string, or `x` not an array.

    See Also
    --------
    is_strides_like_channels_last : The order of the strides alone, padding allowed.
    to_channels_last : Conversion.

    Notes
    -----
    For 4 and 5 axes this is ``Tensor.is_contiguous(memory_format=...)`` of PyTorch (c10/core/Contiguity.h), for 3 axes
    the same rule with the order of pytorch/rfcs#42. It differs on purpose for empty arrays: see `is_contiguous`.

    Examples
    --------
    >>> import numpy as np
    >>> import layoutpack as lp
    >>> image = np.zeros((480, 640, 3), np.uint8)
    >>> lp.is_channels_last(image.transpose(2, 0, 1)[None])
    True
    >>> lp.is_channels_last(image.transpose(2, 0, 1), layout="CHW")
    True
    """
    cdef Order order
    cdef cnp.ndarray a = read(x, layout, &order)
    return order.spatial != 0 and dense(a, order.axes)


def is_strides_like_channels_last(x, /, *, layout=None):
    """Whether the strides of an array are ordered like those of the channels-last format of its rank.

    Parameters
    ----------
    x : array_like
        Any array; with other than 3, 4 or 5 axes and no `layout` the answer is False.
    layout : str, optional
        Names of the axes of `x`: letters of "NCDHWL" in the order of the axes, such as "CHW" for a bare image. Without
        it 3, 4 and 5 axes are read as (N, C, L), (N, C, H, W) and (N, C, D, H, W).

    Returns
    -------
    bool
        True if each stride, from C through the spatial axes to N, reaches at least as far as the axes before it
        cover. Gaps are allowed. Strides of axes of size 1 count, so a batch of one made by ``image[None]``, which has
        a batch stride of 0, is not ordered. An array with no elements is not either.

    Raises
    ------
    ValueError
        If `layout` does not name the axes of `x`.
    TypeError
        If `layout` is not a string, or `x` not an array.

    See Also
    --------
    is_channels_last : Whether the elements are dense in that order.
    suggest_memory_format : The format this test picks.

    Notes
    -----
    This is ``is_strides_like_channels_last`` of PyTorch (c10/core/MemoryFormat.h) without a difference, on byte
    strides; for 3 axes the same rule. Where C and all spatial sizes are 1 and their strides are equal nothing tells
    the formats apart and the answer is False, for a layout without N as well.

    Examples
    --------
    A crop of a channels-last array is ordered, but no longer dense.

    >>> import numpy as np
    >>> import layoutpack as lp
    >>> x = np.zeros((2, 8, 8, 3)).transpose(0, 3, 1, 2)[:, :, :5, :5]
    >>> lp.is_strides_like_channels_last(x), lp.is_channels_last(x)
    (True, False)
    """
    cdef Order order
    cdef cnp.ndarray a = read(x, layout, &order)
    return order.spatial != 0 and ordered(a, &order)


def memory_formats(x, /, *, layout=None):
    """All the memory formats an array is dense in.

    Parameters
    ----------
    x : array_like
        Any array.
    layout : str, optional
        Names of the axes of `x`: letters of "NCDHWL" in the order of the axes, such as "CHW" for a bare image. Without
        it 3, 4 and 5 axes are read as (N, C, L), (N, C, H, W) and (N, C, D, H, W).

    Returns
    -------
    frozenset of MemoryFormat
        Empty for an array with gaps, overlaps or another order; two formats where C or all spatial sizes are 1, and
        for an array with no elements.

    Raises
    ------
    ValueError
        If `layout` does not name the axes of `x`.
    TypeError
        If `layout` is not a string, or `x` not an array.

    See Also
    --------
    is_contiguous : The question for one format, and the definition of dense.
    suggest_memory_format : One format, picked by the order of the strides.

    Notes
    -----
    The set says openly what strides cannot decide: with one channel the two orders are the same bytes
    (pytorch/pytorch#24090).

    Examples
    --------
    >>> import numpy as np
    >>> import layoutpack as lp
    >>> lp.memory_formats(np.zeros((2, 3, 8, 8)))
    frozenset({layoutpack.contiguous_format})
    >>> sorted(f.name for f in lp.memory_formats(np.zeros((2, 1, 8, 8))))
    ['channels_last', 'contiguous_format']
    """
    cdef Order order
    cdef cnp.ndarray a = read(x, layout, &order)
    found = []
    if dense(a, NULL):
        found.append(contiguous_format)
    if order.spatial != 0 and dense(a, order.axes):
        found.append(FORMATS[order.spatial])
    return frozenset(found)


def suggest_memory_format(x, /, *, layout=None):
    """The memory format that the order of the strides suggests.

    Parameters
    ----------
    x : array_like
        Any array.
    layout : str, optional
        Names of the axes of `x`: letters of "NCDHWL" in the order of the axes, such as "CHW" for a bare image. Without
        it 3, 4 and 5 axes are read as (N, C, L), (N, C, H, W) and (N, C, D, H, W).

    Returns
    -------
    MemoryFormat
        The channels-last format of the rank if the strides are ordered like it, else `contiguous_format`: that one
        means "not channels-last", and never that the array is row-major or dense.

    Raises
    ------
    ValueError
        If `layout` does not name the axes of `x`.
    TypeError
        If `layout` is not a string, or `x` not an array.

    See Also
    --------
    is_strides_like_channels_last : The test behind it.
    memory_formats : The formats the array is dense in.

    Notes
    -----
    This is ``suggest_memory_format`` of PyTorch (ATen/core/TensorBase.h).

    Examples
    --------
    >>> import numpy as np
    >>> import layoutpack as lp
    >>> lp.suggest_memory_format(np.zeros((2, 8, 8, 3)).transpose(0, 3, 1, 2))
    layoutpack.channels_last
    >>> lp.suggest_memory_format(np.zeros((2, 3, 8, 8)))
    layoutpack.contiguous_format
    """
    cdef Order order
    cdef cnp.ndarray a = read(x, layout, &order)
    return FORMATS[order.spatial] if order.spatial != 0 and ordered(a, &order) else contiguous_format


def channels_last_strides(shape, /, *, layout=None):
    """Strides, in elements, of a dense channels-last array.

    Parameters
    ----------
    shape : sequence of int
        The logical shape. No array is made, so sizes may be of any magnitude.
    layout : str, optional
        Names of the axes: letters of "NCDHWL" in the order of the axes, such as "CHW" for a bare image. Without
        it 3, 4 and 5 axes are read as (N, C, L), (N, C, H, W) and (N, C, D, H, W).

    Returns
    -------
    tuple of int
        The stride of C is 1, that of each slower axis the product of the sizes of the faster ones; a size of 0 makes
        the slower ones 0.

    Raises
    ------
    ValueError
        If there are other than 3, 4 or 5 axes and no `layout`, if `layout` does not name the axes, or if a size is
        negative.
    TypeError
        If a size is not an integer, or `layout` not a string.

    See Also
    --------
    is_channels_last : Whether an array has such strides, those of axes of size 1 aside.
    to_channels_last : An array that has exactly these.

    Notes
    -----
    These are PyTorch's ``get_channels_last_strides_2d`` and ``_3d`` (c10/core/MemoryFormat.h); for 3 axes the strides
    (C * L, 1, C) of pytorch/rfcs#42.

    Examples
    --------
    >>> import layoutpack as lp
    >>> lp.channels_last_strides((1, 2, 2, 2))
    (8, 1, 4, 2)
    >>> lp.channels_last_strides((8, 3, 32))
    (96, 1, 3)
    >>> lp.channels_last_strides((3, 480, 640), layout="CHW")
    (1, 1920, 3)
    """
    sizes = [operator.index(size) for size in shape]
    strides = [0] * len(sizes)
    step = 1
    for axis in reversed(memory_order(len(sizes), layout=layout)):
        if sizes[axis] < 0:
            raise ValueError(f"negative size {sizes[axis]} of axis {axis} in shape {tuple(sizes)}")
        strides[axis] = step
        step *= sizes[axis]
    return tuple(strides)


# ---- What memory holds ----

def storage_order(x, /, *, layout=None):
    """The elements of an array in the order in which memory holds them.

    Parameters
    ----------
    x : array_like
        An array of any number of axes whose elements fill their memory without gaps, in whatever order and direction
        of its axes. Subclasses count as what they are made of: the mask of a masked array is not looked at.
    layout : str, optional
        Names of the axes of `x`; it is checked, and has no influence on the result.

    Returns
    -------
    ndarray
        A copy with one axis, by increasing address.

    Raises
    ------
    ValueError
        If elements overlap or leave gaps, or `layout` does not name the axes of `x`.
    TypeError
        If `layout` is not a string, or `x` not an array.

    See Also
    --------
    storage_offsets : The place of each element, for any strides.

    Notes
    -----
    Arrays that fill their memory without gaps in some order of their axes are what PyTorch calls non-overlapping and
    dense (c10/core/TensorImpl.h), for positive strides. Here, axes may run backwards too.

    Examples
    --------
    >>> import numpy as np
    >>> import layoutpack as lp
    >>> x = np.arange(8).reshape(1, 2, 2, 2)
    >>> lp.storage_order(x)
    array([0, 1, 2, 3, 4, 5, 6, 7])
    >>> lp.storage_order(lp.to_channels_last(x))
    array([0, 4, 1, 5, 2, 6, 3, 7])
    """
    cdef Order order
    a = np.asarray(read(x, layout, &order))
    if a.size == 0:
        return np.empty(0, a.dtype)
    want = a.itemsize
    fast_to_slow = sorted([axis for axis in range(a.ndim) if a.shape[axis] > 1], key=lambda axis: abs(a.strides[axis]))
    for axis in fast_to_slow:
        if abs(a.strides[axis]) != want:
            fault = "overlap" if abs(a.strides[axis]) < want else "leave gaps"
            raise ValueError(f"elements {fault}: axis {axis} has a stride of {a.strides[axis]} bytes, dense memory has "
                             f"{want} there (shape {a.shape}, strides {a.strides})")
        want *= a.shape[axis]
    forward = a[(..., *[slice(None, None, -1 if stride < 0 else 1) for stride in a.strides])]  # ...: a view for 0 axes
    unit = [axis for axis in range(a.ndim) if a.shape[axis] == 1]
    return np.array(forward.transpose(unit + fast_to_slow[::-1]), order="C").reshape(-1)


def storage_offsets(x, /, *, unit="elements", layout=None):
    """Where memory holds each element, counted from the lowest address of the elements.

    Parameters
    ----------
    x : array_like
        An array of any number of axes and any strides.
    unit : {"elements", "bytes"}, optional
        What the offsets count.
    layout : str, optional
        Names of the axes of `x`; it is checked, and has no influence on the result.

    Returns
    -------
    ndarray of int64
        An array of the shape of `x`. Elements that share their memory, as in a broadcast array, share the offset.

    Raises
    ------
    ValueError
        If `unit` is "elements" and a stride, of an axis longer than 1, is not a multiple of the item size, or the item
        size is 0; if `unit` is neither of the two; if `layout` does not name the axes of `x`.
    OverflowError
        If the offsets do not fit in 64 bits.
    TypeError
        If `layout` is not a string, or `x` not an array.

    See Also
    --------
    storage_order : The elements themselves in the order of memory.

    Notes
    -----
    For an array without axes that run backwards this is the sum of index times stride, the definition of a strided
    array in the NumPy reference (The N-dimensional array, Internal memory layout of an ndarray).

    Examples
    --------
    >>> import numpy as np
    >>> import layoutpack as lp
    >>> lp.storage_offsets(np.zeros((2, 3)).T)
    array([[0, 3],
           [1, 4],
           [2, 5]])
    >>> record = np.zeros(3, [("tag", "u1"), ("value", "f4")])
    >>> lp.storage_offsets(record["value"], unit="bytes")
    array([ 0,  5, 10])
    """
    cdef Order order
    if unit not in ("elements", "bytes"):
        raise ValueError(f"unit must be 'elements' or 'bytes', got {unit!r}")
    a = np.asarray(read(x, layout, &order))
    if a.size == 0:
        return np.zeros(a.shape, np.int64)
    steps = [stride if size > 1 else 0 for size, stride in zip(a.shape, a.strides)]
    if unit == "elements":
        for axis, step in enumerate(steps):
            if a.itemsize == 0 or step % a.itemsize:
                raise ValueError(f"the stride of axis {axis}, {step} bytes, is not a multiple of the item size "
                                 f"{a.itemsize}; unit='bytes' counts bytes")
        steps = [step // a.itemsize for step in steps]
    if sum([(size - 1) * abs(step) for size, step in zip(a.shape, steps)]) > PY_SSIZE_T_MAX:
        raise OverflowError(f"offsets of shape {a.shape} with strides {a.strides} do not fit in 64 bits")
    offsets = np.zeros((), np.int64)
    for size, step in zip(reversed(a.shape), reversed(steps)):
        index = np.arange(size, dtype=np.int64)
        offsets = np.add.outer((index if step >= 0 else index[::-1]) * abs(step), offsets)
    return offsets
