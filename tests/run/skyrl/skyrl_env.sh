#!/usr/bin/env bash
# Makes .tools/skyrl, the environment that SkyRL's tests run in: SkyRL and Ray, pinned, and turnwise itself.
# Of its own since it needs Python 3.12 or newer and an older transformers than constraints.txt pins.
#   tests/run/skyrl/skyrl_env.sh        PYTHON312=/path/to/python3.12, if none is found
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.tools/skyrl
stamp=$venv/.installed-0.4.0
[[ -f $stamp ]] && exit 0

python=${PYTHON312:-}
for candidate in python3.12 python3.13 "$HOME"/.pyenv/versions/3.12.*/bin/python; do
  [[ -n $python ]] && break
  "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && python=$candidate
done
if [[ -z $python ]]; then
  echo "no Python 3.12 or newer found for SkyRL: set PYTHON312=/path/to/python3.12" >&2
  exit 1
fi
echo "installing SkyRL and Ray into $venv ..."
"$python" -m venv "$venv"
bash scripts/install-torch.sh "$venv/bin/python"
nice -n 10 "$venv/bin/python" -m pip install -q skyrl==0.4.0 skyrl-gym==0.4.0 ray==2.57.0 pytest -e '.[skyrl,view]'
touch "$stamp"
