#!/usr/bin/env bash
# On the GPU host, after unpack.sh and with .gpu/trl carried there: all that is measured there, one part after the
# other in the background, so that a call that ends does not end it; about 25 minutes.
#   bash scripts/gpu/session.sh [warm learn engine race update idle]
#   bash scripts/gpu/look.sh SECONDS                  how far it is, and what there is to $OUT
# `warm` is needed by all that follows but `engine` and `update`. What is timed runs by itself.
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
for part in ${*:-warm learn engine race update idle}; do
  echo "\$part begins after \$SECONDS s" >> $out/said
  \$part
done
echo "all done after \$SECONDS s" >> $out/said
SHELL
setsid nohup bash "$home/session.sh" > "$out/session.log" 2>&1 < /dev/null &
exit

# --- parts ---------------------------------------------------------------------------------------------------------
export OMP_WAIT_POLICY=PASSIVE TORCHINDUCTOR_COMPILE_THREADS=4
# vLLM's older runner wants flashinfer, which is not there; on all sides alike
export VLLM_USE_V2_MODEL_RUNNER=1

warm() {
  OMP_NUM_THREADS=4 timeout 240 turnwise sft recipes/smollm2.toml --out $out/warm --set model.dtype=bfloat16 > $out/warm.log 2>&1
}

learn() {  # seven runs side by side: the first alone for a while, so that the others find what it compiled
  local common="python3 benchmarks/learning.py --recipe recipes/smollm2.toml --set model.path=$out/warm \
    --set engine.kind=vllm --set model.dtype=bfloat16 --set engine.vllm.cache_gib=4 --goal 0.7 --out $out/learning"
  timeout 560 $common --set run.num_steps=25 --variants "true rewards" --seeds 0 --jobs 1 > $out/learn-0.log 2>&1 &
  sleep 60
  timeout 500 $common --set run.num_steps=25 --variants "true rewards" --seeds 1 2 --jobs 2 > $out/learn-1.log 2>&1 &
  timeout 500 $common --set run.num_steps=25 --variants shuffled --seeds 0 1 2 --jobs 3 > $out/learn-2.log 2>&1 &
  timeout 500 $common --set run.num_steps=5 --variants "learning rate 0" --seeds 0 --jobs 1 > $out/learn-3.log 2>&1 &
  wait
}

engine() { OMP_NUM_THREADS=4 timeout 220 python3 benchmarks/vllm_engine.py --adapters > $out/engine.log 2>&1; }

race() {
  local packages=$home/trl/site-packages
  [[ -d $packages ]] || { mkdir -p $packages && tar xJf .gpu/trl/site.tar.xz -C $packages; }
  for name in grown warm; do
    local model=qwen3-0.6b; [[ $name == warm ]] && model=$out/warm
    PYTHONPATH=$PYTHONPATH:$packages TRL_EXPERIMENTAL_SILENCE=1 timeout -k 5 420 python3 benchmarks/versus_trl.py \
      --device cuda --model $model --warm 1 --steps 1 --out $out/race-$name > $out/race-$name.log 2>&1
  done
}

update() {
  for model in smollm2 qwen3-0.6b; do
    timeout 90 python3 benchmarks/train.py --device cuda --model $model > $out/update-$model.log 2>&1
  done
}

idle() {
  timeout 60 python3 benchmarks/race/grown.py $out/grown
  timeout 240 python3 benchmarks/gpu_idle.py --model $out/grown --steps 5 --plot $out/timeline.svg \
    --set optimizer.learning_rate=1e-8 --set rollout.num_parallel_episodes=384 --set engine.max_batch=384 \
    --set run.max_staleness=2 > $out/idle.log 2> $out/idle.err
}
