"""Views that are not dense, to row-major and channels-last memory and to NC1HWC0."""

import numpy as np

import layoutpack as lp

from .common import filled


def field(x):
    """The same shape as one field of three in records."""
    return np.ones(x.shape, [(name, x.dtype) for name in "abc"])["b"]


VIEWS = {
    "NCHW dense": lambda x: x,
    "NCHW crop": lambda x: x[:, :, 8:-8, 8:-8],
    "NCHW channel slice": lambda x: x[:, 1:-1],
    "NCHW padded rows": lambda x: x[:, :, :, :-3],
    "NCHW mirrored": lambda x: x[:, :, :, ::-1],
    "NCHW upside down": lambda x: x[:, :, ::-1],
    "NCHW every second": lambda x: x[:, :, ::2, ::2],
    "NCHW field": lambda x: field(x),
    "NHWC dense": lambda x: x,
    "NHWC crop": lambda x: x[:, 8:-8, 8:-8],
    "NHWC padded rows": lambda x: x[:, :, :-3],
    "NHWC mirrored": lambda x: x[:, :, ::-1],
    "NHWC BGR": lambda x: x[..., ::-1],
    "NHWC every second": lambda x: x[:, ::2, ::2],
    "NHWC field": lambda x: field(x),
}
SHAPES = {"NCHW": (8, 64, 224, 224), "NHWC": (32, 224, 224, 3)}


class Gather:
    """One view into a kept array."""

    params = [["layoutpack", "numpy"], ["uint8", "float32"], ["NCHW", "NHWC", "NC1HWC0"], list(VIEWS)]
    param_names = ["library", "dtype", "to", "view"]

    def setup(self, library, dtype, to, view):
        order = view.split()[0]
        x = VIEWS[view](filled(SHAPES[order], dtype))
        out = lp.repack(x, order, to)
        plain = x if order == "NCHW" else x.transpose(0, 3, 1, 2)
        c0 = lp.default_c0(dtype)

        def blocked():
            for block in range(out.shape[1]):
                part = plain[:, block * c0 : (block + 1) * c0].transpose(0, 2, 3, 1)
                out[:, block, :, :, : part.shape[3]] = part

        self.run = {
            "layoutpack": lambda: lp.repack(x, order, to, out=out),
            "NCHW": lambda: np.copyto(out, plain),
            "NHWC": lambda: np.copyto(out, plain.transpose(0, 2, 3, 1)),
            "NC1HWC0": blocked,
        }["layoutpack" if library == "layoutpack" else to]

    def time_gather(self, *_):
        self.run()
