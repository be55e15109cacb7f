"""What comes before an inference, and at load time: numbers converted and normalised while they are packed.

The rivals are what users write today: NumPy and PyTorch formulas, OpenCV's blobFromImages, and the formula of
torchvision's to_tensor and normalize. Each result is compared first; where an output can be kept, it is, but for
torch-new, which casts as most write it.
"""

import importlib.util

import numpy as np

import layoutpack as lp

from .common import fastest
from .rivals import aligned

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALE = [1 / 255 / s for s in STD]
BIAS = [-m / s for m, s in zip(MEAN, STD, strict=True)]

RIVALS = {"numpy": None, "torch": "torch", "torch-new": "torch", "torchvision": "torch", "opencv": "cv2"}
LIBRARIES = [
    "layoutpack",
    *(name for name, module in RIVALS.items() if module is None or importlib.util.find_spec(module)),
]
SIZES = [(1, 224, 224), (32, 224, 224), (1, 1080, 1920)]


def photos(n, height, width):
    """Decoded frames: separate arrays of uint8, H W C."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (height, width, 3), np.uint8) for _ in range(n)]


def by_layoutpack(frames, dst, dtype, threads):
    out = lp.pack_images(frames, dst=dst, dtype=dtype, scale=1 / 255, mean=MEAN, std=STD)
    given = frames if len(frames) > 1 else frames[0]
    return lambda: lp.pack_images(given, out, dst=dst, scale=1 / 255, mean=MEAN, std=STD, threads=threads)


def by_numpy(frames, dst, dtype, threads):
    scale, bias = np.array(SCALE, np.float32), np.array(BIAS, np.float32)
    n, (height, width, channels) = len(frames), frames[0].shape

    def run():
        values = np.stack(frames).astype(np.float32) * scale + bias
        if dst == "NCHW":
            return np.ascontiguousarray(values.transpose(0, 3, 1, 2), dtype)
        if dst == "NHWC":
            return values.astype(dtype)
        packed = np.zeros((n, 1, height, width, 16), dtype)
        packed[:, 0, :, :, :channels] = values
        return packed

    return run if threads == 1 else None


def by_torch(frames, dst, dtype, threads):
    import torch

    kind = getattr(torch, dtype)
    scale, bias = (torch.tensor(v, dtype=torch.float32).view(1, 3, 1, 1) for v in (SCALE, BIAS))
    order = torch.channels_last if dst == "NHWC" else torch.contiguous_format

    def run():
        torch.set_num_threads(threads)
        x = torch.from_numpy(np.stack(frames) if len(frames) > 1 else frames[0][None])
        y = x.permute(0, 3, 1, 2).to(torch.float32).mul_(scale).add_(bias)
        if dst in ("NCHW", "NHWC"):
            y = y.to(kind).contiguous(memory_format=order)
            return (y if dst == "NCHW" else y.permute(0, 2, 3, 1)).numpy()
        y = torch.nn.functional.pad(y.permute(0, 2, 3, 1).to(kind), (0, 13))
        return y.unsqueeze(1).contiguous().numpy()

    return run


def by_torchvision(frames, dst, dtype, threads):
    """to_tensor and normalize, image by image, then stack: by the formula, so that torchvision itself is not needed."""
    import torch

    mean, std = (torch.tensor(v, dtype=torch.float32).view(3, 1, 1) for v in (MEAN, STD))

    def one(frame):
        x = torch.from_numpy(frame).permute(2, 0, 1).contiguous().to(torch.float32).div(255)
        return x.sub_(mean).div_(std)

    def run():
        torch.set_num_threads(threads)
        return torch.stack([one(frame) for frame in frames]).numpy()

    return run if (dst, dtype) == ("NCHW", "float32") else None


def by_opencv(frames, dst, dtype, threads):
    """One factor for all channels: blobFromImages has a mean for each, but no deviation. So it does less."""
    import cv2

    def run():
        cv2.setNumThreads(threads)
        return cv2.dnn.blobFromImages(frames, SCALE[0], mean=[255 * m for m in MEAN])

    return run if (dst, dtype) == ("NCHW", "float32") else None


RUNS = {
    "layoutpack": by_layoutpack,
    "numpy": by_numpy,
    "torch": by_torch,
    "torchvision": by_torchvision,
    "opencv": by_opencv,
}


def make(library, frames, dst, dtype, threads=1):
    """The call of a library, or None; its result was compared."""
    if library not in RUNS:
        return None
    run = RUNS[library](frames, dst, dtype, threads)
    if run is not None:
        want = np.stack(frames) * np.float64([SCALE]) + BIAS
        if library == "opencv":
            want = (np.stack(frames) - 255 * np.float64(MEAN)) * SCALE[0]
        want = lp.repack(want, "NHWC", dst, c0=16 if "0" in dst else None)
        tolerance = 1e-5 if dtype == "float32" else 2e-3
        np.testing.assert_allclose(np.asarray(run(), np.float64), want, rtol=0, atol=tolerance)
    return run


class PackImages:
    """Frames of uint8 to one normalised batch."""

    params = [LIBRARIES, ["NCHW float32", "NHWC float32", "NCHW float16", "NC1HWC0 float16"], SIZES]
    param_names = ["library", "result", "size"]

    def setup(self, library, result, size):
        self.run = make(library, photos(*size), *result.split())
        if self.run is None:
            raise NotImplementedError(f"{library} has no such conversion")

    def time_pack(self, *_):
        self.run()


class Narrow:
    """float32 weights and activations to 16 bits while they are packed."""

    params = [
        [name for name in LIBRARIES if name in ("layoutpack", "numpy", "torch", "torch-new")],
        ["NCHW", "NC1HWC0"],
        ["float16", "bfloat16"],
        [(8, 64, 56, 56), (32, 256, 56, 56)],
    ]
    param_names = ["library", "dst", "dtype", "shape"]

    def setup(self, library, dst, dtype, shape):
        self.run, self.memcpy, self.moved, self.copied = narrow(library, dst, dtype, shape)

    def time_narrow(self, *_):
        self.run()

    def track_share_of_memcpy(self, *_):
        mine, memcpy = fastest([self.run, self.memcpy])
        return self.moved / mine / (self.copied / memcpy)

    track_share_of_memcpy.unit = "bytes moved a second, relative to memcpy"


def narrow(library, dst, dtype, shape, threads=1):
    """The call, a memcpy of its input, and the bytes that both move."""
    n, c, h, w = shape
    x, copy = aligned(shape, "float32", 16), aligned(shape, "float32", 16)
    x[...] = np.arange(w)
    blocked = (n, c // 16, 16, h, w)
    kind = np.dtype(dtype) if dtype == "float16" else bfloat16()
    out = aligned(shape if dst == "NCHW" else (n, c // 16, h, w, 16), kind, 16)
    view = x if dst == "NCHW" else x.reshape(blocked).transpose(0, 1, 3, 4, 2)
    calls = {"layoutpack": lambda: lp.repack(x, "NCHW", dst, out, c0=16 if "0" in dst else None, threads=threads)}
    if threads == 1:
        calls["numpy"] = lambda: np.copyto(out, view, casting="unsafe")
    if library in ("torch", "torch-new"):
        import torch

        strided, result = torch.from_numpy(view), getattr(torch, dtype)
        kept = torch.empty(view.shape, dtype=result)
        cast = {
            "torch": lambda: kept.copy_(strided),
            "torch-new": lambda: strided.to(result, memory_format=torch.contiguous_format),
        }[library]

        def by_torch():
            torch.set_num_threads(threads)
            cast()

        calls[library] = by_torch
    return calls.get(library), lambda: np.copyto(copy, x), x.nbytes + out.nbytes, 2 * x.nbytes


def bfloat16():
    try:
        from ml_dtypes import bfloat16 as kind
    except ImportError:
        raise NotImplementedError("bfloat16 needs ml_dtypes") from None
    return np.dtype(kind)
