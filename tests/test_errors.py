"""Every refusal: the type of the error, what its message names, and that nothing was written before it.

`{...}` words must all occur in the message, in any order and case; numbers must not be part of longer numbers.
"""

import re
from typing import NamedTuple

import layoutpack as lp
import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import reference
from guard import Frame, assert_same, counted, filled

IMAGE = counted((2, 20, 3, 4))
PACKED = reference.pack(IMAGE, "NC1HWC0", "NCHW")  # (2, 2, 3, 4, 16)
MATRIX = counted((18, 20))
TILES = reference.pack(MATRIX, "FRACTAL_NZ", "ND")  # (2, 2, 16, 16)
WEIGHT = counted((18, 20, 3, 2))
ROWS = reference.pack(WEIGHT, "FRACTAL_Z", "NCHW")  # (12, 2, 16, 16)
