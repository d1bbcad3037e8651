#!/usr/bin/env bash
# On the GPU host, after unpack.sh and with .gpu/hardware carried there: what spreads a policy over GPUs, by one rank
# over NCCL, and QLoRA with its memory, planned and used. In the background beside all else, four lanes side by side;
# about 5 minutes. A result is a line of ~/gpu/out/hardware.said, logs are in ~/gpu/out/hardware.
#   bash scripts/gpu/hardware.sh [fsdp2 zero3 small seven]     `all done` is in the last line
#   HARDWARE_DEVICE=cpu bash scripts/gpu/hardware.sh           a rehearsal anywhere: tiny, one lane after the other
set -uo pipefail
home=${TURNWISE_GPU_HOME:-$HOME/gpu}
own=$home/hardware out=$home/out/hardware said=$home/out/hardware.said
mkdir -p "$own/bin" "$out"
# a copy: the next call brings another working tree, and session.sh changes env.sh
[[ -d $own/tree ]] || { mkdir "$own/tree" && cp -r src tests recipes benchmarks pyproject.toml "$own/tree/"; }
[[ -d $home/hardware-site ]] || { mkdir "$home/hardware-site" && tar xJf .gpu/hardware/site.tar.xz -C "$home/hardware-site"; }
cat > "$own/env.sh" <<SHELL
. $home/env.sh
export PYTHONPATH=$own/tree/src:$own/tree:$home/site:$home/hardware-site PATH=$own/bin:\$PATH
SHELL
printf '#!/bin/sh\n. %s/env.sh\nexec %s -m turnwise "$@"\n' "$own" "$(command -v python3)" > "$own/bin/turnwise"
chmod +x "$own/bin/turnwise"
{
  echo "own=$own out=$out said=$said device=${HARDWARE_DEVICE:-cuda}"
  echo "cd $own/tree; . $own/env.sh"
  sed -n '/^# --- parts/,$p' "$0"
  for lane in ${*:-fsdp2 zero3 small seven}; do
    [[ ${HARDWARE_DEVICE:-cuda} == cuda ]] && echo "$lane &" || echo "$lane"
  done
  echo 'wait; say "all done after $SECONDS s"'
} > "$own/lanes.sh"
[[ ${HARDWARE_DEVICE:-cuda} == cuda ]] || exec bash "$own/lanes.sh" > "$out/lanes.log" 2>&1
setsid nohup bash "$own/lanes.sh" > "$out/lanes.log" 2>&1 < /dev/null &
exit

# --- parts ---------------------------------------------------------------------------------------------------------
export OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=${OMP_NUM_THREADS:-4} GLOO_SOCKET_IFNAME=lo DS_SKIP_CUDA_CHECK=1
models=(smollm2 embedded) updates=() sizes=(qwen3-0.6b 7b) tiny=() slower=1
if [[ $device == cpu ]]; then
  models=(embedded) updates=(full bfloat16) sizes=(tiny tiny) slower=4
  tiny=(engine.cache_tokens=2048 engine.max_batch=4 rollout.tokens_per_episode=1536 update.tokens_per_microbatch=1536)
fi
# even token ids: something to learn from, whatever a model does
few=("rewards=[{name=\"tests.run.own_rewards:even_ids\"}]" rollout.group_size=4 run.tasks_per_step=2 run.num_steps=2
  rollout.tokens_per_turn=16 evaluation.every=0 evaluation.is_before_and_after=false "run.folder=$own/runs"
  "model.device=$device" "${tiny[@]}")

say() { echo "$(date +%T) $*" >> "$said"; }

within() {  # SECONDS LOG COMMAND: how it ended is told where it did not go well
  local limit=$1 log=$out/$2.log code; shift 2
  timeout -k 5 $((limit * slower)) "$@" >> "$log" 2>&1; code=$?
  ((code == 0)) || say "FAILED ($code): $(basename "$log" .log): $(grep -v '^ *$' "$log" | tail -n 1 | cut -c 1-200)"
  return $code
}

train() {  # SECONDS LOG then turnwise train's arguments; each KEY=VALUE of `with` is a --set
  local limit=$1 log=$2 sets=(); shift 2
  for each in "${with[@]}"; do sets+=(--set "$each"); done
  within "$limit" "$log" turnwise train "$@" "${sets[@]}"
}

