"""The demonstration: a photograph through four conversions, each checked and timed against plain NumPy.

matplotlib and Pillow (the extra ``demo``) are imported only where they are used, so that the command line can take
the timer and the table from here without them.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import layoutpack as lp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL import Image

Array = NDArray[Any]
Pixels = NDArray[np.uint8]

MEAN, STD = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], np.float32)  # of ImageNet, for values from 0 to 1
TOLERANCE = 1e-6  # of the normalised values, which reach 2.6; NumPy rounds them more than once
M0, C0 = 16, 32  # rows of a FRACTAL_NZ tile; block of channels and columns of a tile for one-byte integers
REPEATS = 15
SECONDS = 3.0  # per conversion: a large photograph is timed less often
PREVIEW = 608  # pixels a side that the picture shows at most, a whole number of tiles both ways


class MissingExtraError(Exception):
    """matplotlib or Pillow is not installed."""


def run(image: Path | None, folder: Path, save: Callable[[Path, Array], None]) -> int:
    """Pack the photograph, check and time each conversion, `save` the arrays, draw the picture; the exit code."""
    require_extra()
    name, photo = load_photograph(image)
    print(f"{name}: {photo.shape[0]} rows, {photo.shape[1]} columns, {photo.shape[2]} channels, {photo.dtype}\n")
    results = [Result.of(conversion) for conversion in conversions(photo)]
    failures = [failure for result in results for failure in result.failures()]
    for failure in failures:
        print(f"layoutpack: FAILED: {failure}", file=sys.stderr)
    if failures:
        return 1
    timings = [result.time() for result in results]
    print(report(results, timings))
    print("\nEvery layout equals the NumPy formula bit for bit, the normalised values to a millionth;")
    print("the way back gives the original bytes.")

    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        save(folder / result.conversion.file, result.stored())
    draw(name, photo, results, timings, folder / "layoutpack-demo.png")
    files = [result.conversion.file for result in results]
    print(f"Written to {folder}{os.sep}: {', '.join(files)}, layoutpack-demo.png")
    return 0


def require_extra() -> None:
    """Raise now, not after the work, if the picture could not be drawn."""
    try:
        import matplotlib.figure  # noqa: F401
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f'the demo needs matplotlib and Pillow ({error}); install them with: pip install "layoutpack[demo]"'
        ) from error


# ---- the photograph ----


def load_photograph(image: Path | None) -> tuple[str, Pixels]:
    """Name and pixels (H, W, C = RGB) of the file, or of the photograph that comes with matplotlib."""
    from PIL import Image, ImageOps

    if image is None:
        image = sample_photograph()
    try:
        with Image.open(image) as opened:
            upright: Image.Image = ImageOps.exif_transpose(opened)
            pixels = np.array(upright.convert("RGB"))
    except OSError:  # the file itself, or no image in it: these messages name it
        raise
    except Exception as error:  # the decoders raise whatever a damaged file makes them stumble over
        raise ValueError(f"{image}: cannot decode the image: {error}") from error
    return image.name, pixels


def sample_photograph() -> Path:
    """grace_hopper.jpg, a real photograph inside the matplotlib package: nothing to download."""
    from matplotlib import cbook

    return Path(str(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)))


# ---- plain NumPy: what a user writes without this library ----


def numpy_nc1hwc0(nhwc: Array) -> Array:
    """(N, H, W, C) -> (N, C1, H, W, C0)."""
    n, h, w, c = nhwc.shape
    c1 = -(-c // C0)
    padded = np.pad(nhwc, [(0, 0), (0, 0), (0, 0), (0, c1 * C0 - c)])
    return np.ascontiguousarray(padded.reshape(n, h, w, c1, C0).transpose(0, 3, 1, 2, 4))


def numpy_fractal_nz(planes: Array) -> Array:
    """(B, H, W) -> (B, W1, H1, M0, C0)."""
    b, h, w = planes.shape
    h1, w1 = -(-h // M0), -(-w // C0)
    padded = np.pad(planes, [(0, 0), (0, h1 * M0 - h), (0, w1 * C0 - w)])
    return np.ascontiguousarray(padded.reshape(b, h1, M0, w1, C0).transpose(0, 3, 1, 2, 4))


def numpy_channels_last(nchw: Array) -> Array:
    """(N, C, H, W) over memory in the order N, H, W, C."""
    return np.ascontiguousarray(nchw.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def numpy_normalised(photo: Array) -> Array:
    """(H, W, C) -> (1, C, H, W): to values from 0 to 1, less the mean, divided by the deviation."""
    values = photo.astype(np.float32) / np.float32(255)
    return np.ascontiguousarray(((values - MEAN) / STD).transpose(2, 0, 1)[None])


def denormalised(batch: Array) -> Array:
    """The way back."""
    values: Array = (batch[0].transpose(1, 2, 0) * STD + MEAN) * 255
    return np.rint(values).astype(np.uint8)


# ---- conversions, checked and timed ----


@dataclass(frozen=True)
class Conversion:
    """One conversion, its twin in NumPy, and the way back."""

    title: str
    file: str
    source: Array
    pack: Callable[[Array], Array]
    formula: Callable[[Array], Array]
    unpack: Callable[[Array], Array]
    storage: Callable[[Array], Array] = lambda packed: packed
    """The packed array with its axes in the order of memory, which is the order that a .npy file keeps."""
    computes: bool = False
    """Whether values are computed, not only moved."""


def conversions(photo: Pixels) -> list[Conversion]:
    """The photograph as a batch of one, and as three planes: FRACTAL_NZ cuts the last two axes, here rows and columns
    of pixels, so that its tiles are pieces of the picture that one can recognise."""
    nhwc = photo[None]
    nchw = np.ascontiguousarray(nhwc.transpose(0, 3, 1, 2))
    planes = nchw[0]
    channels = photo.shape[2]
    return [
        Conversion(
            "NHWC -> NC1HWC0",
            "nc1hwc0.npy",
            nhwc,
            lambda x: lp.to_nc1hwc0(x, src="NHWC"),
            numpy_nc1hwc0,
            lambda y: lp.from_nc1hwc0(y, channels=channels, dst="NHWC"),
        ),
        Conversion(
            "3 planes -> FRACTAL_NZ",
            "fractal_nz.npy",
            planes,
            lambda x: lp.to_fractal_nz(x),
            numpy_fractal_nz,
            lambda y: lp.from_fractal_nz(y, shape=planes.shape),
        ),
        Conversion(
            "NCHW -> channels-last",
            "channels_last.npy",
            nchw,
            # Without copy=True a picture of one pixel would be a view, and there would be nothing to time.
            lambda x: lp.to_channels_last(x, copy=True),
            numpy_channels_last,
            lambda y: lp.to_contiguous(y),
            lambda packed: packed.transpose(0, 2, 3, 1),
        ),
        Conversion(
            "HWC -> NCHW, normalised",
            "normalised.npy",
            photo,
            lambda x: lp.pack_images(x, scale=1 / 255, mean=MEAN, std=STD),
            numpy_normalised,
            denormalised,
            computes=True,
        ),
    ]


@dataclass(frozen=True)
class Result:
    """A conversion and what it gave."""

    conversion: Conversion
    packed: Array

    @classmethod
    def of(cls, conversion: Conversion) -> Result:
        return cls(conversion, conversion.pack(conversion.source))

    def stored(self) -> Array:
        """The packed array as memory and the file hold it."""
        return self.conversion.storage(self.packed)

    def failures(self) -> list[str]:
        """What is wrong, one line each. Right values in the wrong order of memory are wrong here."""
        conversion = self.conversion
        expected = conversion.storage(conversion.formula(conversion.source))
        found = []
        same = same_values if conversion.computes else same_bytes
        if not self.stored().flags.c_contiguous or not same(self.stored(), expected):
            found.append(f"{conversion.title}: the result differs from the NumPy formula")
        if not same_bytes(conversion.unpack(self.packed), conversion.source):
            found.append(f"{conversion.title}: the way back does not give the original bytes")
        return found

    def time(self) -> dict[str, float]:
        """Seconds of one call into a fresh output, by library."""
        conversion = self.conversion
        calls = {
            "layoutpack": lambda: conversion.pack(conversion.source),
            "NumPy": lambda: conversion.formula(conversion.source),
        }
        return best_times(calls, REPEATS, SECONDS)


def same_bytes(a: Array, b: Array) -> bool:
    """Whether two arrays have the same shape and type and, in row-major order, the same bytes (NaN included)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    one, other = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return np.array_equal(one, other)


