"""The class that SkyRL wraps at import; it is never made, since no vLLM runs."""


class GPUModelRunner:
    def load_model(self) -> None: ...
