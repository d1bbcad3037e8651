"""The device that the tests of this folder run on."""

import os

import torch

DEVICE = os.environ.get("TURNWISE_TEST_DEVICE", "cuda")
"""`cpu` runs the tests themselves on a machine without a GPU."""


def why_not() -> str:
    """Why the tests cannot run here; empty if they can."""
    return "there is no CUDA device" if DEVICE == "cuda" and not torch.cuda.is_available() else ""