def same_values(a: Array, b: Array) -> bool:
    """Whether two arrays have the same shape and type and, but for their rounding, the same values."""
    return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=0, atol=TOLERANCE)


def best_times(calls: Mapping[str, Callable[[], object]], repeat: int, seconds: float = math.inf) -> dict[str, float]:
    """Shortest time of each call in seconds. The calls take turns, so that a slow spell of the machine hits all."""
    best = dict.fromkeys(calls, math.inf)
    deadline = time.perf_counter() + seconds
    for done in range(repeat):
        if done and time.perf_counter() > deadline:
            break
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def report(results: Sequence[Result], timings: Sequence[Mapping[str, float]]) -> str:
    """The table of the conversions."""
    rows = [["conversion", "input", "output", "bytes", "layoutpack", "NumPy", "ratio"]]
    for result, times in zip(results, timings, strict=True):
        source, packed = result.conversion.source, result.packed
        rows.append(
            [
                result.conversion.title,
                str(source.shape),
                str(packed.shape),
                f"{source.nbytes:,} -> {packed.nbytes:,}",
                milliseconds(times["layoutpack"]),
                milliseconds(times["NumPy"]),
                f"{times['NumPy'] / times['layoutpack']:.1f}x",
            ]
        )
    return table(rows, left=4)


