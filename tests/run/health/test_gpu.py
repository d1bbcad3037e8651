"""GPU metrics: NVML calls against a library built for the test, and means over a step by a real thread."""

import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from turnwise.run.figures import of_all_ranks
from turnwise.run.health.gpu import POWER, TEMPERATURE, UNMEASURED, UTILIZATION, GpuMonitor, nvml_reader
from turnwise.run.health.machine import mps_memory

NVML = """
#include <string.h>
typedef struct { unsigned int gpu, memory; } rates;
static int place;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  if (strcmp(uuid, "GPU-1234")) return 6;
  *device = &place;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, rates *found) {
  if (device != &place) return 2;
  found->gpu = 87; found->memory = 12;
  return 0;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius) {
  *celsius = sensor == 0 ? 64 : 0;
  return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts) { return POWER_STATUS(milliwatts); }
"""


@pytest.fixture(params=["(*x = 412500, 0)", "3"], ids=["power in milliwatts", "power not supported"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, float]]:
    """A library with the signatures of NVML, and its metrics."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, library = tmp_path / "nvml.c", tmp_path / "libnvidia-ml.so.1"
    source.write_text(f"#define POWER_STATUS(x) {request.param}\n{NVML}")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return str(library), {POWER: 412.5} if "412500" in request.param else {}


def test_metrics_that_the_device_supports_are_read_from_nvml(library: tuple[str, dict[str, float]]) -> None:
    path, power = library
    assert nvml_reader("GPU-1234", path)() == {UTILIZATION: 0.87, TEMPERATURE: 64.0, **power}
    with pytest.raises(OSError, match="nvmlDeviceGetHandleByUUID failed with status 6"):
        nvml_reader("GPU-other", path)


def test_without_nvml_there_are_no_metrics() -> None:
    with pytest.raises(OSError, match="libnothing"):
        nvml_reader("GPU-1234", "libnothing.so.1")
    with GpuMonitor(None) as monitor:
        assert monitor.figures() == {}
    assert UNMEASURED.figures() == {}


def test_the_metrics_of_a_step_are_means_and_the_highest_temperature() -> None:
    samples = [{UTILIZATION: 0.2, TEMPERATURE: 70.0, POWER: 100.0}, {UTILIZATION: 0.6, TEMPERATURE: 60.0}]
    is_read = threading.Event()

    def read() -> Mapping[str, float]:
        if not samples:
            is_read.set()
            return {}
        return samples.pop(0)

    with GpuMonitor(read, seconds=0.001) as monitor:
        assert is_read.wait(30)
        assert monitor.figures() == pytest.approx({UTILIZATION: 0.4, TEMPERATURE: 70.0, POWER: 100.0})
        assert monitor.figures() == {}, "samples are not used twice"


def test_several_gpus_give_means_and_the_highest_temperature() -> None:
    ranks = [{UTILIZATION: 0.5, TEMPERATURE: 70.0, POWER: 300.0}, {UTILIZATION: 1.0, TEMPERATURE: 80.0}]
    assert of_all_ranks(ranks) == {UTILIZATION: 0.75, TEMPERATURE: 80.0, POWER: 300.0}


@pytest.mark.parametrize("is_there", [True, False])
def test_memory_on_mps_is_that_of_tensors_and_of_the_driver(is_there: bool) -> None:
    # the part of torch that is used; only a Mac has Metal
    mps = SimpleNamespace(current_allocated_memory=lambda: 3 * 2**30, driver_allocated_memory=lambda: 2**32)
    backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: is_there))
    expected = {"memory/mps_allocated_gib": 3.0, "memory/mps_driver_gib": 4.0}
    assert mps_memory(SimpleNamespace(mps=mps, backends=backends)) == (expected if is_there else {})
