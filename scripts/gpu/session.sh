#!/usr/bin/env bash
# On the GPU host, after unpack.sh and with .gpu/trl and .gpu/hardware carried there: all that is measured there,
# one part after the other in the background, so that a call that ends does not end it; about 25 minutes.
#   bash scripts/gpu/session.sh [warm learn race_large idle race_small idle_larger update]
#   bash scripts/gpu/look.sh SECONDS                  how far it is, and what there is to $OUT
# `warm` is needed by all that follows but `update`. What is timed runs by itself.
set -uo pipefail
home=${TURNWISE_GPU_HOME:-$HOME/gpu}
tree=$home/tree out=$home/out
mkdir -p "$out"
# a copy: the next call brings another working tree
[[ -d $tree ]] || cp -r "$PWD" "$tree"
sed -i "s#^export PYTHONPATH=.*#export PYTHONPATH=$tree/src:$tree:$home/site PATH=$home/bin:\$PATH#" "$home/env.sh"
cat > "$home/session.sh" <<SHELL
cd $tree; . $home/env.sh; out=$out home=$home
$(sed -n '/^# --- parts/,$p' "$0")
for part in ${*:-warm learn race_large idle race_small idle_larger update}; do
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

warm() {  # beside the engines' starts, which take longer; what they time waits for it
  (flock /tmp/turnwise-benchmark.lock env OMP_NUM_THREADS=4 timeout 240 turnwise sft recipes/smollm2.toml \
    --out $out/warm --set model.dtype=bfloat16 > $out/warm.log 2>&1) &
  sleep 1
  OMP_NUM_THREADS=4 timeout 260 python3 benchmarks/vllm_engine.py --adapters > $out/engine-adapters.log 2>&1 &
  OMP_NUM_THREADS=4 timeout 260 python3 benchmarks/vllm_engine.py --rounds 1 > $out/engine-merged.log 2>&1 &
  wait
}

learn() {  # seven runs side by side: the first alone for a while, so that the others find what it compiled
  local common="python3 benchmarks/learning.py --recipe recipes/smollm2.toml --set model.path=$out/warm \
    --set engine.kind=vllm --set model.dtype=bfloat16 --set engine.vllm.cache_gib=4 \
    --set update.tokens_per_microbatch=8192 --goal 0.7 --out $out/learning"
  local steps=${STEPS:-24}
  timeout 560 $common --set run.num_steps=$steps --variants "true rewards" --seeds 0 --jobs 1 > $out/learn-0.log 2>&1 &
  sleep 50
  timeout 500 $common --set run.num_steps=$steps --variants "true rewards" --seeds 1 2 --jobs 2 > $out/learn-1.log 2>&1 &
  timeout 500 $common --set run.num_steps=$steps --variants shuffled --seeds 0 1 2 --jobs 3 > $out/learn-2.log 2>&1 &
  timeout 500 $common --set run.num_steps=5 --variants "learning rate 0" --seeds 0 --jobs 1 > $out/learn-3.log 2>&1 &
  bash scripts/gpu/hardware.sh > $out/hardware.log 2>&1
  for kind in whole adapters; do  # with pytest's packages in .gpu/tests
    PYTHONPATH=$PYTHONPATH:$PWD/.gpu/tests timeout 400 python3 -m tests.engines.vllm_scenarios --bfloat16 $kind \
      > $out/scenarios-$kind.log 2>&1 &
  done
  wait
  local end=$((SECONDS + 60))  # for what hardware.sh has not come to yet, then the GPU is for what is timed
  until grep -q "all done" $out/hardware.said || ((SECONDS >= end)); do sleep 1; done
  pkill -f "$home/hardware" || true
}

raced() {  # NAME MODEL [OPTIONS]
  local packages=$home/trl/site-packages name=$1 model=$2; shift 2
  [[ -d $packages ]] || { mkdir -p $packages && tar xJf .gpu/trl/site.tar.xz -C $packages; }
  PYTHONPATH=$PYTHONPATH:$packages TRL_EXPERIMENTAL_SILENCE=1 timeout -k 5 420 python3 benchmarks/versus_trl.py \
    --device cuda --model $model --warm 1 --steps 1 --out $out/race-$name "$@" > $out/race-$name.log 2>&1
}
race_large() { raced grown qwen3-0.6b; }
race_small() { raced warm $out/warm; }

idled() {  # BILLIONS
  timeout 90 python3 benchmarks/race/grown.py $out/grown-$1 $1
  timeout 240 python3 benchmarks/gpu_idle.py --model $out/grown-$1 --steps 5 --plot $out/timeline-$1.svg \
    --set optimizer.learning_rate=1e-8 --set engine.vllm.adapters=true --set update.tokens_per_microbatch=12288 \
    --set rollout.num_parallel_episodes=384 --set engine.max_batch=384 --set run.max_staleness=2 \
    --set rollout.dynamic_sampling=false > $out/idle-$1.log 2> $out/idle-$1.err
}
idle() { idled 0.6; }
idle_larger() { idled 1.7; }

update() {
  for model in smollm2 qwen3-0.6b; do
    timeout 90 python3 benchmarks/train.py --device cuda --model $model > $out/update-$model.log 2>&1
  done
}
