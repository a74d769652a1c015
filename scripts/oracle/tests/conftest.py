"""Paths and options of the tests.

  python -m pytest scripts/oracle/tests [--goldens DIR]

DIR holds recorded data of Qwen3-VL (qwen3vl-tiny, qwen3vl-moe-tiny), which is not part of this
repository; its tests are skipped without. V4.1's lies in tests/golden.
"""

import os
import sys

import pytest

TESTS = os.path.dirname(os.path.abspath(__file__))
ORACLE = os.path.dirname(TESTS)
ROOT = os.path.dirname(os.path.dirname(ORACLE))
sys.path[:0] = [TESTS, ORACLE]


def pytest_addoption(parser):
    parser.addoption("--goldens", default=os.environ.get("TESSERA_GOLDENS"),
                     help="folder with qwen3vl-tiny and qwen3vl-moe-tiny")


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def goldens(request):
    folder = request.config.getoption("--goldens")
    if not folder or not os.path.isdir(os.path.join(folder, "qwen3vl-tiny")):
        pytest.skip("no recorded data of Qwen3-VL; name its folder with --goldens")
    return folder
