"""Deep-learning tensors between memory layouts on the CPU.

Packs and unpacks NC1HWC0, FRACTAL_NZ, FRACTAL_Z and their kin, blocked tags such as NCHW16c, and plain orders such as
NHWC; detects and converts channels-last arrays by their strides.
"""

from layoutpack._config import show_config
from layoutpack._strides import (
    MemoryFormat,
    channels_last_strides,
    is_channels_last,
    is_contiguous,
    is_strides_like_channels_last,
    memory_formats,
    storage_offsets,
    storage_order,
    suggest_memory_format,
)
from layoutpack._threads import get_num_threads, set_num_threads, threads
from layoutpack.formats import FORMATS, Format, default_c0
from layoutpack.functions import (
    Plan,
    from_fractal_nn,
    from_fractal_nz,
    from_fractal_z,
    from_fractal_z_3d,
    from_fractal_zn,
    from_fractal_zz,
    from_nc1hwc0,
    from_nc1hwc0_c04,
    from_ndc1hwc0,
    packed_shape,
    plan,
    repack,
    to_fractal_nn,
    to_fractal_nz,
    to_fractal_z,
    to_fractal_z_3d,
    to_fractal_zn,
    to_fractal_zz,
    to_nc1hwc0,
    to_nc1hwc0_c04,
    to_ndc1hwc0,
)
from layoutpack.images import pack_images
from layoutpack.strides import to_channels_last, to_contiguous, to_memory_format

__version__ = "0.1.0"

contiguous_format = MemoryFormat.contiguous_format
channels_last_1d = MemoryFormat.channels_last_1d
channels_last = MemoryFormat.channels_last
channels_last_3d = MemoryFormat.channels_last_3d

__all__ = [
    "FORMATS",
    "Format",
    "MemoryFormat",
    "Plan",
    "channels_last",
    "channels_last_1d",
    "channels_last_3d",
    "channels_last_strides",
    "contiguous_format",
    "default_c0",
    "from_fractal_nn",
    "from_fractal_nz",
    "from_fractal_z",
    "from_fractal_z_3d",
    "from_fractal_zn",
    "from_fractal_zz",
    "from_nc1hwc0",
    "from_nc1hwc0_c04",
    "from_ndc1hwc0",
    "get_num_threads",
    "is_channels_last",
    "is_contiguous",
    "is_strides_like_channels_last",
    "memory_formats",
    "pack_images",
    "packed_shape",
    "plan",
    "repack",
    "set_num_threads",
    "show_config",
    "storage_offsets",
    "storage_order",
    "suggest_memory_format",
    "threads",
    "to_channels_last",
    "to_contiguous",
    "to_fractal_nn",
    "to_fractal_nz",
    "to_fractal_z",
    "to_fractal_z_3d",
    "to_fractal_zn",
    "to_fractal_zz",
    "to_memory_format",
    "to_nc1hwc0",
    "to_nc1hwc0_c04",
    "to_ndc1hwc0",
]
