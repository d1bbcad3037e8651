"""Stands in for SkyRL's vLLM servers: turnwise's engine behind the routes that SkyRL's client calls.

    export PYTHONPATH=benchmarks/skyrl_cpu/stand_ins/engine
    python -m benchmarks.skyrl_cpu.engine_server RECIPE --port 8123

Until the trainer has sent weights, requests are answered with 503: an engine that was restarted in the middle
of a run must not sample from the initial weights.

With `--exact`, requests are computed one at a time and without a cache, so that the rounding of a log-prob
does not depend on other requests.
"""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from vllm.distributed.weight_transfer.nccl_engine import broadcast, join

from turnwise.config import Recipe, read_recipe
from turnwise.setup.bench import transformers_engine
from turnwise.types import Completion, Sampling

IGNORED = ("/pause", "/resume", "/finish_session", "/reset_prefix_cache", "/start_weight_update")
"""Routes without an effect: the engine publishes between requests and drops its caches then."""


class EngineServer:
    """The routes of one engine."""

    def __init__(self, recipe: Recipe, *, is_exact: bool) -> None:
        self._engine: Any = transformers_engine(recipe.model, recipe.sizes)
        self._one_at_a_time = asyncio.Lock() if is_exact else None
        self._group: Any = None
        self._received: dict[str, torch.Tensor] = {}
        self._version = 0

    def routes(self) -> list[Route]:
        posts = {
            "/inference/v1/generate": self.generate,
            "/init_weight_transfer_engine": self.join_trainer,
            "/update_weights": self.receive,
            "/finish_weight_update": self.publish,
            **dict.fromkeys(IGNORED, _ignore),
        }
        sizes = Route("/get_world_size", _world_size, methods=["GET"])
        return [sizes, *(Route(path, handler, methods=["POST"]) for path, handler in posts.items())]

    async def generate(self, request: Request) -> JSONResponse:
        if self._version == 0:
            return _error("the trainer has sent no weights to this engine", 503)
        body = await request.json()
        params = body["sampling_params"]
        stop_ids = frozenset(params["stop_token_ids"])
        sampling = Sampling(params["max_tokens"], params["temperature"], params["top_p"], stop_ids)
        try:
            completion = await self._complete(body["token_ids"], sampling, params["seed"])
        except ValueError as error:
            return _error(str(error), 400)
        content = [{"logprob": value} for value in completion.logprobs]
        choice = {
            "token_ids": list(completion.token_ids),
            "logprobs": {"content": content},
            "finish_reason": str(completion.finish),
        }
        return JSONResponse({"choices": [choice]})

    async def _complete(self, prompt_ids: list[int], sampling: Sampling, seed: int) -> Completion:
        if self._one_at_a_time is None:
            return await self._engine.complete(prompt_ids, sampling, seed)
        async with self._one_at_a_time:
            await self._engine.forget()
            return await self._engine.complete(prompt_ids, sampling, seed)

    async def join_trainer(self, request: Request) -> JSONResponse:
        info = (await request.json())["init_info"]
        address, port = info["master_address"], info["master_port"]
        self._group = await asyncio.to_thread(join, address, port, info["rank_offset"], info["world_size"])
        return JSONResponse({})

    async def receive(self, request: Request) -> JSONResponse:
        if self._group is None:
            return _error("this engine has not joined the trainer", 409)
        update = (await request.json())["update_info"]
        dtypes = [getattr(torch, name) for name in update["dtype_names"]]
        self._received = {
            name: torch.empty(shape, dtype=dtype)
            for name, dtype, shape in zip(update["names"], dtypes, update["shapes"], strict=True)
        }
        for tensor in self._received.values():
            await asyncio.to_thread(broadcast, self._group, tensor)
        return JSONResponse({})

    async def publish(self, request: Request) -> JSONResponse:
        self._version += 1
        await self._engine.publish(self._received, self._version)
        return JSONResponse({})


async def _ignore(request: Request) -> JSONResponse:
    return JSONResponse({})


async def _world_size(request: Request) -> JSONResponse:
    return JSONResponse({"world_size": 1})


def _error(message: str, status: int) -> JSONResponse:
    return JSONResponse({"error": {"message": message}}, status_code=status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--exact", action="store_true")
    args = parser.parse_args()
    server = EngineServer(read_recipe(args.recipe), is_exact=args.exact)
    uvicorn.run(Starlette(routes=server.routes()), host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
