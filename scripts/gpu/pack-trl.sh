#!/usr/bin/env bash
# Packs what TRL 1.16.0 needs beyond pack.sh's pieces and the GPU host's own Python 3.12, for benchmarks/versus_trl.py:
# trl, datasets, multiprocess, xxhash, and pandas and pyarrow without what nobody asks them for here (S3, Flight,
# headers, tests). One piece of about 30 MiB, so it travels in one call:
#   scripts/gpu/pack-trl.sh      gives .gpu/trl/site.tar.xz
# On the host, after unpack.sh, scripts/gpu/race.sh unpacks it and runs the race.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${TMPDIR:-/tmp}/turnwise-gpu-pack/trl
out=.gpu/trl
rm -rf "$work/site" "$out" && mkdir -p "$work/wheels" "$work/site" "$out"

platforms=(); for p in 2014 _2_17 _2_24 _2_28; do platforms+=(--platform "manylinux${p}_x86_64"); done
pip download -q --no-deps --python-version 3.12 --only-binary=:all: "${platforms[@]}" -d "$work/wheels" \
  -c constraints.txt trl==1.16.0 datasets==5.2.0 dill==0.4.1 multiprocess==0.70.19 xxhash pandas pyarrow \
  python-dateutil 2> >(grep -v WARNING >&2 || true)
for wheel in "$work"/wheels/*.whl; do unzip -qo "$wheel" -d "$work/site"; done
cd "$work/site"
rm -rf pandas/tests pyarrow/{tests,include,src} pyarrow/*.{pxi,pyx,pxd} pyarrow/{_s3fs,_flight}.*.so
rm -f pyarrow/libarrow_{s3,flight,python_flight}* pyarrow/libarrow_python.so.*.*.*
cd - > /dev/null
tar cf - -C "$work/site" . | xz -T0 -6 > "$out/site.tar.xz"
size=$(stat -c %s "$out/site.tar.xz")
((size <= 50 << 20)) || { echo "$out/site.tar.xz is $size bytes, over 50 MiB" >&2; exit 1; }
du -sm "$out/site.tar.xz"
