"""What a call costs before the first byte is moved."""

import numpy as np

import layoutpack as lp


class Calls:
    """Conversions of 128 bytes."""

    def setup(self):
        self.x = np.ones((1, 16, 2, 2), np.float16)
        self.out = lp.to_nc1hwc0(self.x)
        self.width = 2
        self.plan = lp.plan("NCHW", "NC1HWC0", self.x.shape, self.x.dtype)

    def time_function(self):
        lp.to_nc1hwc0(self.x)

    def time_function_out(self):
        lp.to_nc1hwc0(self.x, out=self.out)

    def time_plan_out(self):
        self.plan(self.x, out=self.out)

    def time_numpy_out(self):
        np.copyto(self.out, self.x.reshape(1, 1, 16, 2, 2).transpose(0, 1, 3, 4, 2))

    def time_first_call_with_a_shape(self):
        self.width += 1
        lp.to_nc1hwc0(np.ones((1, 16, 2, self.width), np.float16))


class Detection:
    """Predicates on strides."""

    def setup(self):
        self.x = np.ones((8, 16, 4, 4), np.float32)

    def time_is_channels_last(self):
        lp.is_channels_last(self.x)

    def time_memory_formats(self):
        lp.memory_formats(self.x)

    def time_view(self):
        lp.to_contiguous(self.x)
