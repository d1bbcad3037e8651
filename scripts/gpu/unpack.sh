#!/usr/bin/env bash
# On the GPU host, from the repository's root: takes one piece made by pack.sh; with the last one, in whatever
# order they came, installs everything under ~/gpu. Then `. ~/gpu/env.sh`.
#   bash scripts/gpu/unpack.sh .gpu/pieces/1
set -euo pipefail
piece=$1 home=${TURNWISE_GPU_HOME:-$HOME/gpu}
mkdir -p "$home"/{parts,site,bin}
cp "$piece"/part.* "$home/parts/"
[[ $(find "$home/parts" -name 'part.*' | wc -l) == $(cat "$piece/total") ]] || { ls "$home/parts"; exit 0; }

mkdir "$home/stage"
cat "$home"/parts/part.* | tar x -C "$home/stage"
xz -d -T0 < "$home/stage/vllm.tar.xz" | tar x -C "$home/site"
# only what the host's Python does not have yet: its torch must stay the one it was built with
mapfile -t missing < <(python3 - "$home/stage/wheels" <<'PYTHON'
import glob, importlib.metadata as m, os, re, sys
norm = lambda s: re.sub(r"[-_.]+", "-", s).lower()
have = {norm(d.metadata["Name"]) for d in m.distributions()}
for wheel in glob.glob(sys.argv[1] + "/*.whl"):
    if norm(os.path.basename(wheel).split("-")[0]) not in have:
        print(wheel)
PYTHON
)
python3 -m pip install -q --no-index --no-deps --root-user-action=ignore --target "$home/site" "${missing[@]}"
mkdir -p "$home/site/xgrammar" "$home/site/turnwise-0.1.0.dist-info"
cat > "$home/site/xgrammar/__init__.py" <<'PYTHON'
"""Stands in for xgrammar where no output is constrained: vLLM only names its classes."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})
PYTHON
printf 'Metadata-Version: 2.4\nName: turnwise\nVersion: 0.1.0\n' > "$home/site/turnwise-0.1.0.dist-info/METADATA"
cat > "$home/env.sh" <<SHELL
export PYTHONPATH=$PWD/src:$home/site PATH=$home/bin:\$PATH
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 PYTHONUNBUFFERED=1
SHELL
# Servers get no PYTHONPATH of ours: the command brings its own.
cat > "$home/bin/turnwise" <<SHELL
#!/bin/sh
. $home/env.sh
exec $(command -v python3) -m turnwise "\$@"
SHELL
chmod +x "$home/bin/turnwise"
rm -rf "$home/stage" "$home/parts"
ls "$home/site" | wc -l
