"""Plain orders and channels-last memory."""

import numpy as np

import layoutpack as lp

from .common import filled

IMAGES = [(1, 3, 224, 224), (32, 3, 224, 224), (8, 64, 56, 56), (8, 2048, 7, 7), (32, 256, 56, 56)]
DTYPES = ["uint8", "float16", "float32"]
LIBRARIES = ["layoutpack", "numpy"]


class ChannelsLast:
    """NCHW <-> NHWC into a kept array."""

    params = [LIBRARIES, DTYPES, IMAGES]
    param_names = ["library", "dtype", "shape"]

    def setup(self, library, dtype, shape):
        x = filled(shape, dtype)
        y = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        x_out, y_out = np.ones_like(x), np.ones_like(y)
        self.there = {
            "layoutpack": lambda: lp.repack(x, "NCHW", "NHWC", out=y_out),
            "numpy": lambda: np.copyto(y_out, x.transpose(0, 2, 3, 1)),
        }
        self.back = {
            "layoutpack": lambda: lp.repack(y, "NHWC", "NCHW", out=x_out),
            "numpy": lambda: np.copyto(x_out, y.transpose(0, 3, 1, 2)),
        }

    def time_to_channels_last(self, library, *_):
        self.there[library]()

    def time_to_channels_first(self, library, *_):
        self.back[library]()


class Gather:
    """Views of images to dense row-major memory."""

    VIEWS = {
        "crop": lambda x: x[:, :, 8:-8, 8:-8],
        "channel slice": lambda x: x[:, 1:-1],
        "flip": lambda x: x[:, :, :, ::-1],
        "step 2": lambda x: x[:, :, ::2, ::2],
    }
    params = [LIBRARIES, DTYPES, list(VIEWS)]
    param_names = ["library", "dtype", "view"]

    def setup(self, library, dtype, view):
        x = self.VIEWS[view](filled((8, 64, 56, 56), dtype))
        out = np.ones(x.shape, dtype)
        self.run = {"layoutpack": lambda: lp.to_contiguous(x, out=out), "numpy": lambda: np.copyto(out, x)}

    def time_to_contiguous(self, library, *_):
        self.run[library]()
