"""Python imports this at its start; it installs `cuda_on_cpu` before SkyRL's FSDP code is imported."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any

FIRST = "skyrl.backends.skyrl_train.distributed.fsdp_utils"


class BeforeFsdp(MetaPathFinder):
    """Finds nothing, and installs the stand-in for CUDA just before SkyRL's FSDP code is imported."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == FIRST:
            import cuda_on_cpu

            cuda_on_cpu.install()


sys.meta_path.insert(0, BeforeFsdp())
