"""Storage formats as data: the `Format` type, its pattern parser, and the table `FORMATS`.

A format is a logical pattern, a physical pattern and block sizes. In the physical pattern the suffix ``0`` marks the
index inside a block and the next higher number the index of the block (``C1 C0``; ``I2 I1 I0`` for two levels of
blocks); parentheses fuse neighbours into one axis, and a fused group may be blocked itself; a leading ``...`` stands
for any number of batch axes. Nothing outside the table knows a format by name.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

BlockSize = int | str
"""A number of elements, or the keyword that supplies it: "c0", "n0" or "m0"."""

BLOCK_KEYWORDS = ("c0", "n0", "m0")
_DEFAULT_BLOCKS = {"n0": 16, "m0": 16}  # the cube unit's other edge: 16 for every dtype (formats of CANN and MindSpore)


class Factor(NamedTuple):
    """One index of the storage: a whole axis (level None), or one level of a blocked axis or group."""

    axis: str
    level: int | None

    def __str__(self) -> str:
        return self.axis if self.level is None else f"{self.axis}{self.level}"


class Storage(NamedTuple):
    """A format whose axes have names and whose blocks have sizes: what is needed to lay out a tensor."""

    name: str
    axes: tuple[str, ...]
    physical: tuple[tuple[Factor, ...], ...]
    groups: Mapping[str, tuple[Factor, ...]]
    blocks: Mapping[str, tuple[int, ...]]  # outermost level first

    def extent(self, factor: Factor, extents: Mapping[str, int]) -> int:
        """Number of values the index `factor` takes."""
        sizes = self.blocks.get(factor.axis, ())
        if factor.level is not None and factor.level < len(sizes):
            return sizes[len(sizes) - 1 - factor.level]
        whole = self._whole(factor.axis, extents)
        return whole if factor.level is None else -(-whole // math.prod(sizes))

    def shape(self, extents: Mapping[str, int]) -> tuple[int, ...]:
        """Shape of the storage of a tensor with these logical extents."""
        for axis, sizes in self.blocks.items():
            outer = Factor(axis, len(sizes))
            if self.extent(outer, extents) > 1 and not self._has(outer):
                raise ValueError(
                    f"{self.name}: axis {axis} must not be longer than its block of {math.prod(sizes)}, "
                    f"got {self._whole(axis, extents)}"
                )
        return tuple(math.prod(self.extent(f, extents) for f in fused) for fused in self.physical)

    def factors(self) -> Iterator[Factor]:
        """All indices of the storage in the order of the physical pattern, those inside blocked groups included."""
        for fused in self.physical:
            yield from fused
        for members in self.groups.values():
            yield from members

    def _has(self, factor: Factor) -> bool:
        return any(factor == f for f in self.factors())

    def _whole(self, axis: str, extents: Mapping[str, int]) -> int:
        members = self.groups.get(axis)
        return extents[axis] if members is None else math.prod(self.extent(f, extents) for f in members)


class Format:
    """A storage format: how the elements of a logical tensor lie in the storage array.

    Parameters
    ----------
    name : str
        What error messages and ``repr`` call it. The format is registered nowhere.
    logical : str
        Axes of the tensor, such as ``"N C H W"``. A leading ``...`` stands for any number of batch axes; the named
        axes are then the last ones, whatever the other side of a conversion calls them.
    physical : str
        Axes of the storage array, such as ``"N C1 H W C0"`` or ``"(C1 H W) N1 N0 C0"``. Of an axis with one block
        size, ``C0`` is the index inside the block and ``C1`` the index of the block; an axis with two sizes has
        ``I2 I1 I0``. ``(A B)`` is one axis that runs over A and, faster, B; ``(A B)1 ... (A B)0`` is such an axis
        cut into blocks. Where the outermost index is left out, the axis must fit into one block. A pattern with ``...``
        takes the other side's last axes by position; so does a matrix format.
    blocks : mapping, optional
        Block sizes in elements by axis: an int, one of ``"c0"``, ``"n0"``, ``"m0"`` for a size that the caller of a
        conversion chooses, or a tuple of these, outermost first. A blocked group is named by its text, ``"(H W C0)"``.

    Raises
    ------
    ValueError
        If a pattern is malformed; the message shows the pattern and the place.

    Notes
    -----
    Two kinds of blocked groups have a shape and an index map but are refused by conversions, and the message says so:
    those with padding between their members that no block size accounts for, and, as a destination, those whose
    blocks end in padding that belongs to no axis.

    Examples
    --------
    >>> import layoutpack as lp
    >>> f = lp.Format("NHC8W", logical="N C H W", physical="N H C1 W C0", blocks={"C": 8})
    >>> f.packed_shape((1, 20, 4, 5))
    (1, 4, 3, 5, 8)
    >>> f.index((0, 9, 2, 3), (1, 20, 4, 5))
    (0, 2, 1, 3, 1)
    """

    __slots__ = (
        "_batched",
        "_blocks",
        "_by_name",
        "_groups",
        "_hash",
        "_logical",
        "_physical",
        "logical",
        "name",
        "physical",
    )

    name: str
    logical: str
    physical: str
    _logical: tuple[str, ...]
    _physical: tuple[tuple[Factor, ...], ...]
    _groups: dict[str, tuple[Factor, ...]]
    _blocks: dict[str, tuple[BlockSize, ...]]
    _batched: bool
    _by_name: bool  # made from a plain order or a tag, whose letters name the axes even behind "..."
    _hash: int

    def __init__(
        self,
        name: str,
        logical: str,
        physical: str,
        blocks: Mapping[str, BlockSize | Sequence[BlockSize]] | None = None,
    ) -> None:
        parser = _Parser(name, logical, physical, dict(blocks or {}))
        for slot, value in {
            "name": str(name),
            "logical": " ".join(logical.split()),
            "physical": " ".join(physical.replace("(", " (").split()).replace("( ", "(").replace(" )", ")"),
            "_logical": parser.logical_axes,
            "_physical": parser.physical_axes,
            "_groups": parser.groups,
            "_blocks": parser.blocks,
            "_batched": parser.batched,
            "_by_name": False,
        }.items():
            object.__setattr__(self, slot, value)
        object.__setattr__(self, "_hash", hash(self._key()))  # a key of the plan cache in every call

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Format is immutable, cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Format is immutable, cannot delete {name!r}")

    @property
    def blocks(self) -> Mapping[str, BlockSize | tuple[BlockSize, ...]]:
        """Block sizes by axis, as given."""
        return MappingProxyType({axis: s[0] if len(s) == 1 else s for axis, s in self._blocks.items()})

    @property
    def is_plain(self) -> bool:
        """Whether the storage is the tensor itself with its axes in some order."""
        return not self._blocks and all(len(fused) == 1 for fused in self._physical)

    @property
    def is_batched(self) -> bool:
        """Whether any number of leading batch axes is taken."""
        return self._batched

    @property
    def is_positional(self) -> bool:
        """Whether the axes take their names from the other side of a conversion: matrix formats and "ND"."""
        return self._batched and not self._by_name and not (self.is_plain and self._logical)

    def packed_shape(
        self,
        shape: Sequence[SupportsIndex],
        *,
        dtype: DTypeLike | None = None,
        c0: int | None = None,
        n0: int | None = None,
        m0: int | None = None,
    ) -> tuple[int, ...]:
        """Shape of the storage array of a tensor.

        Parameters
        ----------
        shape : sequence of int
            Logical shape, in the order of ``logical``, batch axes first.
        dtype : dtype, optional
            Type of the elements; decides ``c0`` by `default_c0` where ``c0`` is not given.
        c0, n0, m0 : int, optional
            Block sizes in elements, for formats that leave them open; n0 and m0 default to 16.

        Returns
        -------
        tuple of int

        Raises
        ------
        TypeError
            If the format leaves c0 open and neither ``c0`` nor ``dtype`` is given.
        ValueError
            If the number of axes or a block size does not fit.

        Examples
        --------
        >>> import layoutpack as lp
        >>> lp.FORMATS["FRACTAL_NZ"].packed_shape((20, 28), dtype="float16")
        (2, 2, 16, 16)
        """
        storage, extents = self._lay_out(shape, dtype, {"c0": c0, "n0": n0, "m0": m0})
        return storage.shape(extents)

    def index(
        self,
        logical_index: Sequence[SupportsIndex],
        shape: Sequence[SupportsIndex],
        *,
        dtype: DTypeLike | None = None,
        c0: int | None = None,
        n0: int | None = None,
        m0: int | None = None,
    ) -> tuple[int, ...]:
        """Storage index of one logical element.

        Parameters
        ----------
        logical_index : sequence of int
            Index of the element in the tensor, in the order of ``logical``; negative values count from the end.
        shape : sequence of int
            Logical shape of the tensor.
        dtype, c0, n0, m0
            As for `packed_shape`.

        Returns
        -------
        tuple of int

        Raises
        ------
        IndexError
            If the index lies outside the shape.
        TypeError, ValueError
            As for `packed_shape`.

        Examples
        --------
        >>> import layoutpack as lp
        >>> lp.FORMATS["FRACTAL_NZ"].index((16, 3), (20, 28), c0=16)
        (0, 1, 0, 3)
        """
        storage, extents = self._lay_out(shape, dtype, {"c0": c0, "n0": n0, "m0": m0})
        storage.shape(extents)
        where = [operator.index(i) for i in logical_index]
        if len(where) != len(extents):
            raise ValueError(f"{self.name}: an index of {len(extents)} axes is needed, got {tuple(where)}")
        values: dict[str, int] = {}
        for (axis, extent), i in zip(extents.items(), where, strict=True):
            if not -extent <= i < extent:
                raise IndexError(f"{self.name}: index {i} is out of bounds for axis {axis} of length {extent}")
            values[axis] = i % extent

        def digit(factor: Factor) -> int:
            members = storage.groups.get(factor.axis)
            value = values[factor.axis] if members is None else fuse(members)
            if factor.level is None:
                return value
            sizes = storage.blocks[factor.axis]
            below = math.prod(sizes[len(sizes) - factor.level :])
            value //= below
            return value if factor.level == len(sizes) else value % sizes[len(sizes) - 1 - factor.level]

        def fuse(factors: Sequence[Factor]) -> int:
            at = 0
            for f in factors:
                at = at * storage.extent(f, extents) + digit(f)
            return at

        return tuple(fuse(fused) for fused in storage.physical)

    def _lay_out(
        self, shape: Sequence[SupportsIndex], dtype: DTypeLike | None, given: Mapping[str, int | None]
    ) -> tuple[Storage, dict[str, int]]:
        sizes = as_shape(shape, self.name)
        sized = self.block_sizes(given, dtype)
        batch = len(sizes) - len(self._logical)
        if batch < 0 or (batch and not self._batched):
            raise ValueError(f"{self.name}: a shape with axes '{self.logical}' is needed, got {sizes}")
        storage = self.bind(tuple(f"#{i}" for i in range(batch)) + self._logical, sized)
        return storage, dict(zip(storage.axes, sizes, strict=True))

    def block_sizes(
        self, given: Mapping[str, int | None], dtype: DTypeLike | None = None, *, stored: bool = False
    ) -> Mapping[str, tuple[int, ...]]:
        """Block sizes of every axis in elements, from the keywords that are given or their defaults.

        Of an array that is `stored` already nothing is assumed.
        """
        chosen: dict[str, int] = {}
        for keyword, value in given.items():
            if value is None:
                continue
            value = as_block(value, keyword, self.name)
            if not self.uses(keyword) and value not in {s for sizes in self._blocks.values() for s in sizes}:
                fixed = ", ".join(f"{a} by {s}" for a, s in self.blocks.items()) or "none"
                raise ValueError(f"{self.name}: takes no {keyword}=, got {value} (its blocks: {fixed})")
            chosen[keyword] = value

        def size(block: BlockSize) -> int:
            if isinstance(block, int):
                return block
            if block not in chosen:
                if stored:
                    raise TypeError(
                        f"{self.name}: the shape of the storage does not tell the block size; give {block}= "
                        f"(a pair names source and destination)"
                    )
                if block in _DEFAULT_BLOCKS:
                    chosen[block] = _DEFAULT_BLOCKS[block]
                elif dtype is None:
                    raise TypeError(f"{self.name}: give the block size {block}= or a dtype= that decides it")
                else:
                    chosen[block] = _cube_c0(dtype, self.name)
            return chosen[block]

        return {axis: tuple(size(s) for s in sizes) for axis, sizes in self._blocks.items()}

    def uses(self, keyword: str) -> bool:
        """Whether the keyword ("c0", "n0", "m0") sizes a block of this format."""
        return any(keyword in sizes for sizes in self._blocks.values())

    def takes(self, keyword: str) -> bool:
        """Whether the keyword has a meaning here: it sizes a block, or "c0" can be checked against a fixed one."""
        fixed = any(isinstance(s, int) for sizes in self._blocks.values() for s in sizes)
        return self.uses(keyword) or (keyword == "c0" and fixed)

    def blocks_from_shape(self, shape: Sequence[int]) -> dict[str, int]:
        """Values of "c0", "n0", "m0" that the shape of a storage array shows (its last axes)."""
        found: dict[str, int] = {}
        for fused, extent in zip(reversed(self._physical), reversed(shape), strict=False):
            for axis, level in fused if len(fused) == 1 else ():
                sizes = self._blocks.get(axis, ())
                if level is not None and level < len(sizes):
                    keyword = sizes[len(sizes) - 1 - level]
                    if isinstance(keyword, str):
                        if extent < 1:
                            raise ValueError(f"{self.name}: storage axis {axis}{level} (the block size) must not be 0")
                        if found.setdefault(keyword, extent) != extent:
                            raise ValueError(
                                f"{self.name}: the block size {keyword} must be the same on all axes, "
                                f"got {found[keyword]} and {extent} in the storage shape {tuple(shape)}"
                            )
        return found

    @property
    def named_axes(self) -> tuple[str, ...]:
        """Logical axes without the batch axes."""
        return self._logical

    @property
    def storage_rank(self) -> int:
        """Number of storage axes without the batch axes."""
        return len(self._physical)

    def bind(self, axes: tuple[str, ...], blocks: Mapping[str, tuple[int, ...]]) -> Storage:
        """Name the logical axes `axes`, batch axes first, and the blocks their sizes."""
        batch = len(axes) - len(self._logical)
        rename = dict(zip(self._logical, axes[batch:], strict=True))

        def name(factor: Factor) -> Factor:
            return Factor(rename.get(factor.axis, factor.axis), factor.level)

        return Storage(
            self.name,
            axes,
            (*((Factor(axis, None),) for axis in axes[:batch]), *(tuple(map(name, f)) for f in self._physical)),
            {group: tuple(map(name, members)) for group, members in self._groups.items()},
            {rename.get(axis, axis): sizes for axis, sizes in blocks.items()},
        )

    def _key(self) -> tuple[object, ...]:
        return self.name, self.logical, self.physical, tuple(sorted(self._blocks.items())), self.is_positional

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Format) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        if self._by_name:
            return as_format, (self.name,)
        return Format, (self.name, self.logical, self.physical, dict(self.blocks))

    def __repr__(self) -> str:
        return (
            f"Format({self.name!r}, logical={self.logical!r}, physical={self.physical!r}, blocks={dict(self.blocks)!r})"
        )


_TOKEN = re.compile(
    r"\s*(?:(?P<dots>\.\.\.)|(?P<open>\()|(?P<close>\))(?P<group_level>\d*)|(?P<axis>[A-Za-z]+)(?P<level>\d*))"
)


class _Parser:
    """Reads and checks the two patterns of a format."""

    def __init__(self, name: str, logical: str, physical: str, blocks: dict[str, Any]) -> None:
        self.name = name
        self.groups: dict[str, tuple[Factor, ...]] = {}
        self.batched = False
        self.logical_axes = self._read_logical(logical)
        batched, self.batched = self.batched, False
        self.physical_axes, places = self._read_physical(physical)
        if batched != self.batched:
            pattern = logical if self.batched else physical
            self._fail(pattern, 0, "'...' must stand in both patterns or in neither")
        self.blocks = self._read_blocks(blocks)
        self._check_levels(physical, places)

    def _fail(self, pattern: str, at: int, why: str) -> NoReturn:
        raise ValueError(f"Format {self.name!r}: {why}\n    {pattern}\n    {' ' * at}^")

    def _tokens(self, pattern: str) -> Iterator[tuple[int, re.Match[str]]]:
        if not isinstance(pattern, str):
            raise TypeError(f"Format {self.name!r}: a pattern must be a str, got {type(pattern).__name__}")
        at = 0
        while pattern[at:].strip():
            match = _TOKEN.match(pattern, at)
            if not match:
                at += len(pattern[at:]) - len(pattern[at:].lstrip())
                self._fail(pattern, at, f"unexpected {pattern[at]!r}")
            yield match.end() - len(match[0].lstrip()), match
            at = match.end()

    def _read_logical(self, pattern: str) -> tuple[str, ...]:
        axes: list[str] = []
        for at, token in self._tokens(pattern):
            if token["dots"]:
                self._dots(pattern, at, bool(axes))
            elif not token["axis"] or token["level"]:
                self._fail(pattern, at, "the logical pattern takes axis names only")
            elif token["axis"] in axes:
                self._fail(pattern, at, f"axis {token['axis']} stands twice")
            else:
                axes.append(token["axis"])
        if not axes and not self.batched:
            self._fail(pattern, 0, "the logical pattern names no axis")
        return tuple(axes)

    def _dots(self, pattern: str, at: int, late: bool) -> None:
        if late or self.batched:
            self._fail(pattern, at, "'...' must come first")
        self.batched = True

    def _read_physical(self, pattern: str) -> tuple[tuple[tuple[Factor, ...], ...], dict[Factor, int]]:
        axes: list[tuple[Factor, ...]] = []
        group: list[Factor] | None = None
        opened = 0
        places: dict[Factor, int] = {}
        for at, token in self._tokens(pattern):
            if token["dots"]:
                self._dots(pattern, at, bool(axes) or group is not None)
            elif token["open"]:
                if group is not None:
                    self._fail(pattern, at, "parentheses cannot be nested")
                group, opened = [], at
            elif token["close"]:
                if not group:
                    self._fail(pattern, at, "nothing to close here" if group is None else "empty parentheses")
                if token["group_level"]:
                    factor = Factor(f"({' '.join(map(str, group))})", int(token["group_level"]))
                    self.groups[factor.axis] = tuple(group)
                    self._place(pattern, opened, factor, places)
                    axes.append((factor,))
                else:
                    for f in group:
                        self._place(pattern, opened, f, places)
                    axes.append(tuple(group))
                group = None
            else:
                if token["axis"] not in self.logical_axes:
                    self._fail(pattern, at, f"axis {token['axis']} is not in the logical pattern")
                factor = Factor(token["axis"], int(token["level"]) if token["level"] else None)
                if group is not None:
                    group.append(factor)
                else:
                    self._place(pattern, at, factor, places)
                    axes.append((factor,))
        if group is not None:
            self._fail(pattern, opened, "this parenthesis is never closed")
        for members in self.groups.values():
            for f in members:
                self._place(pattern, 0, f, places)
        return tuple(axes), places

    def _place(self, pattern: str, at: int, factor: Factor, places: dict[Factor, int]) -> None:
        if factor in places:
            self._fail(pattern, at, f"{factor} stands twice")
        places[factor] = at

    def _read_blocks(self, blocks: dict[str, Any]) -> dict[str, tuple[BlockSize, ...]]:
        known = {*self.logical_axes, *self.groups}
        read: dict[str, tuple[BlockSize, ...]] = {}
        for axis, value in blocks.items():
            if axis not in known:
                raise ValueError(
                    f"Format {self.name!r}: blocks names {axis!r}, the axes are {', '.join(sorted(known))}"
                )
            sizes = tuple(value) if isinstance(value, tuple | list) else (value,)
            for size in sizes:
                if isinstance(size, str):
                    if size not in BLOCK_KEYWORDS:
                        raise ValueError(
                            f"Format {self.name!r}: block size of axis {axis} must be a positive int or one of "
                            f"{', '.join(BLOCK_KEYWORDS)}, got {size!r}"
                        )
                else:
                    as_block(size, f"block size of axis {axis}", f"Format {self.name!r}")
            if not sizes:
                raise ValueError(f"Format {self.name!r}: axis {axis} is given an empty list of block sizes")
            read[axis] = tuple(s if isinstance(s, str) else operator.index(s) for s in sizes)
        return read

    def _check_levels(self, pattern: str, places: dict[Factor, int]) -> None:
        """Every axis stands whole once, or with each level of its blocks once (the outermost may be left out)."""
        for factor, at in places.items():
            levels = len(self.blocks.get(factor.axis, ()))
            if factor.level is None:
                if levels:
                    self._fail(
                        pattern, at, f"axis {factor.axis} has a block size, so it stands as {factor}1 and {factor}0"
                    )
            elif not levels:
                self._fail(pattern, at, f"axis {factor.axis} has no block size")
            elif factor.level > levels:
                self._fail(pattern, at, f"{factor} goes beyond the {levels} block size(s) of axis {factor.axis}")
        for axis in (*self.logical_axes, *self.groups):
            levels = len(self.blocks.get(axis, ()))
            needed = [Factor(axis, level) for level in range(levels)] if levels else [Factor(axis, None)]
            for factor in needed:
                if factor not in places:
                    self._fail(pattern, len(pattern), f"{factor} is missing")


def as_shape(shape: Sequence[SupportsIndex], name: str) -> tuple[int, ...]:
    """The shape as a tuple of Python ints, checked to hold no negative extent."""
    try:
        sizes = tuple(operator.index(n) for n in shape)
    except TypeError:
        raise TypeError(f"{name}: a shape must be a sequence of ints, got {shape!r}") from None
    if any(n < 0 for n in sizes):
        raise ValueError(f"{name}: a shape must not hold negative numbers, got {sizes}")
    return sizes


def as_block(value: SupportsIndex, keyword: str, name: str) -> int:
    """The block size as a positive Python int."""
    try:
        size = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {keyword} must be an int, got {value!r}") from None
    if isinstance(value, bool | np.bool_) or size < 1:
        raise ValueError(f"{name}: {keyword} must be at least 1, got {value!r}")
    return size


def default_c0(dtype: DTypeLike, policy: str = "cube") -> int:
    """Number of elements in a block of channels (C0) for a dtype.

    Parameters
    ----------
    dtype : dtype
        Type of the stored elements.
    policy : {"cube", "bytes32"}, optional
        "cube": what device storage of whole tensors uses: 32 for int8 and uint8, 16 for bool and every type of two
        bytes or more. "bytes32": as many elements as fill 32 bytes, so 8 for float32.

    Returns
    -------
    int
        Elements.

    Raises
    ------
    ValueError
        If the policy is unknown, or has no answer for the dtype: sources disagree about 4-bit and 8-bit floating
        types, so their C0 must be stated.

    Notes
    -----
    "cube" is the table of the Ascend graph engine's platform files and of MindSpore; "bytes32" is the rule of the
    Ascend C guide. They differ for types of four and eight bytes.

    Examples
    --------
    >>> import layoutpack as lp
    >>> lp.default_c0("float32"), lp.default_c0("uint8"), lp.default_c0("float32", policy="bytes32")
    (16, 32, 8)
    """
    if policy == "cube":
        return _cube_c0(dtype, "default_c0")
    if policy != "bytes32":
        raise ValueError(f"default_c0: policy must be 'cube' or 'bytes32', got {policy!r}")
    itemsize = np.dtype(dtype).itemsize
    if not itemsize:
        raise ValueError(f"default_c0: elements of dtype {np.dtype(dtype)} have no bytes")
    return max(1, 32 // itemsize)


def _cube_c0(dtype: DTypeLike, name: str) -> int:
    dt = np.dtype(dtype)
    if dt.itemsize >= 2 or dt.kind == "b":
        return 16
    if dt.itemsize and dt.kind in "iu":  # the 4-bit types of ml_dtypes have kind V
        return 32
    raise ValueError(f"{name}: dtype {dt} has no default block size c0; state it by c0=")


def _rows() -> Iterator[Format]:
    """The table. Index maps and sources: docs of the Ascend graph engine, MindSpore and torch_npu."""
    yield Format("NC1HWC0", "N C H W", "N C1 H W C0", {"C": "c0"})
    yield Format("NC1HWC0_C04", "N C H W", "N C1 H W C0", {"C": 4})
    yield Format("NDC1HWC0", "N C D H W", "N D C1 H W C0", {"C": "c0"})
    yield Format("FRACTAL_NZ", "... H W", "... W1 H1 H0 W0", {"H": "m0", "W": "c0"})
    for c0 in (2, 4, 8, 16, 32):
        yield Format(f"FRACTAL_NZ_C0_{c0}", "... H W", "... W1 H1 H0 W0", {"H": "m0", "W": c0})
    yield Format("FRACTAL_ZZ", "... H W", "... H1 W1 H0 W0", {"H": "m0", "W": "c0"})
    yield Format("FRACTAL_ZN", "... H W", "... H1 W1 W0 H0", {"H": "c0", "W": "n0"})
    yield Format("FRACTAL_NN", "... H W", "... W1 H1 W0 H0", {"H": "c0", "W": "n0"})
    yield Format("FRACTAL_Z", "N C H W", "(C1 H W) N1 N0 C0", {"C": "c0", "N": "n0"})
    yield Format("FRACTAL_Z_3D", "N C D H W", "(D C1 H W) N1 N0 C0", {"C": "c0", "N": "n0"})
    yield Format("FRACTAL_Z_3D_TRANSPOSE", "D H W N C", "(D N1 H W) C1 C0 N0", {"N": "c0", "C": "n0"})


FORMATS: Mapping[str, Format] = MappingProxyType({row.name: row for row in _rows()})
"""Every named format: a read-only mapping from name to `Format`."""

ND = "ND"
"""An array of any rank in its own order, for the matrix formats."""

_TAG = re.compile(r"(?:[A-Za-z]|[1-9]\d*[a-z])+")
_TAG_PART = re.compile(r"(\d*)([A-Za-z])")


def as_format(spec: str | Format) -> Format:
    """The `Format` that `spec` names: a row of the table, a plain order, or a blocked tag."""
    if type(spec) is str:
        return _format_from_name(spec)
    if isinstance(spec, Format):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"a format is named by a str or a layoutpack.Format, got {type(spec).__name__}: {spec!r}")
    return _format_from_name(spec)


@lru_cache(maxsize=512)
def _format_from_name(spec: str) -> Format:
    if spec in FORMATS:
        return FORMATS[spec]
    if spec == ND:
        return Format(ND, "...", "...")
    batch, letters = ("... ", spec[3:].strip()) if spec.startswith("...") else ("", spec)
    if letters.isascii() and letters.isalpha() and (letters.isupper() or letters.islower()):
        letters = letters.upper()
        if len(set(letters)) != len(letters):
            twice = next(c for c in letters if letters.count(c) > 1)
            raise ValueError(f"format {spec!r}: axis {twice} stands twice")
        pattern = batch + " ".join(letters)
        return _by_name(Format(batch.strip() + letters, pattern, pattern))
    if letters.isascii() and _TAG.fullmatch(letters) and any(c.isdigit() for c in letters):
        return _format_from_tag(spec, batch, letters)
    raise ValueError(
        f"unknown format {spec!r}: use a plain order such as 'NCHW', a blocked tag such as 'NCHW16c', "
        f"or one of {', '.join(FORMATS)}, {ND}"
    )


def _format_from_tag(spec: str, batch: str, tag: str) -> Format:
    """``NCHW16c`` (TVM) and ``nChw16c`` (oneDNN) name the same format; the first is the name it gets."""
    parts = [(int(n) if n else 0, letter) for n, letter in _TAG_PART.findall(tag)]
    outer = [letter for n, letter in parts if not n]
    sizes: dict[str, list[int]] = {}
    for n, letter in parts:
        if n:
            sizes.setdefault(letter.upper(), []).append(n)
    axes = [letter.upper() for letter in outer]
    for axis in axes:
        if axes.count(axis) > 1:
            raise ValueError(f"format {spec!r}: axis {axis} stands twice")
    for axis in sizes:
        if axis not in axes:
            raise ValueError(f"format {spec!r}: block {axis.lower()!r} has no axis {axis} to cut")
    spelled = {"TVM": [a.upper() for a in outer], "oneDNN": [a if a in sizes else a.lower() for a in axes]}
    if outer not in spelled.values():
        raise ValueError(
            f"format {spec!r}: capitals stand for all axes (TVM's spelling) or for the blocked ones (oneDNN's)"
        )
    # oneDNN's abstract tags (aBcd16b, BA16a16b) name the axes of the tensor a, b, c ... in order.
    abstract = sorted(axes) == [chr(ord("A") + i) for i in range(len(axes))]
    seen: dict[str, int] = {}
    physical = []
    for n, letter in parts:
        axis = letter.upper()
        levels = len(sizes.get(axis, ()))
        if n:
            seen[axis] = seen.get(axis, 0) + 1
            physical.append(f"{axis}{levels - seen[axis]}")
        else:
            physical.append(f"{axis}{levels}" if levels else axis)
    name = "".join(f"{n}{letter}" if n else letter.upper() for n, letter in parts)
    return _by_name(
        Format(
            batch.strip() + name,
            batch + " ".join(sorted(axes) if abstract else axes),
            batch + " ".join(physical),
            {axis: tuple(s) for axis, s in sizes.items()},
        )
    )


def _by_name(f: Format) -> Format:
    object.__setattr__(f, "_by_name", True)
    object.__setattr__(f, "_hash", hash(f._key()))
    return f
