#!/usr/bin/env bash
# On the GPU host, after unpack.sh: what the engines do there, side by side on one GPU, in about three minutes.
# Logs go to $OUT; a summary is printed.
#   bash scripts/gpu/check.sh [SECONDS]
set -uo pipefail
. "${TURNWISE_GPU_HOME:-$HOME/gpu}/env.sh"
out=${OUT:-/tmp/turnwise-gpu}/check
limit=${1:-240}
mkdir -p "$out"
export TORCHINDUCTOR_COMPILE_THREADS=4 OMP_NUM_THREADS=2
within() { local log=$1; shift; timeout -k 5 "$limit" "$@" > "$out/$log.log" 2>&1; }
within doctor python3 -m turnwise doctor &
within whole python3 -m tests.engines.vllm_scenarios --bfloat16 whole dying &
within adapters python3 -m tests.engines.vllm_scenarios --bfloat16 adapters &
within merged python3 benchmarks/vllm_engine.py &
within lora python3 benchmarks/vllm_engine.py --adapters &
within older env VLLM_USE_V2_MODEL_RUNNER=0 python3 benchmarks/vllm_engine.py --adapters --eager &
wait
cat "$out/doctor.log"
for log in whole adapters merged lora older; do
  echo "== $log"
  grep -h '^{' "$out/$log.log" | cut -c 1-500 || tail -12 "$out/$log.log"
done
tar czf "$out.tgz" -C "$out" . && rm -r "$out"  # few files come back
