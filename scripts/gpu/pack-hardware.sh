#!/usr/bin/env bash
# Packs what scripts/gpu/hardware.sh needs beyond pack.sh's pieces and the GPU host's own Python 3.12: DeepSpeed
# without compiled ops (turnwise uses none) and what it imports, and bitsandbytes with its CUDA 13 library alone.
# One piece of about 8 MiB:
#   scripts/gpu/pack-hardware.sh      gives .gpu/hardware/site.tar.xz
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${TMPDIR:-/tmp}/turnwise-gpu-pack/hardware
out=.gpu/hardware
python=${PYTHON:-$PWD/.venv/bin/python}  # has torch and setuptools, which DeepSpeed is built by
rm -rf "$work/site" "$work/built" "$out" && mkdir -p "$work/wheels" "$work/source" "$work/site" "$work/built" "$out"

said() { grep -v WARNING >&2 || true; }
platforms=(); for p in 2014 _2_17 _2_24 _2_28; do platforms+=(--platform "manylinux${p}_x86_64"); done
"$python" -m pip download -q --no-deps --python-version 3.12 --only-binary=:all: "${platforms[@]}" \
  -d "$work/wheels" -c constraints.txt bitsandbytes hjson msgpack py-cpuinfo einops ninja 2> >(said)
# a source package: its wheel is made here, by torch's word that there is no GPU, and holds Python alone
"$python" -m pip download -q --no-deps --no-binary=deepspeed --no-build-isolation -d "$work/source" \
  deepspeed==0.19.8 2> >(said)
tar xzf "$work"/source/deepspeed-0.19.8.tar.gz -C "$work/built"
(cd "$work/built/deepspeed-0.19.8" && DS_BUILD_OPS=0 DS_ACCELERATOR=cpu "$python" setup.py -q bdist_wheel \
  -d "$work/built") > "$work/built/log" 2>&1 || { tail -5 "$work/built/log" >&2; exit 1; }

for wheel in "$work"/wheels/*.whl "$work"/built/*.whl; do unzip -qo "$wheel" -d "$work/site"; done
cd "$work/site"
find bitsandbytes -name 'libbitsandbytes_*.so' ! -name '*_cuda13*' ! -name '*_cpu.so' -delete
rm -rf ./*.data
cd - > /dev/null
tar cf - -C "$work/site" . | xz -T0 -6 > "$out/site.tar.xz"
size=$(stat -c %s "$out/site.tar.xz")
((size <= 50 << 20)) || { echo "$out/site.tar.xz is $size bytes, over 50 MiB" >&2; exit 1; }
du -sk "$out/site.tar.xz"
