#!/usr/bin/env bash
# Installs system packages: `sandbox`, bubblewrap for the Python sandbox; `browser`, chromium for the dashboard's tests
# (120 MB). It never fails a setup, but prints what is missing and the consequence.
set -u

as_root=()
if [ "$(id -u)" != 0 ]; then
  if sudo -n true 2>/dev/null; then as_root=(sudo -n); else as_root=(false); fi
fi

install() {  # packages; without output or questions
  if command -v apt-get; then
    "${as_root[@]}" apt-get update -qq &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
  elif command -v dnf; then
    "${as_root[@]}" dnf install -y -q "$@"
  elif command -v pacman; then
    "${as_root[@]}" pacman -S --noconfirm "$@"
  fi >/dev/null 2>&1
}

sandbox() {
  command -v bwrap >/dev/null && return
  case $(uname -s) in Linux) ;; *) echo "turnwise: no bubblewrap on $(uname -s); the python server will refuse to run code" >&2; return ;; esac
  install bubblewrap
  command -v bwrap >/dev/null && return
  echo "turnwise: bubblewrap is missing and could not be installed; the sandbox falls back to Landlock" >&2
  echo "turnwise: to install it: apt-get install bubblewrap (or with your package manager); check with: turnwise doctor" >&2
}

browser() {
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null && return
  echo "turnwise: installing chromium for the dashboard's tests ..."
  if command -v apt-get >/dev/null; then install chromium fonts-dejavu-core; else install chromium; fi
  command -v chromium >/dev/null && return
  echo "turnwise: chromium is missing and could not be installed; the dashboard's tests will be skipped" >&2
}

for wanted in "$@"; do
  case $wanted in
    sandbox|browser) "$wanted" ;;
    *) echo "turnwise: cannot install $wanted; choose sandbox or browser" >&2; exit 2 ;;
  esac
done
exit 0
