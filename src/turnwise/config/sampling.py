"""The sampling parameters that every engine can compute with."""

from typing import Annotated

from pydantic import AfterValidator

MIN_TEMPERATURE = 0.01
"""The least above 0. vLLM samples at this where it is given less, and the trainer would divide by another;
near the smallest floats the division gives infinities."""
MAX_TEMPERATURE = 100.0
"""Far above it every token is as likely as any other."""
MIN_TOP_P = 1e-6
"""The least. It keeps the likeliest token alone; smaller ones round to 0 in half precision and keep none."""


def check_temperature(temperature: float, name: str = "temperature") -> float:
    """The temperature; ValueError if no engine could sample at it."""
    if temperature != 0 and not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:
        raise ValueError(
            f"{name} must be 0 or from {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g}, not {temperature!r}"
        )
    return temperature


Temperature = Annotated[float, AfterValidator(check_temperature)]
