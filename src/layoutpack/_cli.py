"""The command line: ``python -m layoutpack`` and the script ``layoutpack``.

Exit codes: 0; 1 a conversion, check or file failed, said in one line on stderr; 2 wrong usage; 130 interrupted.
Anything else that goes wrong is a bug of this package and shows its traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import math
import os
import secrets
import shutil
import stat
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

import layoutpack as lp
from layoutpack import _demo
from layoutpack.formats import BLOCK_KEYWORDS, FORMATS, Factor, Format, Storage, as_format

Array = NDArray[Any]

EXPECTED = (OSError, ValueError, TypeError, OverflowError, MemoryError, EOFError, _demo.MissingExtraError)
"""What bad input can raise; shown as one line."""

MEMORY_FORMAT_RANKS = (3, 4, 5)
NATURAL_ORDERS = {3: "NCL", 4: "NCHW", 5: "NCDHW"}


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code. Wrong usage raises SystemExit(2), as argparse does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold what the terminal cannot show
    try:
        try:
            arguments = parser().parse_args(argv)
            code: int = arguments.run(arguments)
            return code
        finally:
            print(end="", flush=True)  # a closed pipe or a full disk shows here, not at the interpreter's exit
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, what shells expect
    except BrokenPipeError:
        discard_stdout()
        return 1
    except EXPECTED as error:
        if isinstance(error, OSError):
            discard_stdout()
        print(f"layoutpack: error: {one_line(error)}", file=sys.stderr)
        return 1


def discard_stdout() -> None:
    """If stdout cannot be written, point it nowhere: the interpreter would flush it once more and complain."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def one_line(error: BaseException) -> str:
    """The message of an exception without line breaks."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


# ---- options ----


def parser() -> argparse.ArgumentParser:
    """The whole command line. Options are never abbreviated: a new one must not change what an old script means."""
    root = argparse.ArgumentParser(
        prog="layoutpack",
        description="Tensors between memory layouts: NC1HWC0, FRACTAL_NZ, FRACTAL_Z, blocked tags, channels-last.",
        epilog=f"Formats: plain orders such as NCHW, blocked tags such as NCHW16c, ND, {', '.join(FORMATS)}.",
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"layoutpack {lp.__version__}")
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    for name, run, add_options, summary in (
        ("demo", run_demo, add_demo_options, "Pack a photograph, check and time it against NumPy, draw a picture."),
        ("convert", run_convert, add_convert_options, "Convert a .npy file from one format to another."),
        ("info", run_info, add_info_options, "Show shape, type, strides and memory formats of a .npy file."),
        ("verify", run_verify, add_verify_options, "Send a .npy file through formats and back; compare every bit."),
        ("bench", run_bench, add_bench_options, "Time one conversion beside NumPy and a plain copy."),
    ):
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        command.set_defaults(run=run, usage_error=command.error)
        add_options(command)
    return root


def add_demo_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--image", type=Path, metavar="FILE", help="a picture (default: one inside matplotlib)")
    command.add_argument(
        "--output", type=Path, metavar="DIR", default=Path("layoutpack-demo"), help="default: %(default)s"
    )


def add_convert_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("input", type=Path, metavar="IN.npy")
    command.add_argument("output", type=npy_path, metavar="OUT.npy")
    command.add_argument("--from", dest="source", type=format_name, metavar="FORMAT", required=True)
    command.add_argument("--to", dest="target", type=format_name, metavar="FORMAT", required=True)
    add_common_options(command)
    command.add_argument("--shape", type=shape, metavar="N,C,...", help="shape to unpack to, in the order of --to")
    command.add_argument("--channels", type=at_least(0), metavar="N", help="number of channels to unpack to")
    command.add_argument(
        "--fill", type=number, metavar="V", help="value of the padding, such as --fill=-1 (default: zero bytes)"
    )
    command.add_argument("--dtype", type=dtype, metavar="T", help="type of the output (default: that of the input)")
    command.add_argument("--force", action="store_true", help="overwrite OUT.npy, which may be IN.npy")


def add_info_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE")


def add_verify_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE")
    command.add_argument(
        "--from",
        dest="source",
        type=plain_format_name,
        metavar="FORMAT",
        help="order of the axes of FILE (default: NCL, NCHW, NCDHW or ND, by their number)",
    )
    command.add_argument(
        "--to",
        dest="targets",
        type=format_name,
        metavar="FORMAT",
        nargs="+",
        action="extend",
        help="default: every format that fits",
    )
    add_common_options(command)


def add_bench_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--shape",
        type=shape,
        metavar="N,C,...",
        default=(32, 64, 56, 56),
        help="logical shape, in the order of the side that is plain (default: 32,64,56,56)",
    )
    command.add_argument("--dtype", type=dtype, metavar="T", default=np.dtype("float16"), help="default: %(default)s")
    command.add_argument("--from", dest="source", type=format_name, metavar="FORMAT", default="NCHW")
    command.add_argument("--to", dest="target", type=format_name, metavar="FORMAT", default="NC1HWC0")
    add_common_options(command)
    command.add_argument("--repeat", type=at_least(1), metavar="N", default=20, help="default: %(default)s")


def add_common_options(command: argparse.ArgumentParser) -> None:
    for option in BLOCK_KEYWORDS:
        command.add_argument(f"--{option}", type=at_least(1), metavar="N", help=f"block size {option} in elements")
    command.add_argument("--threads", type=at_least(1), metavar="N", help="default: layoutpack's own choice")


def format_name(text: str) -> Format:
    """Option type: a storage format."""
    try:
        return as_format(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def plain_format_name(text: str) -> Format:
    """Option type: an order of axes without blocks."""
    found = format_name(text)
    if not found.is_plain:
        raise argparse.ArgumentTypeError(f"{text} is a packed format; a plain order such as NCHW is needed")
    return found


def npy_path(text: str) -> Path:
    """Option type: a file to write."""
    path = Path(text)
    if path.suffix.lower() != ".npy":
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .npy; only .npy files are written for now")
    return path


def at_least(minimum: int) -> Callable[[str], int]:
    """Option type: an int not below `minimum`."""

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise argparse.ArgumentTypeError(f"an integer of at least {minimum} is needed, got {text!r}")
        return value

    return integer


def shape(text: str) -> tuple[int, ...]:
    """Option type: extents with commas between them."""
    return tuple(map(at_least(0), text.split(",")))


def number(text: str) -> bool | int | float | complex:
    """Option type: a number as Python writes it (an int stays exact), nan and inf included, or True or False."""
    if text in ("True", "False"):
        return text == "True"
    for read in (lambda digits: int(digits, 0), float, complex):
        with contextlib.suppress(ValueError):
            return read(text)
    raise argparse.ArgumentTypeError(f"a number is needed, got {text!r} (write a negative one as --fill=-1e9)")


def dtype(text: str) -> np.dtype[Any]:
    """Option type: a dtype by NumPy's name, or one of ml_dtypes if that is installed."""
    try:
        found = np.dtype(text)
    except (TypeError, ValueError, SyntaxError):
        try:
            import ml_dtypes  # registers nothing until it is imported

            found = np.dtype(getattr(ml_dtypes, text))
        except (ImportError, AttributeError, TypeError):
            raise argparse.ArgumentTypeError(f"NumPy knows no dtype {text!r}") from None
    if found.hasobject:
        raise argparse.ArgumentTypeError(f"dtype {text!r} holds Python objects; they have no bytes to convert")
    return found


