"""Packed formats, both ways, on shapes of real networks."""

import numpy as np

import layoutpack as lp

from .common import _Rivals, filled
from .rivals import LIBRARIES, Case

IMAGES = [(1, 3, 224, 224), (8, 64, 56, 56), (1, 255, 13, 13), (16, 256, 56, 56)]
MATRICES = [(1, 128, 768), (12, 384, 384), (4096, 4096)]
WEIGHTS = [(64, 3, 7, 7), (512, 512, 3, 3)]
DTYPES = ["uint8", "float16", "float32"]


class NC1HWC0(_Rivals):
    """NC1HWC0 from and to plain orders."""

    PAIRS = [("NCHW", "NC1HWC0"), ("NC1HWC0", "NCHW"), ("NHWC", "NC1HWC0"), ("NC1HWC0", "NHWC")]
    params = [LIBRARIES, [" ".join(pair) for pair in PAIRS], DTYPES, IMAGES]
    param_names = ["library", "pair", "dtype", "shape"]

    def case(self, pair, dtype, shape):
        return Case(*pair.split(), dtype, shape)


class FractalNZ(NC1HWC0):
    """Matrices to FRACTAL_NZ and back."""

    params = [LIBRARIES, ["ND FRACTAL_NZ", "FRACTAL_NZ ND"], DTYPES, MATRICES]


class FractalZ(NC1HWC0):
    """Weights to FRACTAL_Z and back."""

    params = [LIBRARIES, ["NCHW FRACTAL_Z", "FRACTAL_Z NCHW"], DTYPES, WEIGHTS]


class Weights(NC1HWC0):
    """Weights to oneDNN's blocks of 16 x 16."""

    params = [LIBRARIES, ["OIHW OIHW16i16o"], ["float32"], [(512, 512, 3, 3)]]


class Reblock:
    """From one block size to another; NumPy goes by way of NCHW."""

    params = [["layoutpack", "numpy"], [(8, 64, 56, 56)], [(16, 8), (8, 16), (16, 12)]]
    param_names = ["library", "shape", "blocks"]

    def setup(self, library, shape, blocks):
        b1, b2 = blocks
        n, c, h, w = shape
        x = filled(shape, "float16")
        y, z = lp.to_nc1hwc0(x, c0=b1), lp.to_nc1hwc0(x, c0=b2)
        plain = np.empty(shape, x.dtype)
        whole = np.zeros((n, -(-c // b2) * b2, h, w), x.dtype)

        def by_way_of_nchw():
            np.copyto(plain, y.transpose(0, 1, 4, 2, 3).reshape(n, -1, h, w)[:, :c])
            np.copyto(whole[:, :c], plain)
            np.copyto(z, whole.reshape(n, -1, b2, h, w).transpose(0, 1, 3, 4, 2))

        self.run = {
            "layoutpack": lambda: lp.repack(y, "NC1HWC0", "NC1HWC0", out=z, channels=c, c0=b2),
            "numpy": by_way_of_nchw,
        }[library]

    def time_reblock(self, *_):
        self.run()
