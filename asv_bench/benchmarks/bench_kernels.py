"""Each kernel beside the portable C, in the first cache: nanoseconds for a line of 64 bytes of output."""

import numpy as np

from layoutpack import _conversion, _engine, formats

from .common import fastest, filled

KERNELS = {
    "transpose": ("HW", "WH", (64, 64)),
    "transpose, odd": ("HW", "WH", (61, 59)),
    "copy of runs": ("NHWC", "NC1HWC0", (1, 8, 8, 64)),
    "padded pixels": ("NCHW", "NC1HWC0", (1, 3, 8, 16)),
    "three planes": ("NCHW", "NHWC", (1, 3, 16, 32)),
    "three words a pixel": ("NHWC", "NCHW", (1, 16, 32, 3)),
    "3 x 3 weights": ("NCHW", "FRACTAL_Z", (16, 32, 3, 3)),
    "mirrored": ("HW", "HW", (32, 64)),
}


class Kernels:
    """A conversion of a few KiB by one instruction set."""

    params = [_engine.isa_available(), list(KERNELS), ["uint8", "float16", "float32", "float64"]]
    param_names = ["isa", "kernel", "dtype"]

    def setup(self, isa, kernel, dtype):
        src, dst, shape = KERNELS[kernel]
        x = filled(shape, dtype)
        if kernel == "mirrored":
            x = x[:, ::-1]
        pair = formats.as_format(src), formats.as_format(dst)
        conversion = _conversion.Conversion(*pair, x.shape, x.dtype, blocks=(16 if "0" in dst else None, None, None))
        out = np.ones(conversion.shape, dtype)
        groups = conversion.groups(x.strides, out.strides)
        program = _engine.Program(groups, bytes(x.itemsize), isa)
        self.run, self.lines = lambda: program.run(out, x, 1), out.nbytes / 64

    def track_ns_per_line(self, *_):
        return fastest([self.run], 0.05)[0] / self.lines * 1e9

    track_ns_per_line.unit = "ns"
