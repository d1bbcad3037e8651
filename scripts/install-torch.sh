#!/usr/bin/env bash
# Installs the pinned torch into the environment of the given Python. Without an NVIDIA GPU it installs the CPU build,
# because the default build for Linux brings gigabytes of CUDA packages.
#   scripts/install-torch.sh .venv/bin/python
set -euo pipefail
python=$1
pin=$(grep -E '^torch==' "$(dirname "$0")/../constraints.txt")
if "$python" -c 'import torch' 2>/dev/null; then exit 0; fi
pip=("$python" -m pip install -q --no-compile)
if [ "$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null; then
  echo "installing ${pin} (CPU build) ..."
  "${pip[@]}" "${pin}+cpu" 2>/dev/null && exit 0
  "${pip[@]}" --retries 1 --timeout 20 --index-url https://download.pytorch.org/whl/cpu "${pin}+cpu" 2>/dev/null && exit 0
  echo "turnwise: no CPU build of torch could be downloaded; installing the default build" >&2
fi
"${pip[@]}" "$pin"
