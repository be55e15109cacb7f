"""Write the speed tables and the chart of the README: every case beside memcpy and every installed rival.

Run it from the top of the source tree, with layoutpack and what is wanted of torch, opencv-python-headless, onnx,
onnxruntime and onednn-cpu-gomp installed::

    python asv_bench/table.py

It takes some minutes. A round calls memcpy and then each library once for some milliseconds, so that the
noise of the machine meets all of them; figures are the best of the rounds. Every result is compared before it is timed.
"""

import argparse
import itertools
import math
import os
import platform
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import layoutpack as lp

sys.path.insert(0, str(Path(__file__).resolve().parent))
from benchmarks import bench_images
from benchmarks.rivals import LIBRARIES, Case, Run, aligned

ROOT = Path(__file__).resolve().parent.parent
MARKS = {
    "layouts": ("<!-- speed table -->", "<!-- end of the speed table -->"),
    "images": ("<!-- table of images -->", "<!-- end of the table of images -->"),
}

HOPELESS = 0.5  # seconds: one call is enough to see (oneDNN's float16 without AVX-512 takes 2)

F, H, U = "float32", "float16", "uint8"
CASES = [
    *[Case("NCHW", "NHWC", F, s) for s in ((1, 3, 224, 224), (32, 3, 224, 224), (8, 64, 56, 56), (32, 256, 56, 56))],
    Case("NCHW", "NHWC", F, (8, 2048, 7, 7)),
    Case("NCW", "NWC", F, (64, 768, 1500)),
    *[Case("NCHW", "NHWC", H, s) for s in ((8, 64, 56, 56), (32, 256, 56, 56))],
    Case("NCW", "NWC", H, (1, 4096, 4096)),
    *[Case("NCHW", "NHWC", U, s) for s in ((8, 64, 56, 56), (32, 256, 56, 56), (32, 3, 224, 224))],
    *[Case("NHWC", "NCHW", F, s) for s in ((32, 3, 224, 224), (32, 256, 56, 56))],
    Case("NHWC", "NCHW", H, (32, 256, 56, 56)),
    *[Case("NHWC", "NCHW", U, s) for s in ((1, 3, 224, 224), (32, 3, 224, 224), (32, 256, 56, 56))],
    *[Case("NCHW", "NC1HWC0", F, s) for s in ((8, 64, 56, 56), (32, 256, 56, 56), (1, 255, 13, 13))],
    *[Case("NCHW", "NC1HWC0", H, s) for s in ((1, 3, 224, 224), (8, 64, 56, 56), (32, 256, 56, 56))],
    *[Case("NCHW", "NC1HWC0", H, s) for s in ((8, 2048, 7, 7), (1, 255, 13, 13))],
    Case("NCHW", "NC1HWC0", U, (32, 256, 56, 56)),
    Case("NC1HWC0", "NCHW", F, (32, 256, 56, 56)),
    *[Case("NC1HWC0", "NCHW", H, s) for s in ((32, 256, 56, 56), (1, 255, 13, 13))],
    *[Case("NHWC", "NC1HWC0", d, (32, 256, 56, 56)) for d in (F, H)],
    Case("NC1HWC0", "NHWC", H, (32, 256, 56, 56)),
    *[Case("ND", "FRACTAL_NZ", d, (4096, 4096)) for d in (H, F, U)],
    *[Case("ND", "FRACTAL_NZ", H, s) for s in ((1, 128, 768), (12, 384, 384))],
    Case("FRACTAL_NZ", "ND", H, (4096, 4096)),
    *[Case("NCHW", "FRACTAL_Z", d, (512, 512, 3, 3)) for d in (H, F)],
    Case("NCHW", "FRACTAL_Z", H, (64, 3, 7, 7)),
    Case("FRACTAL_Z", "NCHW", H, (512, 512, 3, 3)),
    Case("OIHW", "OIHW16i16o", F, (512, 512, 3, 3)),
]


