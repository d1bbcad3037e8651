#!/usr/bin/env bash
# Runs the benchmarks that need a CUDA device, one after the other. Each part takes about ten minutes on an H200:
#   steps     whole steps on long episodes: vLLM alone and turnwise
#   rivals    the same steps with TRL's trainers, fewer of them: most of the time goes by in their start and slow tools
#   updates   training updates by model size, compared with padded rows and transformers; the start of a run
#   sizes     whole steps of larger models, and growth with tokens, episodes and turns
#   short     the vLLM engine, idle time and whole steps on short episodes
# A benchmark whose packages are missing is skipped with the command that installs them; one that fails does not stop
# the others, and the exit status is then 1.
#   benchmarks/gpu.sh [PYTHON [PART...]]     by default .venv/bin/python and all parts
set -uo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
parts=("${@:2}")
[[ ${#parts[@]} -gt 0 ]] || parts=(steps rivals updates sizes short)
long=(long_steps.py --device cuda --out)
small=("${long[@]}" runs/long_steps --model qwen3-0.6b --tasks 4 --latencies 0,500)
status=0

has() { "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }

measure() {
  echo "== benchmarks/$*"
  "$python" benchmarks/"$@" || { echo "benchmarks/$1 failed" >&2; status=1; }
}

with_vllm() {
  if has vllm; then measure "$@"; else echo "== $1 skipped: $python -m pip install -e '.[vllm]'" >&2; fi
}

with_trl() {
  if has trl || [ -d .tools/trl ]; then with_vllm "$@"; else
    echo "== $1 skipped: pip install --target .tools/trl --no-deps trl==1.16.0 datasets dill multiprocess xxhash" >&2
  fi
}

updates() {
  measure train.py --device cuda --model qwen3-0.6b --rounds 3
  measure long.py --device cuda --model qwen3-0.6b --tuning full --tasks 4 --tokens 32768
  measure long.py --device cuda --model qwen3-1.7b --tuning full --tasks 1 --tokens 32768 --sides ours
  for saving in --recompute --offload; do
    measure long.py --device cuda --model qwen3-1.7b --tuning full --tasks 1 --sides ours "$saving"
  done
  measure long.py --device cuda --model qwen3-4b --tasks 2
  measure long.py --device cuda --model qwen3-8b --tasks 1 --sides ours
  with_vllm start.py --device cuda --model qwen3-1.7b
}

steps() { with_vllm "${small[@]}" --sides raw,engine,turnwise,turnwise-async; }

rivals() {
  with_trl "${small[@]}" --sides trl-async --steps 1
  with_trl "${small[@]}" --sides trl --warm 0 --steps 1
}

sizes() {
  with_vllm "${long[@]}" runs/long_steps_1.7b --model qwen3-1.7b --tuning full --tasks 2 --tokens 0 --sides turnwise
  with_vllm "${long[@]}" runs/long_steps_4b --model qwen3-4b --tasks 2 --tokens 0 --sides turnwise
  with_vllm "${long[@]}" runs/long_steps_8b --model qwen3-8b --tasks 1 --tokens 0 --sides turnwise
  with_vllm growth_gpu.py
}

short() {
  with_vllm vllm_engine.py
  with_vllm vllm_engine.py --adapters
  with_vllm gpu_idle.py
  with_trl versus_trl.py --device cuda --model qwen3-0.6b
}

"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
  { echo "$python has no CUDA device; the benchmarks for CPUs are listed in docs/benchmarks/performance.md" >&2; exit 1; }
for part in "${parts[@]}"; do
  case $part in
    steps | rivals | updates | sizes | short) "$part" ;;
    *) echo "PART: $part is not one of steps, rivals, updates, sizes, short" >&2; exit 1 ;;
  esac
done
exit $status
