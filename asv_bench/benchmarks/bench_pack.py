"""Packed formats, both ways, on shapes of real networks."""

import numpy as np

import layoutpack as lp

from .common import blocked, filled, padded

IMAGES = [(1, 3, 224, 224), (8, 64, 56, 56), (8, 2048, 7, 7), (1, 255, 13, 13), (32, 256, 56, 56)]
MATRICES = [(128, 768), (12, 384, 384), (4096, 4096)]
WEIGHTS = [(64, 3, 7, 7), (512, 512, 3, 3)]
DTYPES = ["uint8", "float16", "float32"]
LIBRARIES = ["layoutpack", "numpy"]


class _Pair:
    params = [LIBRARIES, DTYPES]
    param_names = ["library", "dtype"]

    def time_pack(self, library, *_):
        self.pack[library]()

    def time_unpack(self, library, *_):
        self.unpack[library]()


class NC1HWC0(_Pair):
    """NCHW <-> NC1HWC0."""

    params = [*_Pair.params, IMAGES]
    param_names = [*_Pair.param_names, "shape"]

    def setup(self, library, dtype, shape):
        x = filled(shape, dtype)
        c0 = lp.default_c0(dtype)
        whole, inner = padded(x, c0)
        y = lp.to_nc1hwc0(x)
        back = np.ones_like(x)
        channels = shape[1]

        def numpy_pack():
            np.copyto(inner, x)
            np.copyto(y, blocked(whole, c0))

        self.pack = {"layoutpack": lambda: lp.to_nc1hwc0(x, out=y), "numpy": numpy_pack}
        unblocked = y.transpose(0, 1, 4, 2, 3)

        def numpy_unpack():
            np.copyto(back, unblocked.reshape(whole.shape)[:, :channels])

        self.unpack = {
            "layoutpack": lambda: lp.from_nc1hwc0(y, out=back, channels=channels),
            "numpy": numpy_unpack,
        }


class FractalNZ(_Pair):
    """Matrices <-> FRACTAL_NZ."""

    params = [*_Pair.params, MATRICES]
    param_names = [*_Pair.param_names, "shape"]

    def setup(self, library, dtype, shape):
        x = filled(shape, dtype)
        c0 = lp.default_c0(dtype)
        *batch, h, w = shape
        z = lp.to_fractal_nz(x)
        back = np.ones_like(x)
        tiles = x.reshape(*batch, h // 16, 16, w // c0, c0)
        k = len(batch)
        there = tiles.transpose(*range(k), k + 2, k, k + 1, k + 3)
        home = z.transpose(*range(k), k + 1, k + 2, k, k + 3)
        self.pack = {"layoutpack": lambda: lp.to_fractal_nz(x, out=z), "numpy": lambda: np.copyto(z, there)}
        self.unpack = {
            "layoutpack": lambda: lp.from_fractal_nz(z, out=back),
            "numpy": lambda: np.copyto(back.reshape(home.shape), home),
        }


class FractalZ(_Pair):
    """OIHW weights <-> FRACTAL_Z."""

    params = [*_Pair.params, WEIGHTS]
    param_names = [*_Pair.param_names, "shape"]

    def setup(self, library, dtype, shape):
        x = filled(shape, dtype)
        c0 = lp.default_c0(dtype)
        n, c, h, w = shape
        whole, inner = padded(x, c0)
        c1 = whole.shape[1] // c0
        z = lp.to_fractal_z(x)
        back = np.ones_like(x)
        there = whole.reshape(n // 16, 16, c1, c0, h, w).transpose(2, 4, 5, 0, 1, 3)
        home = z.reshape(c1, h, w, n // 16, 16, c0).transpose(3, 4, 0, 5, 1, 2)

        def numpy_pack():
            np.copyto(inner, x)
            np.copyto(z.reshape(there.shape), there)

        self.pack = {"layoutpack": lambda: lp.to_fractal_z(x, out=z), "numpy": numpy_pack}
        self.unpack = {
            "layoutpack": lambda: lp.from_fractal_z(z, out=back),
            "numpy": lambda: np.copyto(back, home.reshape(n, c1 * c0, h, w)[:, :c]),
        }


class Reblock:
    """From one block size to another."""

    params = [LIBRARIES, ["float16"], [(8, 64, 56, 56)], [(16, 8), (8, 16), (16, 12)]]
    param_names = ["library", "dtype", "shape", "blocks"]

    def setup(self, library, dtype, shape, blocks):
        b1, b2 = blocks
        n, c, h, w = shape
        y = lp.to_nc1hwc0(filled(shape, dtype), c0=b1)
        z = lp.to_nc1hwc0(filled(shape, dtype), c0=b2)
        plain = np.empty(shape, dtype)
        whole, inner = padded(plain, b2)

        def by_way_of_nchw():
            np.copyto(plain, y.transpose(0, 1, 4, 2, 3).reshape(n, -1, h, w)[:, :c])
            np.copyto(inner, plain)
            np.copyto(z, blocked(whole, b2))

        self.run = {
            "layoutpack": lambda: lp.repack(y, "NC1HWC0", "NC1HWC0", out=z, channels=c, c0=b2),
            "numpy": by_way_of_nchw,
        }

    def time_reblock(self, library, *_):
        self.run[library]()
