"""Write the speed table and chart of the README: every case beside memcpy and every installed rival.

Run it from the top of the source tree, with layoutpack and what is wanted of torch, opencv-python-headless, onnx,
onnxruntime and onednn-cpu-gomp installed::

    python asv_bench/table.py

It takes about ten minutes. A round calls memcpy and then each library once for some milliseconds, so that the noise of
the machine meets all of them; figures are the best of the rounds. Every result is compared before it is timed.
"""

import argparse
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
from benchmarks.rivals import LIBRARIES, Case, Run, aligned

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- speed table -->", "<!-- end of the speed table -->"

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
    run()
    n, start = 0, time.perf_counter()
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
    calls = {library: call for library, call in calls.items() if call is not None}
    copies = [memcpy(run.x, offset, t, pool) for t in range(1, threads + 1)]
    best = dict.fromkeys(calls, math.inf)
    copied, rounds, start = math.inf, 0, time.perf_counter()
    while rounds < 3 or time.perf_counter() - start < budget:
        rounds += 1
        for copy in copies:
            copied = min(copied, slot(copy, 0.002))
        for library, call in calls.items():
            time.sleep(0.001)  # idle workers of the library before stop spinning
            best[library] = min(best[library], slot(call, 0.002))
    share = (run.x.nbytes + run.out.nbytes) / (2 * run.x.nbytes) * copied / best["layoutpack"]
    return best, share


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
    options = parser.parse_args()
    rows = []
    settings = [(offset, threads) for offset in (0, 16) for threads in (1, 2) if threads <= (os.cpu_count() or 1)]
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
            told = "; ".join(f"{s:.2f}, {t:.1f} x {name}" for s, t, name, _ in row.values())
            print(f"{case}: {told}", flush=True)
    text = table(rows, settings)
    print(text)
    if not options.match:
        readme = ROOT / "README.md"
        before, rest = readme.read_text().split(BEGIN)
        readme.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}")
        chart(rows, ROOT / "asv_bench" / "speed.svg")


def table(rows, settings):
    """The table as Markdown."""
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
        f"{statistics.geometric_mean(by_numpy):.1f} times NumPy (one thread).",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