def slot(run, seconds):
    """Mean time of a call over some calls, after a warm one."""
    n, start = 0, time.perf_counter()
    run()
    if (spent := time.perf_counter() - start) > HOPELESS:
        return spent
    start = time.perf_counter()
    while True:
        run()
        n += 1
        spent = time.perf_counter() - start
        if spent >= seconds:
            return spent / n


def memcpy(x, offset, threads, pool):
    """A copy of the input on so many threads."""
    out = aligned(x.shape, x.dtype, offset)
    if threads == 1:
        return lambda: np.copyto(out, x)
    parts = list(zip(np.array_split(out.reshape(-1), threads), np.array_split(x.reshape(-1), threads), strict=True))
    return lambda: list(pool.map(lambda part: np.copyto(*part), parts))


def measure(run, offset, threads, budget, pool):
    """Best seconds by library, and the share of memcpy that layoutpack reaches."""
    calls = {library: run.make(library, threads) for library in LIBRARIES}
    copies = [memcpy(run.x, offset, t, pool) for t in range(1, threads + 1)]
    best, copied = interleave(calls, copies, budget)
    share = (run.x.nbytes + run.out.nbytes) / (2 * run.x.nbytes) * copied / best["layoutpack"]
    return best, share


def interleave(calls, copies, budget):
    """Best seconds of each call that there is, and of the best copy, in rounds."""
    calls = {library: call for library, call in calls.items() if call is not None}
    best = dict.fromkeys(calls, math.inf)
    copied, rounds, start = math.inf, 0, time.perf_counter()
    while rounds < 3 or time.perf_counter() - start < budget:
        rounds += 1
        for copy in copies:
            copied = min(copied, slot(copy, 0.002))
        for library, call in calls.items():
            if rounds > 1 and best[library] > HOPELESS:
                continue
            time.sleep(0.001)  # idle workers of the library before stop spinning
            best[library] = min(best[library], slot(call, 0.002))
    return best, copied


def machine():
    """The processor, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        fields = {key.strip(): value.strip() for key, value in fields.items()}
        model = f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']})"
    except (OSError, KeyError):
        model = platform.processor()
    caches = ", ".join(f"{name} {size >> 10} KB" for name, size in lp.show_config()["caches"].items())
    return f"{model}, {os.cpu_count()} CPUs, {caches}"


def chart(rows, path):
    """Times faster than the best rival, one bar a case."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [str(case) for case, _ in rows][::-1]
    values = [settings[16, 1][1] for _, settings in rows][::-1]
    figure, axes = pyplot.subplots(figsize=(9, 11), layout="constrained")
    axes.barh(names, values, color=["#2a6f97" if v >= 1 else "#c1121f" for v in values])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("times faster than the best rival (1 thread, NumPy's alignment)")
    axes.tick_params(axis="y", labelsize=7)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=0.5, help="seconds for each case, alignment and thread count")
    parser.add_argument("--match", default="", help="only cases whose name holds this; the README is left alone")
    parser.add_argument("--only", choices=MARKS, help="one of the two tables")
    options = parser.parse_args()
    threads = [t for t in (1, 2) if t <= (os.cpu_count() or 1)]
    if options.only != "images":
        layouts(options, [(offset, t) for offset in (0, 16) for t in threads])
    if options.only != "layouts":
        images(options, threads)


def write(name, text, options):
    """Print a table, and put it between its marks in the README."""
    print(text)
    if not options.match:
        begin, end = MARKS[name]
        readme = ROOT / "README.md"
        before, rest = readme.read_text().split(begin)
        readme.write_text(f"{before}{begin}\n\n{text}\n{end}{rest.split(end)[1]}")


