"""Options, profiles and fixtures of the suite."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, database=None)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=5000)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_addoption(parser):
    parser.addoption("--bigmem", action="store_true", help="run the tests that need about 6 GiB of free memory")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--bigmem"):
        return
    skip = pytest.mark.skip(reason="needs --bigmem")
    for item in items:
        if item.get_closest_marker("bigmem"):
            item.add_marker(skip)


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)
