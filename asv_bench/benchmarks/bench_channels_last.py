"""Plain orders and channels-last memory."""

from .common import _Rivals
from .rivals import LIBRARIES, Case

IMAGES = [(1, 3, 224, 224), (32, 3, 224, 224), (8, 64, 56, 56), (8, 2048, 7, 7), (16, 256, 56, 56)]


class ChannelsLast(_Rivals):
    """NCHW to NHWC and back."""

    params = [LIBRARIES, ["NCHW NHWC", "NHWC NCHW"], ["uint8", "float16", "float32"], IMAGES]
    param_names = ["library", "pair", "dtype", "shape"]

    def case(self, pair, dtype, shape):
        return Case(*pair.split(), dtype, shape)


class Matrices(_Rivals):
    """Transpositions of matrices."""

    params = [LIBRARIES, ["float16", "float32"], [(1, 4096, 4096), (1, 1000, 3000)]]
    param_names = ["library", "dtype", "shape"]

    def case(self, dtype, shape):
        return Case("NCW", "NWC", dtype, shape)
