#!/usr/bin/env bash
# On the GPU host, after unpack.sh: SmolLM2 warms up on demonstrations, then learns by GRPO with real tools, once
# sampled by vLLM and once by the transformers engine, side by side.
#   bash scripts/gpu/learn.sh SECONDS [--set a.b=c ...]
set -uo pipefail
limit=$1; shift
. "${TURNWISE_GPU_HOME:-$HOME/gpu}/env.sh"
out=${OUT:-/tmp/turnwise-gpu}
runs=$(mktemp -d)
mkdir -p "$out"
recipe=recipes/smollm2.toml
end=$((SECONDS + limit))
timeout "$limit" turnwise sft $recipe --out "$runs/warm" --set model.dtype=bfloat16 "$@" > "$out/sft.log" 2>&1
tail -3 "$out/sft.log"; echo "warm after $SECONDS s"
common=(--set "model.path=$runs/warm" --set model.dtype=bfloat16 --set "run.folder=$runs" "$@")
for engine in vllm transformers; do
  timeout -s INT -k 10 $((end - SECONDS)) turnwise train $recipe --set run.name=$engine --set engine.kind=$engine \
    --set engine.vllm.eager=true "${common[@]}" > "$out/train-$engine.log" 2>&1 &
done
wait
for engine in vllm transformers; do
  echo "== $engine"; grep -v "^  \|Warning\|INFO" "$out/train-$engine.log" | tail -25 | cut -c 1-200
  cp "$runs/$engine/metrics.jsonl" "$out/metrics-$engine.jsonl" 2>/dev/null
done
