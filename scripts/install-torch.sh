#!/usr/bin/env bash
# Installs the pinned torch into the environment of the given Python. Without an NVIDIA GPU it installs the CPU build,
# because the default build for Linux brings gigabytes of CUDA packages.
#   scripts/install-torch.sh .venv/bin/python
set -euo pipefail
python=$1
pin=$(grep -E '^torch==' "$(dirname "$0")/../constraints.txt")
if "$python" -c 'import torch' 2>/dev/null; then exit 0; fi
report=$(dirname "$python")/../.torch-report.json
pip=("$python" -m pip install -q --no-compile --report "$report")
verify=("${PYTHON:-python3}" "$(dirname "$0")/pin_hashes.py" check "$report")
if [ "$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null; then
  echo "installing ${pin} (CPU build) ..."
  "${pip[@]}" "${pin}+cpu" 2>/dev/null && exec "${verify[@]}"
  "${pip[@]}" --retries 1 --timeout 20 --index-url https://download.pytorch.org/whl/cpu "${pin}+cpu" 2>/dev/null &&
    exec "${verify[@]}"
  echo "turnwise: no CPU build of torch could be downloaded; installing the default build" >&2
fi
"${pip[@]}" "$pin"
exec "${verify[@]}"
