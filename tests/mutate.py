"""Break the planner and its neighbours in many ways, one at a time, and see that the tests notice each.

Run `python tests/mutate.py` where layoutpack, not editable, and its test dependencies are installed; arguments choose
mutants by name. Exit status 0 only if the tests pass on an untouched copy of the package and fail on every broken one.
Not part of the suite.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import layoutpack

TESTS = Path(__file__).parent
PACKAGE = Path(layoutpack.__file__).parent
PROCESSES = 2
TIMEOUT = 150  # seconds

# What is run for a mutant, by its file. The quickest to notice come first, since the first failure ends a run.
SUITES = {
    "_plan.py": {
        "test_golden.py": [],
        "test_repack.py": [
            *("test_tags_in_both_spellings", "test_formats_of_ones_own", "test_reblocking", "test_plain_orders"),
            *("test_a_copy_where_the_bytes_differ", "test_large_strided_arrays"),
        ],
        "test_numbers.py": ["test_each_channel_has_its_own", "test_from_blocks_and_to_others"],
        "test_errors.py": ["test_refused"],
    },
    "_tiles.py": {
        "test_golden.py": [],
        "test_streaming.py": ["test_every_way_and_address"],
        "test_tilings.py": ["test_every_way", "test_every_tile_fits_the_scratch", "test_views"],
        "test_repack.py": ["test_sizes"],
        "test_numbers.py": ["test_each_channel_has_its_own", "test_views"],
    },
    "_conversion.py": {
        "test_calls.py": [],
        "test_repack.py": ["test_fill", "test_casting_where_input_and_out_overlap"],
    },
    "_arrays.py": {"test_errors.py": ["test_out_refused_unwritten"]},
    "strides.py": {"test_strides.py": ["test_conversion_of_every_kind_of_view", "test_out_over_the_input"]},
}


class Mutant(NamedTuple):
    """A text that occurs once in a file of the package, and what takes its place."""

    file: str
    text: str
    replacement: str


MUTANTS = {
    # extents, digits and pieces of axes
    "a stored length is not compared": Mutant("_plan.py", "if n != want:", "if False:"),
    "padding rounds down": Mutant("_plan.py", "return -(-extent // block) * block", "return extent // block * block"),
    "outer digits lose their weight": Mutant(
        "_plan.py", "digits += [Digit(d.block * below,", "digits += [Digit(d.block,"
    ),
    "the tail of an axis is dropped": Mutant("_plan.py", "if padded > n * period:", "if False:"),
    "the tail has no padding": Mutant(
        "_plan.py", "segments(padded - at, extent - at,", "segments(extent - at, extent - at,"
    ),
    "padding is read from the source": Mutant(
        "_plan.py", "segments(padded - at, extent - at,", "segments(padded - at, padded - at,"
    ),
    "the strides of the tail are swapped": Mutant(
        "_plan.py",
        "ahead = at // src[0][0] * src[0][1], at // dst[0][0] * dst[0][1]",
        "ahead = at // dst[0][0] * dst[0][1], at // src[0][0] * src[0][1]",
    ),
    "a segment runs over the border of a block": Mutant(
        "_plan.py", "step = min(step, block - at % block)", "step = min(step, block)"
    ),
    "blocks before a segment are not skipped": Mutant(
        "_plan.py", "offsets[side] = at // block * stride", "offsets[side] = 0"
    ),
    "the valid part is not carried on": Mutant(
        "_plan.py", "inside = segments(step, valid - done,", "inside = segments(step, valid,"
    ),
    "the strides of a loop are swapped": Mutant(
        "_plan.py", "Loop(n, valid, src[0][1], dst[0][1], factor)", "Loop(n, valid, dst[0][1], src[0][1], factor)"
    ),
    # loops, boxes and groups
    "a loop with padding is merged": Mutant("_plan.py", "            and inner.valid == inner.extent\n", ""),
    "loops with a gap are merged": Mutant("_plan.py", "            and outer.src == inner.src * inner.extent\n", ""),
    "only one side of a loop is turned round": Mutant(
        "_plan.py", "loop._replace(src=-loop.src, dst=-loop.dst,", "loop._replace(dst=-loop.dst,"
    ),
    "a turned loop begins one too early": Mutant(
        "_plan.py", "src_offset += (loop.extent - 1) * loop.src", "src_offset += (loop.extent - 2) * loop.src"
    ),
    "words grow into padding": Mutant(
        "_plan.py",
        "return loop.valid == loop.extent and loop.src == loop.dst == width",
        "return loop.src == loop.dst == width",
    ),
    "padding counts as being in place": Mutant(
        "_plan.py", "loop.src == loop.dst and loop.valid == loop.extent for", "loop.src == loop.dst for"
    ),
    "the last chunk is forgotten": Mutant(
        "_plan.py", "chunks = math.prod(-(-loop.extent // step)", "chunks = math.prod(loop.extent // step"
    ),
    # panels and tiles
    "rows are copied whatever their stride": Mutant(
        "_tiles.py", "if fast.src == src_width and fast.dst == width:", "if fast.dst == width:"
    ),
    "any rows are transposed": Mutant("_tiles.py", "if loops[row].src == src_width or near:", "if True:"),
    "padded panels are gathered": Mutant("_tiles.py", "        if padded:\n", "        if False:\n"),
    "padded rows are streamed as one run": Mutant(
        "_tiles.py", "if streams and not padded and pitch", "if streams and pitch"
    ),
    "padded planes come together": Mutant(
        "_tiles.py", "if few and loops[plane].valid == loops[plane].extent:", "if few:"
    ),
    "a tile outgrows the scratch": Mutant("_tiles.py", "_SCRATCH = 48 * 1024", "_SCRATCH = 256 * 1024"),
    # numbers on the way
    "the factors of a tail begin anew": Mutant("_plan.py", "dst[0][1], at * factor", "dst[0][1], 0"),
    "the factors of a segment begin anew": Mutant("_plan.py", "offsets[1], done * factor)", "offsets[1], 0)"),
    "loops of different factors are merged": Mutant(
        "_plan.py", "            and outer.factor == inner.factor * inner.extent\n", ""
    ),
    "numbers are taken for neighbours in the output": Mutant("_tiles.py", '"strided" if col.dst != width else ', ""),
    "numbers are moved in the wrong size": Mutant(
        "_tiles.py", 'panel.kernel == "transpose" and row.src != cast.src_width', "False"
    ),
    # the border
    "padding is never filled": Mutant(
        "_conversion.py", "if fill is None else fill_bytes(fill, result_dtype, name)", ""
    ),
    "a plan for other strides is taken": Mutant(
        "_conversion.py", "if last_key == key:", "if last_key and last_key[1:] == key[1:]:"
    ),
    "input and out may overlap": Mutant("_conversion.py", "elif share_memory(source, target):", "elif False:"),
    "out is not looked at": Mutant("_arrays.py", "        if stride < reach:\n", "        if stride <= 0:\n"),
    "any dense array is taken for the right one": Mutant(
        "strides.py", "if source.strides == strides:", "if source.flags.forc or source.strides == strides:"
    ),
    "memory formats may overlap": Mutant("strides.py", "if share_memory(source, target):", "if False:"),
}


def copied(folder, mutant=None):
    """The package in a folder, broken or not."""
    shutil.copytree(PACKAGE, folder / "layoutpack", ignore=shutil.ignore_patterns("__pycache__"))
    if mutant:
        path = folder / "layoutpack" / mutant.file
        source = path.read_text()
        if source.count(mutant.text) != 1:
            raise SystemExit(f"{mutant.file}: {mutant.text!r} occurs {source.count(mutant.text)} times")
        path.write_text(source.replace(mutant.text, mutant.replacement))
    return folder


def python(folder, *arguments):
    """Run Python with the package of that folder; the exit status (None: it took too long) and what was printed."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    try:
        done = subprocess.run(
            command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


def selected(files):
    """The arguments of pytest for the suites of these files of the package."""
    chosen = [
        str(TESTS / file) + (f"::{test}" if test else "")
        for name in files
        for file, tests in SUITES[name].items()
        for test in tests or [""]
    ]
    return list(dict.fromkeys(chosen))


def tested(name, folder):
    """Whether the outcome is the one that is due: failed tests or a crash, but for the untouched copy."""
    start = time.monotonic()
    suite = selected([MUTANTS[name].file] if name in MUTANTS else SUITES)
    status, printed = python(folder, "-m", "pytest", "-qx", "--tb=no", "-p", "no:cacheprovider", *suite)
    killed = status is not None and (status == 1 or status < 0)
    failed = [line.split(" - ")[0] for line in printed.splitlines() if line.startswith("FAILED")]
    how = " ".join(failed) if status == 1 else "by a crash" if killed else ""
    verdict = "killed" if killed else "passed" if status == 0 else f"NO VERDICT (exit status {status})"
    print(f"{time.monotonic() - start:5.1f} s  {name}: {verdict} {how}", flush=True)
    return status == 0 if name == "untouched" else killed


def main(names):
    with tempfile.TemporaryDirectory() as work:
        chosen = {name: mutant for name, mutant in MUTANTS.items() if not names or name in names}
        folders = {name: copied(Path(work, str(i)), mutant) for i, (name, mutant) in enumerate(chosen.items(), 1)}
        folders = {"untouched": copied(Path(work, "0"))} | folders
        _, where = python(folders["untouched"], "-c", "import layoutpack; print(layoutpack.__file__)")
        if work not in where:
            raise SystemExit(f"the tests would use {where.strip()}; install layoutpack without -e")
        with ThreadPoolExecutor(PROCESSES) as pool:
            right = list(pool.map(tested, folders, folders.values()))
    print(f"{sum(right)} of {len(right)} as they should be")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