def milliseconds(seconds: float) -> str:
    """The time as a number of milliseconds with its unit."""
    return f"{seconds * 1e3:.3f} ms"


def table(rows: Sequence[Sequence[str]], left: int) -> str:
    """Lines of columns, the first `left` of them flush left and the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = (c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, rows))


# ---- the picture ----

BLUE, GREY, INK = "#2563eb", "#a8b0bd", "#1f2937"
LANES = 64  # bytes of memory in the strips: two blocks of NC1HWC0
CHANNEL_COLOURS = np.array([[0.86, 0.15, 0.15], [0.09, 0.62, 0.26], [0.15, 0.39, 0.92]])
PADDING_COLOUR = (0.93, 0.94, 0.95)
COLUMN_COLOURS = ("#fbbf24", "#34d399", "#f472b6")  # of the first columns of tiles
GAP = 3  # pixels between the tiles of memory


def draw(
    name: str, photo: Pixels, results: Sequence[Result], timings: Sequence[Mapping[str, float]], path: Path
) -> None:
    """One PNG: the photograph in tiles, the tiles as they lie in memory, the first bytes of each format, the times."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context():
        mpl.rcdefaults()  # the look must not depend on the matplotlibrc of whoever runs it
        mpl.rc("font", family="DejaVu Sans", size=9)
        mpl.rc("axes", titlesize=10.5, titlelocation="left", titlepad=8, labelcolor=INK, edgecolor="#9ca3af")
        mpl.rc("text", color=INK)
        mpl.rc("xtick", color=INK)
        mpl.rc("ytick", color=INK)
        shown = centre(photo, PREVIEW)
        above_inches, below_inches = picture_height(shown), 3.2
        figure = Figure(
            figsize=(11, above_inches + below_inches),
            dpi=130,
            layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1),
        )
        FigureCanvasAgg(figure)
        height, width, channels = photo.shape
        figure.suptitle(
            f"layoutpack {lp.__version__}: {name}, {height} x {width} x {channels} {photo.dtype}, in four layouts",
            fontsize=13,
            fontweight="bold",
        )
        rows = figure.add_gridspec(2, 1, height_ratios=[above_inches, below_inches])
        above, below = figure.add_subfigure(rows[0]), figure.add_subfigure(rows[1])
        left, right = above.subplots(1, 2)
        draw_tiled_photo(left, shown, cropped=shown.shape != photo.shape)
        draw_tiles_in_memory(right, shown)
        left, right = below.subplots(1, 2)
        draw_first_bytes(left, photo, results)
        draw_times(right, results, timings)
        figure.savefig(path)


