#!/usr/bin/env bash
# On the GPU host, after unpack.sh and with .gpu/trl and .gpu/hardware carried there: all that is measured there,
# one part after the other in the background, so that a call that ends does not end it; about 30 minutes.
#   bash scripts/gpu/session.sh [kernels race_large idle learn update engine remote hardware scenarios]
#   bash scripts/gpu/look.sh SECONDS                  how far it is, and what there is to $OUT
# `learn` wants what `race_large` leaves behind. What is timed runs by itself.
set -uo pipefail
home=${TURNWISE_GPU_HOME:-$HOME/gpu}
tree=$home/tree out=$home/out
[[ -f $home/env.sh ]] || { echo "$home/env.sh is not there: unpack.sh did not get all pieces" >&2; exit 1; }
mkdir -p "$out"
# a copy: the next call brings another working tree
[[ -d $tree ]] || cp -r "$PWD" "$tree"
sed -i "s#^export PYTHONPATH=.*#export PYTHONPATH=$tree/src:$tree:$home/site PATH=$home/bin:\$PATH#" "$home/env.sh"
cat > "$home/session.sh" <<SHELL
cd $tree; . $home/env.sh; out=$out home=$home
$(sed -n '/^# --- parts/,$p' "$0")
for part in ${*:-kernels race_large idle learn update engine remote hardware scenarios}; do
  echo "\$part begins after \$SECONDS s" >> $out/said
  \$part
done
echo "all done after \$SECONDS s" >> $out/said
SHELL
rm -f "$out/said"
setsid nohup bash "$home/session.sh" > "$out/session.log" 2>&1 < /dev/null &
exit

# --- parts ---------------------------------------------------------------------------------------------------------
export OMP_WAIT_POLICY=PASSIVE TORCHINDUCTOR_COMPILE_THREADS=4
# vLLM's older runner wants flashinfer, which is not there; on all sides alike
export VLLM_USE_V2_MODEL_RUNNER=1

lock=/tmp/turnwise-benchmark.lock  # what holds it is timed, or keeps what is timed waiting

warm() {
  flock $lock env OMP_NUM_THREADS=4 timeout 240 turnwise sft recipes/smollm2.toml --out $out/warm \
    --set model.dtype=bfloat16 --set sft.tokens_per_microbatch=16384 > $out/warm.log 2>&1
}

engine() {  # as adapters and merged
  for kind in --adapters ""; do
    OMP_NUM_THREADS=4 timeout 260 python3 benchmarks/vllm_engine.py $kind > $out/engine${kind#-}.log 2>&1 &
  done
  wait
}

remote() {  # as a server beside its trainer
  [[ -d $out/warm ]] || warm  # else nothing is learned, and nothing published
  local keys="--set model.path=$out/warm --set model.dtype=bfloat16 --set engine.max_batch=128"
  keys+=" --set rollout.num_parallel_episodes=128 --set update.tokens_per_microbatch=16384"
  timeout 300 turnwise engine recipes/smollm2.toml $keys --set engine.kind=vllm --set engine.vllm.cache_gib=4 \
    > $out/remote-engine.log 2>&1 &
  timeout 280 turnwise train recipes/smollm2.toml $keys --set engine.kind=remote --set engine.remote.adapters=false \
    --set engine.remote.wait_seconds=240 --set run.num_steps=3 --set run.folder=$out/remote \
    --set evaluation.is_before_and_after=false > $out/remote.log 2>&1
  pkill -INT -f "turnwise engine"
  wait
}

raced() {  # NAME MODEL [OPTIONS]
  local packages=$home/trl/site-packages name=$1 model=$2; shift 2
  [[ -d $packages ]] || { mkdir -p $packages && tar xJf .gpu/trl/site.tar.xz -C $packages; }
  PYTHONPATH=$PYTHONPATH:$packages TRL_EXPERIMENTAL_SILENCE=1 timeout -k 5 600 python3 benchmarks/versus_trl.py \
    --device cuda --model $model --warm 2 --steps 1 --out $out/race-$name "$@" > $out/race-$name.log 2>&1
}

grown() {  # under the lock, and on the disk: 16 GB that are being written slow down whatever is timed
  flock $lock timeout 120 bash -c "python3 benchmarks/race/grown.py $out/grown-8 8; sync" > $out/grown.log 2>&1
}

race_large() {  # beside the warm start: engines take two minutes to start, and are timed when it is done
  warm &
  sleep 1
  grown &
  raced grown qwen3-0.6b
  wait
}

learn() {  # six runs side by side, and the race of the small model starts beside them: it is timed after them
  local common="python3 benchmarks/learning.py --recipe recipes/smollm2.toml --set model.path=$out/warm \
    --set engine.kind=vllm --set model.dtype=bfloat16 --set engine.vllm.cache_gib=2 \
    --set engine.max_batch=128 --set rollout.num_parallel_episodes=128 \
    --set update.tokens_per_microbatch=4096 --goal 0.7 --out $out/learning --set run.num_steps=${STEPS:-22}"
  exec 9> $lock
  flock 9
  timeout 480 $common --variants "true rewards" --jobs 3 > $out/learn-true.log 2>&1 &
  local runs=$!
  timeout 480 $common --variants shuffled --jobs 3 > $out/learn-shuffled.log 2>&1 &
  runs="$runs $!"
  (sleep 40; raced small smollm2 --epochs 3 --cache-gib 4) 9>&- &
  wait $runs
  echo "learned after $SECONDS s" >> $out/said
  flock -u 9
  wait
}

hardware() {
  bash scripts/gpu/hardware.sh > $out/hardware.log 2>&1
  until grep -q "all done" $out/hardware.said; do sleep 1; done
}

# these two: pip install --target .gpu/tests --no-deps --python-version 3.12 --only-binary=:all: pytest pluggy iniconfig pygments packaging hypothesis \
#   sortedcontainers, and carried
kernels() {  # as `make test-gpu`
  PYTHONPATH=$PYTHONPATH:$PWD/.gpu/tests timeout 300 python3 -m pytest -q -rs -W default tests/gpu > $out/kernels.log 2>&1
  tail -n 1 $out/kernels.log >> $out/said
}

scenarios() {
  for kind in whole adapters; do
    PYTHONPATH=$PYTHONPATH:$PWD/.gpu/tests timeout 400 python3 -m tests.engines.vllm_scenarios --bfloat16 $kind \
      > $out/scenarios-$kind.log 2>&1 &
  done
  wait
}

idle() {
  [[ -d $out/grown-8 ]] || grown
  timeout 330 python3 benchmarks/gpu_idle.py --model $out/grown-8 --steps 5 --plot $out/timeline.svg \
    --set optimizer.learning_rate=1e-8 --set engine.vllm.adapters=true --set engine.vllm.cache_gib=24 \
    --set update.tokens_per_microbatch=8192 --set rollout.dynamic_sampling=false --set run.max_staleness=2 \
    --set run.tasks_per_step=64 --set rollout.num_parallel_episodes=384 --set engine.max_batch=384 \
    > $out/idle.log 2> $out/idle.err
}

update() {
  for model in smollm2 qwen3-0.6b; do
    timeout 90 python3 benchmarks/train.py --device cuda --model $model > $out/update-$model.log 2>&1
  done
}
