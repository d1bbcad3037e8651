#!/usr/bin/env bash
# Runs the benchmarks that need a CUDA device, one after the other. Each part takes about ten minutes on an H200:
#   updates   training updates by model size, compared with padded rows and transformers; the start of a run
#   steps     whole steps on long episodes: vLLM alone, turnwise, and TRL's asynchronous trainer
#   trl       the same steps with TRL's GRPOTrainer, most of whose time goes by in slow tools
#   short     the vLLM engine, idle time and whole steps on short episodes
# A benchmark whose packages are missing is skipped with the command that installs them; one that fails does not stop
# the others, and the exit status is then 1.
#   benchmarks/gpu.sh [PYTHON [PART...]]     by default .venv/bin/python and all parts
set -uo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
parts=("${@:2}")
[[ ${#parts[@]} -gt 0 ]] || parts=(updates steps trl short)
long=(long_steps.py --device cuda --model qwen3-0.6b --tasks 4 --latencies 0,500 --out runs/long_steps)
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
  measure long.py --device cuda --model qwen3-4b --tasks 2
  measure long.py --device cuda --model qwen3-8b --tasks 1 --sides ours
  with_vllm start.py --device cuda --model qwen3-1.7b
}

steps() {
  with_vllm "${long[@]}" --sides raw,turnwise,turnwise-async
  with_trl "${long[@]}" --sides trl-async
}

trl() { with_trl "${long[@]}" --sides trl; }

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
    updates | steps | trl | short) "$part" ;;
    *) echo "PART: $part is none of updates, steps, trl, short" >&2; exit 1 ;;
  esac
done
exit $status