def layouts(options, settings):
    """The table of conversions that move bytes, and the chart."""
    rows, fresh = [], []
    with ThreadPoolExecutor(2) as pool:
        for case in CASES:
            if options.match not in str(case):
                continue
            row = {}
            runs = {offset: Run(case, offset, check=True) for offset in (0, 16)}
            for offset, threads in settings:
                best, share = measure(runs[offset], offset, threads, options.budget, pool)
                rivals = {library: t for library, t in best.items() if library != "layoutpack"}
                rival = min(rivals, key=rivals.get)
                by_numpy = best.get("numpy", math.nan) / best["layoutpack"]
                row[offset, threads] = share, rivals[rival] / best["layoutpack"], rival, by_numpy
            rows.append((case, row))
            best, _ = interleave(runs[16].make_fresh(), [], options.budget)
            fresh.append(best["numpy"] / best["layoutpack"])
            told = "; ".join(f"{s:.2f}, {t:.1f} x {name}" for s, t, name, _ in row.values())
            print(f"{case}: {told}", flush=True)
    write("layouts", table(rows, settings, fresh), options)
    if not options.match:
        chart(rows, ROOT / "asv_bench" / "speed.svg")


def images(options, threads):
    """The table of conversions that compute: times, and how many times longer each rival takes."""
    libraries = bench_images.LIBRARIES
    lines = [
        f"Machine: {machine()}; instruction set {lp.show_config()['dispatch']['chosen']}.",
        "Times of layoutpack, and how many times longer the others take.",
        "",
        f"| conversion | threads | layoutpack | {' | '.join(libraries[1:])} | share of memcpy |",
        f"| --- |{' --- |' * (len(libraries) + 2)}",
    ]
    for result in bench_images.PackImages.params[1]:
        for size in bench_images.SIZES:
            frames = bench_images.photos(*size)
            name = f"uint8 HWC {'x'.join(map(str, size))} -> {result}, normalised"
            for n in threads:
                calls = {library: bench_images.make(library, frames, *result.split(), n) for library in libraries}
                lines += images_row(name, n, calls, [], 0, options)
    for dst, dtype, shape in itertools.product(*bench_images.Narrow.params[1:]):
        name = f"float32 NCHW {'x'.join(map(str, shape))} -> {dst} {dtype}"
        for n in threads:
            made = {library: bench_images.narrow(library, dst, dtype, shape, n) for library in libraries}
            _, copy, moved, copied = made["layoutpack"]
            calls = {library: call for library, (call, *_) in made.items()}
            lines += images_row(name, n, calls, [copy], moved / copied, options)
    write("images", "\n".join(lines), options)


def images_row(name, threads, calls, copies, moved, options):
    """One line of the table: best times of the calls, beside a copy where that says something."""
    if options.match not in name:
        return []
    best, copied = interleave(calls, copies, options.budget)
    mine = best["layoutpack"]
    cells = [f"{best[library] / mine:.1f}" if library in best else "" for library in calls if library != "layoutpack"]
    share = f"{moved * copied / mine:.2f}" if copies else ""
    line = f"| {' | '.join([name, str(threads), f'{mine * 1e6:.0f} us', *cells, share])} |"
    print(line, flush=True)
    return [line]


def table(rows, settings, fresh):
    """The table as Markdown; `fresh`: times faster than NumPy where both make a new result."""
    present = ", ".join(library for library in LIBRARIES if library != "layoutpack")
    head = " | ".join(f"{'A' if offset == 0 else 'N'}{threads}" for offset, threads in settings)
    lines = [
        f"Machine: {machine()}; instruction set {lp.show_config()['dispatch']['chosen']}. Rivals: {present}.",
        "",
        f"| conversion | {head} |",
        f"| --- |{' --- |' * len(settings)}",
    ]
    for case, row in rows:
        cells = " | ".join(f"{s:.2f}, {t:.1f} x {name}" for s, t, name, _ in row.values())
        lines.append(f"| {case} | {cells} |")
    times = [t for _, row in rows for _, t, _, _ in row.values()]
    by_numpy = [n for _, row in rows for *_, n in row.values() if not math.isnan(n)]
    lines += [
        "",
        f"Geometric mean: {statistics.geometric_mean(times):.1f} times the best rival of each case, "
        f"{statistics.geometric_mean(by_numpy):.1f} times NumPy's copy into a kept output (one thread), "
        f"{statistics.geometric_mean(fresh):.1f} times NumPy's formula where both make a new result (N1).",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