figures() {  # of a run: each step's gradient norm, and the most memory that tensors took
  python3 - "$1" <<'PYTHON'
import json, pathlib, sys
steps = [json.loads(line)["metrics"] for line in (pathlib.Path(sys.argv[1]) / "metrics.jsonl").open()]
steps = [each for each in steps if "gradient/norm" in each]
norms = " ".join(f"{each['gradient/norm']:.3g}" for each in steps)
kl = " ".join(f"{each['kl/sampler']:.2g}" for each in steps if "kl/sampler" in each)
peak = max((each["memory/cuda_peak_gib"] * 2**30 / 1e9 for each in steps if "memory/cuda_peak_gib" in each), default=0)
print(f"{len(steps)} steps, gradient norms {norms}, KL to the sampler {kl}, {peak:.2f} GB of tensors at most")
PYTHON
}

fsdp2() { spread fsdp2 recipes/multi_gpu_fsdp.toml zero3; }
zero3() { spread zero3 recipes/multi_gpu_zero3.toml data_parallel; }
small() { packages; packed "${sizes[0]}"; }
seven() { packed "${sizes[1]}"; rm -rf "$own/models/${sizes[1]}"; }

spread() {  # STRATEGY RECIPE OTHER: updates spread and whole, then runs, gone on with by the same and by another
  local strategy=$1 recipe=$2 other=$3 path run with
  within 180 "alike-$strategy" python3 -m tests.distributed.one_rank $strategy $device "${updates[@]}" "${models[@]}"
  say "alike: $(grep '"furthest apart"' "$out/alike-$strategy.log")"
  for path in "${models[@]}"; do
    run=$own/runs/$strategy-$path
    rm -rf "$run"
    with=("${few[@]}" "model.path=$path" "run.name=$strategy-$path")
    train 120 "$strategy-$path" $recipe --processes 1 || continue
    say "$strategy of $path: $(figures "$run")"
  done
  with=(run.num_steps=3)
  train 90 "$strategy-again" --resume "$run" && say "$strategy, resumed: $(figures "$run")"
  with=(run.num_steps=4 hardware.strategy=$other)
  train 90 "$strategy-by-$other" --resume "$run" && say "$strategy, resumed by $other: $(figures "$run")"
  rm -rf "$own/runs/$strategy-smollm2/checkpoints"
}

packages() {
  within 60 packages python3 -c "
import bitsandbytes, deepspeed, torch
print('torch', torch.__version__, 'bitsandbytes', bitsandbytes.__version__, 'deepspeed', deepspeed.__version__)
print(bitsandbytes.cextension.lib.__class__.__name__, torch.cuda.is_available() and torch.cuda.get_device_name())"
  say "packages: $(tail -n 2 "$out/packages.log" | tr '\n' ' ')"
}

packed() {  # SHAPE: its memory by gpu_qlora.toml as planned and as filled to the brim, then a run of it
  local name=$1 model=$own/models/$1 run=$own/runs/qlora-$1 with
  within 200 "shape-$name" python3 -m tests.planning.shaped $name "$model" $device || return
  within 90 "plan-$name" turnwise doctor --plan recipes/gpu_qlora.toml --set "model.path=$model" \
    --set "model.device=$device" && say "qlora $name, doctor --plan: $(grep 'in all' "$out/plan-$name.log" | tail -n 1)"
  within 240 "memory-$name" python3 -m tests.planning.measured recipes/gpu_qlora.toml "model.device=$device" \
    "model.path=$model" "${tiny[@]}" && say "qlora $name, filled: $(memory "$out/memory-$name.log")"
  rm -rf "$run"
  with=("${few[@]}" "model.path=$model" "run.name=qlora-$name")
  train 240 "qlora-$name" recipes/gpu_qlora.toml && say "qlora $name, run: $(figures "$run")"
}

memory() {
  tail -n 1 "$1" | python3 -c "
import json, sys
found = json.load(sys.stdin)
gb = {name: value / 1e9 for name, value in found.items() if name in ('planned', 'used', 'reserved', 'context', 'loading')}
parts = {name: round(value / 1e9, 2) for name, value in found['parts'].items()}
print(f\"planned {gb['planned']:.2f} GB, used {gb['used']:.2f}: {gb['planned'] / gb['used'] - 1:+.1%};\",
      ', '.join(f'{name} {gb[name]:.2f}' for name in ('loading', 'reserved', 'context') if name in gb), parts)"
}