class Blocks(TypedDict):
    """Block sizes as keywords."""

    c0: int | None
    n0: int | None
    m0: int | None


def block_sizes(arguments: argparse.Namespace, used_by: Format | None = None) -> Blocks:
    """The block sizes that were given; with a format, only those that it leaves open."""

    def given(keyword: str) -> int | None:
        size: int | None = getattr(arguments, keyword)
        return size if used_by is None or used_by.uses(keyword) else None

    return Blocks(c0=given("c0"), n0=given("n0"), m0=given("m0"))


# ---- files ----


def open_npy(path: Path) -> Array:
    """The array of a .npy file, read-only and mapped: nothing is read yet, and nothing is ever unpickled."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):  # opening a pipe would wait for a writer
        raise ValueError(f"{path}: not a regular file")
    try:
        # NumPy multiplies an impossible shape before it refuses it, and has advice about files of Python 2.
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(npy.open_memmap(path, mode="r"))
    except OSError:
        raise
    except Exception as error:  # hostile headers fail in many ways: SyntaxError, TokenError, RecursionError ...
        raise ValueError(f"{path}: not a .npy file that can be read: {one_line(error)}") from error


class Sink:
    """A file that NumPy does not recognise. To a real one it writes through C's stdio and overlooks a failing flush, so
    that on a full disk a small array is cut off without an error."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write


