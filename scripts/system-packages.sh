#!/usr/bin/env bash
# Installs what pip cannot: bubblewrap, for the Python sandbox. Never fails a setup: it says what is missing.
set -u
command -v bwrap >/dev/null && exit 0
case $(uname -s) in Linux) ;; *) echo "turnwise: no bubblewrap on $(uname -s); the python server will refuse to run code" >&2; exit 0 ;; esac

as_root=()
if [ "$(id -u)" != 0 ]; then
  if sudo -n true 2>/dev/null; then as_root=(sudo -n); else as_root=(false); fi
fi
if command -v apt-get >/dev/null; then
  "${as_root[@]}" apt-get update -qq && "${as_root[@]}" apt-get install -y -qq bubblewrap >/dev/null
elif command -v dnf >/dev/null; then
  "${as_root[@]}" dnf install -y -q bubblewrap
elif command -v pacman >/dev/null; then
  "${as_root[@]}" pacman -S --noconfirm bubblewrap
fi >/dev/null 2>&1
command -v bwrap >/dev/null && exit 0
echo "turnwise: bubblewrap is missing and could not be installed; the sandbox falls back to Landlock" >&2
echo "turnwise: to install it: apt-get install bubblewrap (or your system's way); check with: turnwise doctor" >&2
exit 0
