"""Default threads against one thread: back to back, and after a pause as between the requests of a server."""

import statistics
import time

import numpy as np

import layoutpack as lp

from .common import filled

SIZES = {"1 MB": (1, 64, 64, 64), "2 MB": (1, 64, 64, 128), "4 MB": (1, 64, 128, 128), "16 MB": (4, 64, 128, 128)}
PAUSES = {"hot": 0.0, "after 20 ms": 0.02}


class Threads:
    """NCHW to NC1HWC0 of float32; sizes are those of the output."""

    params = [list(SIZES), list(PAUSES)]
    param_names = ["size", "pause"]
    number = 1
    timeout = 120

    def setup(self, size, pause):
        self.x = filled(SIZES[size], "float32")
        self.out = lp.to_nc1hwc0(self.x)
        self.times(None, 3, 0)

    def times(self, threads, n, pause):
        times = []
        for _ in range(n):
            time.sleep(pause)
            start = time.perf_counter()
            lp.to_nc1hwc0(self.x, out=self.out, threads=threads)
            times.append(time.perf_counter() - start)
        return times

    def both(self, pause, n=200):
        several, one = [], []
        for _ in range(10):  # turn by turn
            several += self.times(None, n // 10, PAUSES[pause])
            one += self.times(1, n // 10, PAUSES[pause])
        return several, one

    def track_median_ratio(self, size, pause):
        several, one = self.both(pause)
        return statistics.median(several) / statistics.median(one)

    def track_p99_ratio(self, size, pause):
        several, one = self.both(pause)
        return float(np.quantile(several, 0.99) / np.quantile(one, 0.99))

    def track_cpu_ms(self, size, pause):
        spent = time.process_time()
        self.times(None, 100, PAUSES[pause])
        return (time.process_time() - spent) * 10

    track_median_ratio.unit = track_p99_ratio.unit = "time with default threads / with one"
    track_cpu_ms.unit = "ms of CPU a call"