def write_npy(path: Path, array: Array, *, force: bool) -> None:
    """Write the file whole or not at all: under another name in the same folder, on disk, then renamed."""
    target = Path(os.path.realpath(path))  # a link stays one; its file is written, as open() would do
    temporary = target.with_name(f".layoutpack-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:  # not mkstemp: the permission bits are to follow the umask
            if force and target.exists():
                shutil.copymode(target, temporary)  # overwriting a private file must not publish it, not for a moment
            npy.write_array(Sink(file), array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        publish(temporary, target, force)
    finally:
        temporary.unlink(missing_ok=True)


def publish(temporary: Path, target: Path, force: bool) -> None:
    """Give the finished file its name; without `force` never a name that is taken, be it since a moment ago."""
    if not force:
        try:
            os.link(temporary, target)
            return
        except FileExistsError:
            raise already_exists(target) from None
        except OSError:  # a file system without hard links: claim the name first
            open(target, "xb").close()
    os.replace(temporary, target)


def already_exists(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "exists already; --force overwrites it", str(path))


def check_output(path: Path, force: bool) -> None:
    """Fail before the work where writing would fail after it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if os.path.lexists(path) and not force:
        raise already_exists(path)


def check_storable(result: np.dtype[Any]) -> None:
    """A .npy file keeps only what NumPy itself can describe: it would turn bfloat16 into two raw bytes."""
    description = npy.dtype_to_descr(result)
    if npy.descr_to_dtype(description) != result:
        raise ValueError(f"a .npy file cannot keep dtype {result}: it would come back as {description}")


def describe_dtype(found: np.dtype[Any]) -> str:
    raw = found.kind == "V" and found.names is None
    return f"{found.str}: raw bytes, which is how NumPy stores bfloat16 and its like" if raw else str(found)


# ---- commands ----


def run_demo(arguments: argparse.Namespace) -> int:
    return _demo.run(arguments.image, arguments.output, save=partial(write_npy, force=True))


def run_convert(arguments: argparse.Namespace) -> int:
    """Convert one file."""
    check_output(arguments.output, arguments.force)
    x = open_npy(arguments.input)
    if arguments.dtype is not None:
        check_storable(arguments.dtype)
    y = lp.repack(
        x,
        arguments.source,
        arguments.target,
        shape=arguments.shape,
        channels=arguments.channels,
        fill=arguments.fill,
        dtype=arguments.dtype,
        threads=arguments.threads,
        **block_sizes(arguments),
    )
    write_npy(arguments.output, y, force=arguments.force)
    print(
        f"{arguments.output}: {arguments.source.name} {x.shape} {x.dtype} -> "
        f"{arguments.target.name} {y.shape} {y.dtype}, {y.nbytes:,} bytes"
    )
    return 0


def run_info(arguments: argparse.Namespace) -> int:
    """Describe one file."""
    x = open_npy(arguments.file)
    orders = [name for name, holds in (("C", x.flags.c_contiguous), ("Fortran", x.flags.f_contiguous)) if holds]
    rows = [
        ("file", f"{arguments.file}, {arguments.file.stat().st_size:,} bytes"),
        ("shape", str(x.shape)),
        ("dtype", describe_dtype(x.dtype)),
        ("strides", f"{x.strides} bytes"),
        ("order", " and ".join(orders)),
        ("size", f"{x.size:,} elements, {x.nbytes:,} bytes"),
    ]
    if x.ndim in MEMORY_FORMAT_RANKS:
        dense = sorted(f.name for f in lp.memory_formats(x))
        rows.append(("dense in", ", ".join(dense) or "no memory format of its rank"))
        rows.append(("suggestion", lp.suggest_memory_format(x).name))
    else:
        rows.append(("dense in", f"memory formats are defined for 3, 4 and 5 axes, not for {x.ndim}"))
    print(_demo.table(rows, left=2))
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    """Send one file through formats and back."""
    x = open_npy(arguments.file)
    if x.ndim < 2:
        raise ValueError(f"{arguments.file}: at least 2 axes are needed, got shape {x.shape}")
    source = arguments.source or as_format(NATURAL_ORDERS.get(x.ndim, "ND"))
    if not source.is_batched and len(source.named_axes) != x.ndim:
        raise ValueError(f"{arguments.file}: --from {source.name} does not name the axes of shape {x.shape}")
    outcomes = [
        (target.name, *round_trip(x, source, target, arguments))
        for target in arguments.targets or fitting_formats(source, x.ndim)
    ]
    print(f"{arguments.file}: {source.name} {x.shape} {describe_dtype(x.dtype)}")
    print(_demo.table([(name, verdict) for name, verdict, _ in outcomes], left=2))
    return 0 if all(fine for *_, fine in outcomes) else 1


def fitting_formats(source: Format, rank: int) -> list[Format]:
    """Channels (or whatever axis comes second) moved to the end, and every row of the table that has these axes."""
    axes = source.named_axes
    matrices = [row for row in FORMATS.values() if row.is_batched and len(row.named_axes) <= rank]
    if source.is_batched:
        return matrices
    moved = as_format("".join((axes[0], *axes[2:], *axes[1:2])))
    tensors = [row for row in FORMATS.values() if not row.is_batched and set(row.named_axes) == set(axes)]
    return [moved, *tensors, *matrices]


def round_trip(x: Array, source: Format, target: Format, arguments: argparse.Namespace) -> tuple[str, bool]:
    """What came of one format, in words and as a truth value."""
    try:
        packed = lp.repack(x, source, target, threads=arguments.threads, **block_sizes(arguments, target))
        back = lp.repack(packed, target, source, shape=x.shape, threads=arguments.threads)
    except (ValueError, TypeError) as error:
        return f"FAILED: {one_line(error)}", False
    if not _demo.same_bytes(back, x):
        return f"{packed.shape} FAILED: the way back gives other bytes", False
    return f"{packed.shape} ok", True


# ---- bench ----


def run_bench(arguments: argparse.Namespace) -> int:
    """Time one conversion."""
    source, target, threads = arguments.source, arguments.target, arguments.threads
    if not source.is_plain and not target.is_plain:
        arguments.usage_error("one of --from and --to must be a plain order such as NCHW")
    plain = noise(arguments.shape, arguments.dtype)
    blocks = block_sizes(arguments)
    if source.is_plain:
        x, out = plain, lp.repack(plain, source, target, **blocks)
        numpy_call = numpy_way(plain, source, out, target, packing=True)
    else:
        x, out = lp.repack(plain, target, source, **blocks), plain.copy()
        numpy_call = numpy_way(out, target, x, source, packing=False)
        blocks = Blocks(c0=None, n0=None, m0=None)  # the storage shows them
    moved = x.nbytes + out.nbytes
    memory, copied = (noise((moved // 2,), np.dtype("u1")) for _ in range(2))
    calls: dict[str, Callable[[], object]] = {
        "layoutpack": lambda: lp.repack(x, source, target, out=out, threads=threads, **blocks)
    }
    if numpy_call is not None:
        calls["NumPy"] = numpy_call
    calls["memcpy"] = lambda: np.copyto(copied, memory)
    times = _demo.best_times(calls, arguments.repeat)

    print(
        f"{source.name} {x.shape} -> {target.name} {out.shape}, {x.dtype}, "
        f"threads: {threads or lp.get_num_threads()}, best of {arguments.repeat}"
    )
    rows = [["", "time", "GB/s", "of memcpy"]]
    for name, seconds in times.items():
        speed, share = moved / seconds / 1e9, times["memcpy"] / seconds
        rows.append([name, _demo.milliseconds(seconds), f"{speed:.2f}", f"{share:.0%}"])
    print(_demo.table(rows, left=1))
    print("GB/s: bytes read and bytes written; memcpy: as many bytes with np.copyto, in one thread")
    return 0


def noise(extents: Sequence[int], of: np.dtype[Any]) -> Array:
    """An array of random bytes: zeros would all be the one page that the system has not written yet."""
    size = math.prod(extents) * of.itemsize
    return np.random.default_rng(0).integers(0, 256, size, np.uint8).view(of).reshape(extents)


def numpy_way(
    plain: Array, order: Format, packed: Array, layout: Format, *, packing: bool
) -> Callable[[], None] | None:
    """The conversion as a NumPy user writes it, into kept arrays: one copy between views with the same indices, and
    where an axis is padded another one through a padded array. None where the axes do not match one to one."""
    axes = tuple(f"#{i}" for i in range(plain.ndim - len(order.named_axes))) + order.named_axes
    if not layout.is_batched and set(layout.named_axes) != set(axes):
        return None
    blocks = layout.block_sizes(layout.blocks_from_shape(packed.shape), packed.dtype)
    storage = layout.bind(axes if layout.is_batched else layout.named_axes, blocks)
    cuts = {axis: levels(storage, axis) for axis in axes}
    split = [factor for cut in cuts.values() for factor in cut]
    stored = [factor for fused in storage.physical for factor in fused]
    if set(split) != set(stored):  # blocked groups, or an outermost index left out
        return None

    extents = dict(zip(axes, plain.shape, strict=True))
    whole = tuple(math.prod(storage.extent(factor, extents) for factor in cut) for cut in cuts.values())
    padded = plain if whole == plain.shape else np.zeros(whole, plain.dtype)
    valid = padded[tuple(map(slice, plain.shape))]
    inner = padded.reshape([storage.extent(factor, extents) for factor in split])
    inner = inner.transpose([split.index(factor) for factor in stored])
    outer = packed.reshape(inner.shape)

    def pack() -> None:
        if padded is not plain:
            np.copyto(valid, plain)
        np.copyto(outer, inner)

    def unpack() -> None:
        np.copyto(inner, outer)
        if padded is not plain:
            np.copyto(plain, valid)

    return pack if packing else unpack


def levels(storage: Storage, axis: str) -> list[Factor]:
    """The indices that a logical axis is cut into, outermost first."""
    depth = len(storage.blocks.get(axis, ()))
    return [Factor(axis, level) for level in range(depth, -1, -1)] if depth else [Factor(axis, None)]