def centre(photo: Pixels, side: int) -> Pixels:
    """The middle of the photograph, at most `side` pixels high and wide."""
    top, left = (max(0, n - side) // 2 for n in photo.shape[:2])
    return photo[top : top + side, left : left + side]


def picture_height(photo: Pixels) -> float:
    """Inches that the tiles of the photograph and the title above them take where they fill half the width."""
    h1, w1 = -(-photo.shape[0] // M0), -(-photo.shape[1] // C0)
    inches: float = 5.3 * h1 * (M0 + GAP) / (w1 * (C0 + GAP)) + 0.8
    return min(9.0, inches)


def frame(axes: Axes, height: int, width: int) -> None:
    """Bare axes around a picture, not so narrow that the title would be cut off."""
    axes.set(xlim=(-1, max(width, 0.62 * height) + 1), ylim=(height + 1, -1), xticks=[], yticks=[], anchor="N")
    axes.spines[:].set_visible(False)


def draw_tiled_photo(axes: Axes, photo: Pixels, cropped: bool) -> None:
    """The photograph under the tiles that FRACTAL_NZ cuts it into; those of the first columns in colour."""
    height, width = photo.shape[:2]
    h1, w1 = -(-height // M0), -(-width // C0)
    axes.imshow(photo, extent=(0, width, height, 0), interpolation="antialiased")
    axes.hlines(np.arange(h1 + 1) * M0, 0, w1 * C0, colors="white", linewidth=0.4, alpha=0.5)
    axes.vlines(np.arange(w1 + 1) * C0, 0, h1 * M0, colors="white", linewidth=0.4, alpha=0.5)
    for number in range(min(h1 * w1, h1 * len(COLUMN_COLOURS))):
        column, row = divmod(number, h1)
        mark_tile(axes, column * C0, row * M0, number, COLUMN_COLOURS[column])
    frame(axes, h1 * M0, w1 * C0)
    axes.set_title(f"FRACTAL_NZ cuts the planes into tiles of {M0} x {C0}" + (" (here: the middle)" if cropped else ""))


def draw_tiles_in_memory(axes: Axes, photo: Pixels) -> None:
    """The storage itself: tile after tile as memory holds them, in rows of as many as the photograph is wide."""
    storage = lp.to_fractal_nz(np.ascontiguousarray(photo.transpose(2, 0, 1)))
    channels, w1, h1 = storage.shape[:3]
    page = np.full((h1, M0 + GAP, w1, C0 + GAP, channels), 255, np.uint8)
    # The reshape only counts the tiles off in rows of w1; where a tile stands, it stands in memory.
    page[:, :M0, :, :C0] = storage.reshape(channels, h1, w1, M0, C0).transpose(1, 3, 2, 4, 0)
    height, width = h1 * (M0 + GAP), w1 * (C0 + GAP)
    axes.imshow(page.reshape(height, width, channels), extent=(0, width, height, 0), interpolation="antialiased")
    for number in range(min(h1 * w1, h1 * len(COLUMN_COLOURS))):
        row, column = divmod(number, w1)
        mark_tile(axes, column * (C0 + GAP), row * (M0 + GAP), number, COLUMN_COLOURS[number // h1])
    frame(axes, height - GAP, width - GAP)
    axes.set_title("Its memory, row by row: the tiles of a column follow one another")


def mark_tile(axes: Axes, left: float, top: float, number: int, colour: str) -> None:
    """A coloured frame and a number, readable on any picture."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    # in_layout: hundreds of artists inside the axes must not be measured to place the axes.
    box = Rectangle((left, top), C0, M0, facecolor="none", edgecolor=colour, linewidth=1.1, in_layout=False)
    axes.add_patch(box)
    rim = [withStroke(linewidth=1.6, foreground="#000000b0")]
    axes.text(
        left + C0 / 2,
        top + M0 / 2,
        str(number),
        color=colour,
        fontsize=6,
        ha="center",
        va="center",
        path_effects=rim,
        in_layout=False,
    )


def draw_first_bytes(axes: Axes, photo: Pixels, results: Sequence[Result]) -> None:
    """A few bytes of each storage from the same pixel on, in the colour of the channel that they belong to."""
    height, width, channels = photo.shape
    pixel = (height // 2) * width + width // 2
    nc1hwc0, _, last, *_ = results
    at = np.arange(LANES)
    strips = [
        ("NCHW: a whole plane of red comes first", last.conversion.source, 1, (pixel + at) // (height * width)),
        ("channels-last: the channels of a pixel lie together", last.stored(), channels, at % channels),
        (f"NC1HWC0: the same in blocks of C0 = {C0} lanes; grey is padding", nc1hwc0.stored(), C0, at % C0),
    ]
    for row, (label, storage, step, channel) in enumerate(strips):
        values = storage.reshape(-1)[step * pixel :][:LANES]
        cells = np.ones((1, LANES, 3))
        cells[0, : values.size] = colour(values, channel[: values.size])
        axes.imshow(cells, extent=(0, LANES, row + 0.8, row + 0.25), aspect="auto", interpolation="nearest")
        axes.text(0, row + 0.17, label, fontsize=8.5)
        axes.vlines(np.arange(LANES + 1), row + 0.25, row + 0.8, colors="white", linewidth=0.8)
    axes.set(xlim=(0, LANES), ylim=(len(strips) - 0.1, -0.1), yticks=[], xticks=range(0, LANES + 1, 8))
    axes.set_xlabel("byte")
    axes.set_title(f"{LANES} bytes of memory, from the middle pixel on")
    axes.spines[:].set_visible(False)


def colour(values: Pixels, channel: NDArray[np.int64]) -> NDArray[np.float64]:
    """RGB of each byte: its channel's colour, the darker the higher the value; grey where it is padding."""
    known = channel < len(CHANNEL_COLOURS)
    hue = CHANNEL_COLOURS[np.where(known, channel, 0)]
    strength = 0.25 + 0.75 * values[:, None] / 255
    return np.where(known[:, None], 1 - strength * (1 - hue), PADDING_COLOUR)


def draw_times(axes: Axes, results: Sequence[Result], timings: Sequence[Mapping[str, float]]) -> None:
    """Two bars for each conversion."""
    longest = max(max(times.values()) for times in timings) * 1e3
    for row, times in enumerate(timings):
        for library, shift, face in (("NumPy", -0.19, GREY), ("layoutpack", 0.19, BLUE)):
            value = times[library] * 1e3
            label = f"{value:.3g} ms"
            if library == "layoutpack":
                label += f"   ({times['NumPy'] / times['layoutpack']:.1f}x)"
            axes.barh(row + shift, value, height=0.36, color=face, label=library if row == 0 else None)
            axes.text(value + longest * 0.012, row + shift, label, va="center", fontsize=8.5)
    axes.set(
        ylim=(len(results) - 0.5, -0.5),
        xlim=(0, longest * 1.3),
        yticks=range(len(results)),
        yticklabels=[result.conversion.title for result in results],
        xlabel="milliseconds, the best of several calls into a fresh output",
    )
    axes.set_title("Time")
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.99), ncols=2, reverse=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
