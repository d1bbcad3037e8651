"""Engine servers as users start them: `turnwise engine` in separate processes, over a tiny model."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import torch

from tests import warm
from tests.engines.models import qwen3
from turnwise.engines.remote import TOKEN_VARIABLE, RemoteEngine
from turnwise.engines.weight_transfer import write_model
from turnwise.types.protocols import Adapter

ROOT = Path(__file__).parents[2]


class Serving:
    """One such process, once it has printed its address."""

    def __init__(self, *args: str, python: str | Path = "", token: str = "") -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE},
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            **({TOKEN_VARIABLE: token} if token else {}),
        }
        self.process = subprocess.Popen(
            [python or warm.heavy(), "-m", "turnwise", "engine", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        if not self.line:
            raise AssertionError(self.process.communicate()[1])
        self.url = self.line.split()[0]
        self.port = int(self.url.rpartition(":")[2])

    def health(self) -> Any:
        with urllib.request.urlopen(f"{self.url}/health", timeout=30) as answer:
            return json.load(answer)

    def end(self, how: signal.Signals = signal.SIGKILL) -> tuple[int, str]:
        """Its exit status and all of its stderr."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        _, said = self.process.communicate(timeout=180)
        return self.process.returncode, said


def model_recipe(folder: Path, model: Any = None, **sections: dict[str, Any]) -> Path:
    """A recipe of that model, or of the tiny one."""
    write_model(model if model is not None else qwen3(), folder / "model")
    text = f'[model]\npath = "{folder / "model"}"\n'
    for name, keys in sections.items():
        text += f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    file = folder / "recipe.toml"
    file.write_text(text)
    return file


@contextlib.contextmanager
def serving(recipe: Path, *args: str, **options: Any) -> Iterator[Serving]:
    server = Serving(str(recipe), *(args or ("--port", "0")), **options)
    try:
        yield server
    finally:
        server.end()


async def started_again(
    server: Serving, recipe: Path, exits: contextlib.ExitStack, **options: Any
) -> Serving:
    """Another server at the same port, until `exits` end."""
    again = await asyncio.to_thread(Serving, str(recipe), "--port", str(server.port), **options)
    exits.callback(again.end)
    return again


@contextlib.asynccontextmanager
async def asking(url: str, **options: Any) -> AsyncIterator[RemoteEngine]:
    engine = RemoteEngine(url, **({"wait_seconds": 30.0} | options))
    try:
        yield engine
    finally:
        await engine.close()


def adapter(seed: int) -> Adapter:
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(3):
        module = f"model.layers.{layer}.self_attn.o_proj"
        tensors[f"{module}.lora_A"] = torch.randn(4, 64, generator=generator) * 0.3
        tensors[f"{module}.lora_B"] = torch.randn(64, 4, generator=generator) * 0.3
    return Adapter(tensors, 4, 8.0)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
