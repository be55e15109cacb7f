"""What the benchmarks share.

Results go to kept arrays, so that page faults are measured only where a benchmark says so. Every array is filled in
``setup``: untouched memory reads faster than it should.
"""

import time

import numpy as np

from .rivals import LIBRARIES, Run, aligned


def filled(shape, dtype):
    """An array of small numbers with all its pages touched."""
    x = np.empty(shape, dtype)
    x[...] = np.arange(shape[-1]) % 100
    return x


def fastest(calls, seconds=0.1):
    """The best time of each call, interleaved, so that the noise of the machine meets all of them."""
    best = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            call()
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


class _Rivals:
    """One conversion in every library; a class that inherits says which by `case`."""

    params = [LIBRARIES]
    param_names = ["library"]

    def setup(self, library, *parameters):
        run = Run(self.case(*parameters))
        self.nbytes = run.x.nbytes + run.out.nbytes
        self.run = run.make(library)
        if self.run is None:
            raise NotImplementedError(f"{library} has no such conversion")
        copy = aligned(run.x.shape, run.x.dtype, 16)
        self.memcpy, self.copied = lambda: np.copyto(copy, run.x), 2 * run.x.nbytes

    def time_convert(self, *_):
        self.run()

    def track_share_of_memcpy(self, *_):
        mine, memcpy = fastest([self.run, self.memcpy])
        return self.nbytes / mine / (self.copied / memcpy)

    track_share_of_memcpy.unit = "bytes moved a second, relative to memcpy"
