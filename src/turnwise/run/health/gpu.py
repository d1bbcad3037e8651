"""Utilisation, temperature and power of the GPU of this process, read from NVIDIA's NVML.

NVML is part of the driver, so nothing has to be installed; torch's own functions need nvidia-ml-py. Without
the library, or on another kind of device, there are no metrics and no error.
"""

import ctypes
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from statistics import fmean
from types import TracebackType
from typing import Self

logger = logging.getLogger(__name__)

LIBRARY = "libnvidia-ml.so.1"

UTILIZATION, TEMPERATURE, POWER = "gpu/utilization", "gpu/temperature_celsius", "gpu/power_watts"

Read = Callable[[], Mapping[str, float]]
"""Reads one sample; metrics that the device does not support are left out."""


class GpuMonitor:
    """Samples once per second in a thread: one sample at the end of a step would not describe the step."""

    def __init__(self, read: Read | None, *, seconds: float = 1.0) -> None:
        self._read = read
        self._seconds = seconds
        self._samples: list[Mapping[str, float]] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="turnwise-gpu", daemon=True)

    def __enter__(self) -> Self:
        if self._read is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def figures(self) -> dict[str, float]:
        """Mean utilisation and power and highest temperature since the last call; empty without a sample."""
        with self._lock:
            samples, self._samples = self._samples, []
        figures: dict[str, float] = {}
        for name in dict.fromkeys(name for sample in samples for name in sample):
            values = [sample[name] for sample in samples if name in sample]
            figures[name] = max(values) if name == TEMPERATURE else fmean(values)
        return figures

    def _sample(self) -> None:
        assert self._read is not None
        while not self._stop.wait(self._seconds):
            sample = self._read()
            with self._lock:
                self._samples.append(sample)


UNMEASURED = GpuMonitor(None)
"""A monitor that measures nothing."""


def cuda_reader() -> Read | None:
    """A reader for the current CUDA device; None without CUDA, without NVML, or if NVML lacks the device."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    # found by UUID: NVML numbers all GPUs of the machine, CUDA only the visible ones
    uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    try:
        return nvml_reader(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
    except OSError as error:
        logger.info("no GPU metrics: %s", error)
        return None


def nvml_reader(uuid: str, library: str = LIBRARY) -> Read:
    """A reader for this device; OSError if the library is missing or does not have the device."""
    nvml = ctypes.CDLL(library)
    device = ctypes.c_void_p()
    for name, arguments in (
        ("nvmlInit_v2", ()),
        ("nvmlDeviceGetHandleByUUID", (uuid.encode(), ctypes.byref(device))),
    ):
        if status := getattr(nvml, name)(*arguments):
            raise OSError(f"{name} failed with status {status}")
    return lambda: _read_sample(nvml, device)


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent of the last sample period in which a kernel ran, or memory was accessed."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


_DIE_SENSOR = 0


def _read_sample(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> dict[str, float]:
    figures: dict[str, float] = {}
    rates, celsius, milliwatts = _Utilization(), ctypes.c_uint(), ctypes.c_uint()
    if nvml.nvmlDeviceGetUtilizationRates(device, ctypes.byref(rates)) == 0:
        figures[UTILIZATION] = rates.gpu / 100
    if nvml.nvmlDeviceGetTemperature(device, _DIE_SENSOR, ctypes.byref(celsius)) == 0:
        figures[TEMPERATURE] = float(celsius.value)
    if nvml.nvmlDeviceGetPowerUsage(device, ctypes.byref(milliwatts)) == 0:
        figures[POWER] = milliwatts.value / 1000
    return figures
