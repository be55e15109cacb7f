"""Texts of the docstrings of the named conversions: one template for each direction, one row for each format."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple


def insert_options(function: Any, options: str) -> None:
    """Put the parameters that several functions share where a docstring says ``{options}``."""
    # Both without indentation: from Python 3.13 on the compiler takes it away from docstrings, but not from strings.
    function.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("{options}", inspect.cleandoc(options))


class About(NamedTuple):
    """What the docstrings of a format's two functions say of it."""

    what: str
    notes: str
    to_example: str
    from_example: str


OPTIONS = """out : ndarray or tuple of one ndarray, optional
        Where the result goes: the exact shape, any strides without overlap, writeable. Padding is written too. May
        overlap the input: the result is as if that had been copied first.
    shape : sequence of int, optional
        Logical shape, in the order of the destination's axes. Needed where the source's padding or fused axes hide it.
    channels : int, optional
        Length of axis C, where that is all the source hides.
    groups : int, optional
        Convolution groups; only 1 so far.
    c0, n0, m0 : int or (int, int), optional
        Block sizes in elements, of the destination or, as a pair, of source and destination. A packed source tells its
        own by its shape. Default: `default_c0` of the result's dtype, 16 and 16.
    fill : scalar, optional
        Value of the padding; zero bytes if left out.
    dtype : dtype, optional
        Type of the result. float32, float16, bfloat16, uint8, int8, uint16 and int16 become float32, float16 or
        bfloat16 on the way; NumPy does the other casts. Rounding is to nearest even, a NaN stays one, nothing warns.
    casting : {'no', 'equiv', 'safe', 'same_kind', 'unsafe'}, optional
        Which casts `dtype` and `out` may ask for.
    scale, bias : float or sequence of float, optional
        Each element becomes ``x * scale + bias``, with one for all or one for each channel (1 and +0.0 where only the
        other is given); padding stays `fill`. Both are taken as float32, as is an input of another type than those of
        `dtype`. The result must be float32 (one rounding: at most ``2**-24 * abs(result)`` off), float16 or bfloat16
        (which round that once more), so other inputs need `dtype` or `out`.
    copy : bool or None, optional
        True: always a fresh array. None: a view where the bytes already agree. False: that, or ValueError.
    threads : int, optional
        Threads to use; see `get_num_threads` for the default."""

PACK = """Pack a tensor into {name}: {what}.

    Parameters
    ----------
    x : array_like
        The tensor: an ndarray with any strides, an object with ``__dlpack__`` on the CPU or ``__array__``, or lists.
    src : str or Format, optional
        Order of its axes, ``{natural!r}`` unless given. An axis that it does not name (other than C) has length 1.
    {options}

    Returns
    -------
    ndarray
        Of shape ``{physical}``: `out`, or a fresh row-major array on a 64-byte border.

    Raises
    ------
    TypeError
        If `x` is a masked array or holds Python objects, if a cast is not allowed, if a scaled result is no float.
    ValueError
        If the number of axes, a block size or `out` does not fit, or C0 has no default for the dtype. Nothing has been
        written then.

    See Also
    --------
    {twin} : the way back.
    repack : any pair of formats.

    Notes
    -----
    {notes}

    Examples
    --------
    >>> import numpy as np, layoutpack as lp
    {example}
    """

UNPACK = """Unpack a tensor from {name}: {what}.

    Parameters
    ----------
    y : array_like
        The storage, of shape ``{physical}``, with any strides.
    dst : str or Format, optional
        Order of the axes of the result, ``{natural!r}`` unless given.
    {options}

    Returns
    -------
    ndarray
        The tensor without padding: `out`, or a fresh row-major array on a 64-byte border.

    Raises
    ------
    TypeError
        If `y` is a masked array or holds Python objects, if neither `shape` nor (where it suffices) `channels` nor
        `out` tells the lengths that the storage hides, if a cast is not allowed.
    ValueError
        If the lengths cannot belong to this storage, or `out` does not fit. Nothing has been written then.

    See Also
    --------
    {twin} : the other way.
    repack : any pair of formats.

    Notes
    -----
    Padding is not read. {notes}

    Examples
    --------
    >>> import numpy as np, layoutpack as lp
    {example}
    """

