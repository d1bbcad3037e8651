#!/usr/bin/env bash
# Runs every benchmark that needs a CUDA device, one after the other, with the Python given (default: .venv/bin/python).
# A benchmark whose packages are missing is skipped with the command that installs them; one that fails does not stop
# the others, and the exit status is then 1.
#   benchmarks/gpu.sh [PYTHON]
set -uo pipefail
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
status=0

has() { "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }

measure() {
  echo "== benchmarks/$*"
  "$python" benchmarks/"$@" || { echo "benchmarks/$1 failed" >&2; status=1; }
}

skip() { echo "== benchmarks/$1 skipped: $2" >&2; }

"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
  { echo "$python has no CUDA device; the benchmarks for CPUs are listed in docs/benchmarks/performance.md" >&2; exit 1; }

measure train.py --device cuda --model qwen3-0.6b
measure long.py --device cuda --model qwen3-0.6b
if has vllm; then
  measure vllm_engine.py
  measure vllm_engine.py --adapters
  measure gpu_idle.py
else
  for name in vllm_engine.py gpu_idle.py versus_trl.py long_steps.py; do skip $name "$python -m pip install -e '.[vllm]'"; done
fi
if has vllm && { has trl || [ -d .tools/trl ]; }; then
  measure versus_trl.py --device cuda --model qwen3-0.6b
  measure long_steps.py --device cuda --model qwen3-0.6b --sides raw,turnwise,turnwise-async,trl,trl-async
elif has vllm; then
  skip versus_trl.py "pip install --target .tools/trl --no-deps trl==1.16.0 datasets dill multiprocess xxhash"
fi
exit $status
