#!/usr/bin/env bash
# On the GPU host: waits, then says how far session.sh is; figures and logs go to $OUT in one file.
#   bash scripts/gpu/look.sh SECONDS [PART]     not longer than until that part begins
home=${TURNWISE_GPU_HOME:-$HOME/gpu} out=${TURNWISE_GPU_HOME:-$HOME/gpu}/out
end=$((SECONDS + ${1:-60}))
until grep -q "${2:-all done}\|all done" "$out/said" 2> /dev/null || ((SECONDS >= end)); do
  pgrep -f "$home/session.sh" > /dev/null || { echo "no session runs"; break; }
  sleep 1
done
cat "$out/said"
nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader; uptime
tail -qn 1 "$out"/warm.log "$out"/learn-*.log 2> /dev/null | cut -c 1-160
for log in "$out"/learning/*.log; do
  [[ -f $log ]] && echo "$(basename "$log" .log): $(grep -a '^step\|held-out tasks\|Error' "$log" | tail -n 1 | cut -c 1-120)"
done
for log in "$out"/engine*.log; do
  [[ -f $log ]] && grep -h '"measured"\|"rollouts"\|"publication"\|Error' "$log" | tail -n 7 | cut -c 1-180
done
for log in "$out"/scenarios-*.log; do [[ -f $log ]] && grep -h '^{' "$log" | cut -c 1-120; done
cat "$out/hardware.said" 2> /dev/null | cut -c 1-200
for name in grown small; do
  [[ -f $out/race-$name.log ]] && tail -n 9 "$out/race-$name.log" | cut -c 1-220
  grep -h '"step"' "$out"/race-$name/*/told.jsonl 2> /dev/null | cut -c 1-170
done
for log in "$out"/idle.log; do
  [[ -f $log ]] && { cat "$log"; grep -a "^step\|Error" "${log%.log}.err" | tail -n 2 | cut -c 1-150; }
done
grep -h "goal\|MFU" "$out"/update-*.log 2> /dev/null
tar czf "${OUT:-/tmp}/session.tgz" -C "$out" --exclude=warm --exclude='grown*' --exclude=model --exclude=learned \
  --exclude=checkpoints --exclude=trajectories --exclude=tokens --exclude=unfinished --exclude=hardware/models . 2> /dev/null
true