_MATRIX_NOTES = (
    "The last two axes are H and W whatever their names; all others stay in front. The name gives the order\n"
    "    of the blocks first, then the order inside a block (Z: row by row, N: column by column)."
)
ABOUT = {
    "NC1HWC0": About(
        "channels in blocks of C0, the block index behind N",
        "Also known as 5HD. The same bytes as oneDNN's nChw16c (C0 = 16), nChw8c, nChw4c. Definition: CANN's data\n"
        "    layout guide, with C1 = ceil(C / C0).",
        """>>> x = np.arange(40, dtype=np.float16).reshape(1, 20, 1, 2)
    >>> y = lp.to_nc1hwc0(x)
    >>> y.shape
    (1, 2, 1, 2, 16)
    >>> y[0, 1, 0, 0, :6]
    array([32., 34., 36., 38.,  0.,  0.], dtype=float16)""",
        """>>> y = lp.to_nc1hwc0(np.ones((1, 20, 1, 2), np.float16))
    >>> lp.from_nc1hwc0(y, channels=20, dst="NHWC").shape
    (1, 1, 2, 20)""",
    ),
    "NC1HWC0_C04": About(
        "NC1HWC0 with blocks of four channels for every dtype",
        "For images with few channels. The same bytes as oneDNN's nChw4c.",
        """>>> lp.to_nc1hwc0_c04(np.ones((2, 3, 8, 8), np.uint8)).shape
    (2, 1, 8, 8, 4)""",
        """>>> lp.from_nc1hwc0_c04(np.ones((2, 1, 8, 8, 4), np.uint8), channels=3).shape
    (2, 3, 8, 8)""",
    ),
    "NDC1HWC0": About(
        "channels in blocks of C0, the block index behind D",
        "Also known as 6HD. Not the same as oneDNN's nCdhw16c, which has the block index in front of D.",
        """>>> lp.to_ndc1hwc0(np.ones((1, 20, 4, 2, 2), np.float16)).shape
    (1, 4, 2, 2, 2, 16)""",
        """>>> lp.from_ndc1hwc0(np.ones((1, 4, 2, 2, 2, 16), np.float16), channels=20).shape
    (1, 20, 4, 2, 2)""",
    ),
    "FRACTAL_NZ": About(
        "a matrix in blocks, the blocks column by column, each row by row",
        _MATRIX_NOTES + " In oneDNN's letters BA16a16b.",
        """>>> z = lp.to_fractal_nz(np.arange(560, dtype=np.float16).reshape(20, 28))
    >>> z.shape, float(z[0, 1, 0, 0]), float(z[1, 0, 0, 0])
    ((2, 2, 16, 16), 448.0, 16.0)""",
        """>>> z = np.ones((2, 2, 16, 16), np.float16)
    >>> lp.from_fractal_nz(z, shape=(20, 28)).shape
    (20, 28)""",
    ),
    "FRACTAL_ZZ": About(
        "a matrix in blocks, the blocks row by row, each row by row",
        _MATRIX_NOTES,
        """>>> lp.to_fractal_zz(np.ones((20, 40), np.float16)).shape
    (2, 3, 16, 16)""",
        """>>> lp.from_fractal_zz(np.ones((2, 3, 16, 16), np.float16), shape=(20, 40)).shape
    (20, 40)""",
    ),
    "FRACTAL_ZN": About(
        "a matrix in blocks, the blocks row by row, each column by column",
        _MATRIX_NOTES + " In oneDNN's letters AB16b16a.",
        """>>> lp.to_fractal_zn(np.ones((20, 40), np.float16)).shape
    (2, 3, 16, 16)""",
        """>>> lp.from_fractal_zn(np.ones((2, 3, 16, 16), np.float16), shape=(20, 40)).shape
    (20, 40)""",
    ),
    "FRACTAL_NN": About(
        "a matrix in blocks, the blocks column by column, each column by column",
        _MATRIX_NOTES,
        """>>> lp.to_fractal_nn(np.ones((20, 40), np.float16)).shape
    (3, 2, 16, 16)""",
        """>>> lp.from_fractal_nn(np.ones((3, 2, 16, 16), np.float16), shape=(20, 40)).shape
    (20, 40)""",
    ),
    "FRACTAL_Z": About(
        "convolution weights as a matrix of blocks of N0 x C0",
        "N are the output channels (O), C the input channels (I). Definition: CANN's data layout guide; its\n"
        "    example is HWCN (2, 2, 32, 32) -> (8, 2, 16, 16).",
        """>>> w = np.ones((2, 2, 32, 32), np.float16)
    >>> lp.to_fractal_z(w, src="HWCN").shape
    (8, 2, 16, 16)""",
        """>>> w = np.ones((8, 2, 16, 16), np.float16)
    >>> lp.from_fractal_z(w, shape=(2, 2, 32, 32), dst="HWCN").shape
    (2, 2, 32, 32)""",
    ),
    "FRACTAL_Z_3D": About(
        "3-D convolution weights as a matrix of blocks of N0 x C0",
        "As FRACTAL_Z, with D in front of the blocks of C.",
        """>>> lp.to_fractal_z_3d(np.ones((18, 5, 2, 1, 3), np.float16)).shape
    (6, 2, 16, 16)""",
        """>>> lp.from_fractal_z_3d(np.ones((6, 2, 16, 16), np.float16), shape=(18, 5, 2, 1, 3)).shape
    (18, 5, 2, 1, 3)""",
    ),
}
