#!/usr/bin/env bash
# On the GPU host, after unpack.sh and with .gpu/trl carried there: turnwise against TRL, vLLM on both sides.
#   bash scripts/gpu/race.sh SECONDS --model smollm2 --epochs 4 [more of versus_trl.py's options]
# What is finished stays under ~/gpu/race: while the machine is warm, the same command goes on.
set -uo pipefail
limit=$1; shift
home=${TURNWISE_GPU_HOME:-$HOME/gpu}
out=${OUT:-/tmp/turnwise-gpu}
. "$home/env.sh"
# A folder of that name: dill, which datasets hashes with, takes modules found elsewhere for the user's own code.
packages=$home/trl/site-packages
[[ -d $packages ]] || { mkdir -p "$packages" && tar xJf .gpu/trl/site.tar.xz -C "$packages"; }
export PYTHONPATH=$PYTHONPATH:$packages TRL_EXPERIMENTAL_SILENCE=1 VLLM_USE_V2_MODEL_RUNNER=1
race=$home/race/$(echo "$*" | tr -cd 'a-z0-9.')
mkdir -p "$out" "$race"
timeout -k 10 "$limit" python3 benchmarks/versus_trl.py --device cuda --out "$race" "$@" 2>&1 | tee "$out/race.log"
tar czf "$out/race.tgz" -C "$race" --exclude='*/trl' --exclude='model' --exclude='*taught' --exclude='*/learned' \
  --exclude='*/turnwise' .  # few files come back
