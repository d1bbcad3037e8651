"""The health of a run: rules over the metrics of a step, and memory and GPU metrics."""
