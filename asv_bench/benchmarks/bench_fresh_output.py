"""A new result at every call against a kept one: what page faults cost."""

import numpy as np

import layoutpack as lp

from .common import filled
from .rivals import installed

SHAPES = [(1, 64, 56, 56), (8, 64, 56, 56), (32, 64, 56, 56), (32, 256, 56, 56)]


class FreshOutput:
    """NCHW to NC1HWC0 of float32, and a copy by NumPy and PyTorch for comparison."""

    params = [["layoutpack", "layoutpack, kept", "numpy.copy", "torch.clone"], SHAPES]
    param_names = ["call", "shape"]

    def setup(self, call, shape):
        x = filled(shape, "float32")
        out = lp.to_nc1hwc0(x)
        if call == "torch.clone":
            if not installed("torch"):
                raise NotImplementedError("torch is not installed")
            import torch

            self.run = torch.from_numpy(x).clone
            return
        self.run = {
            "layoutpack": lambda: lp.to_nc1hwc0(x),
            "layoutpack, kept": lambda: lp.to_nc1hwc0(x, out=out),
            "numpy.copy": lambda: np.copy(x),
        }[call]

    def time_call(self, *_):
        self.run()
