#!/usr/bin/env bash
# On the GPU host, after unpack.sh: makes the embedded model on the GPU, then plays the learning gate with it on the
# host's cores, a core a run. It goes on in the background; every call waits at most SECONDS, says how far it is, and
# puts what is done into $OUT.
#   bash scripts/gpu/embedded.sh SECONDS [SEED]
set -uo pipefail
. "${TURNWISE_GPU_HOME:-$HOME/gpu}/env.sh"
limit=$1 seed=${2:-3} work=/tmp/embedded out=${OUT:-/tmp/turnwise-gpu}
mkdir -p "$out"
if [[ ! -d $work ]]; then
  mkdir -p $work
  cp -r "$PWD" $work/tree  # a later call brings another working tree
  cat > $work/go.sh <<SHELL
cd $work/tree
export PYTHONPATH=$work/tree/src:$work/tree:\${PYTHONPATH#*:} OMP_WAIT_POLICY=PASSIVE
python3 -m turnwise model build --out $work/model --seed $seed --device cuda > $work/build.log 2>&1 || exit 1
gate() { python3 benchmarks/learning.py --set model.path=$work/model --set model.device=cpu "\$@"; }
gate --jobs 9 --out $work/gate --plot $work/learning.svg > $work/gate.log 2>&1 &
gate --jobs 7 --presets --seeds 0 --out $work/presets > $work/presets.log 2>&1 &
wait
SHELL
  setsid nohup bash $work/go.sh > $work/go.log 2>&1 < /dev/null &
  echo $! > $work/pid
fi
end=$((SECONDS + limit))
while ((SECONDS < end)) && kill -0 "$(cat $work/pid)" 2> /dev/null; do sleep 2; done
tail -n 3 $work/build.log $work/go.log
for log in $work/gate/*.log $work/presets/*.log; do
  [[ -f $log ]] && echo "${log#"$work"/}: $(grep -a '^step\|held-out tasks' "$log" | tail -n 1 | cut -c 1-110)"
done
cat $work/gate.log $work/presets.log 2> /dev/null
[[ -f $work/model/model.safetensors ]] && tar czf "$out/model.tgz" -C $work model
tar czf "$out/logs.tgz" -C $work --exclude=tree --exclude=model --exclude=model.stages --exclude=checkpoints \
  --exclude=trajectories .
