#!/usr/bin/env bash
# Installs the third-party MCP servers and the conformance suite, at pinned versions, into .tools/.
# Does nothing when they are there already. What cannot be installed is named on stderr: the tests that need
# it are then skipped, except with CI=true, where that is a failure.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
tools="$(cd "$here/../.." && pwd)/.tools"
mkdir -p "$tools"
if command -v flock >/dev/null; then
  # Two checks that start together must not install over each other.
  exec 9>"$tools/.lock"
  flock 9
fi

num_missing=0

missing() {
  echo "third-party tests: $1" >&2
  num_missing=$((num_missing + 1))
}

# A stamp is the pins themselves: any change of a version is a change of the stamp.
is_installed() { cmp -s "$1" "$2"; }

install_node_packages() {
  local target="$tools/node" pins="$here/package-lock.json"
  is_installed "$pins" "$target/.installed" && return
  if ! command -v npm >/dev/null; then
    missing "npm is not installed, so the npm servers and the conformance suite are missing (Debian: apt install npm)"
    return
  fi
  rm -rf "$target"
  mkdir -p "$target"
  cp "$here/package.json" "$pins" "$target/"
  echo "installing the third-party MCP servers (npm) into .tools/node ..."
  # No scripts: none of these packages needs one to work.
  if (cd "$target" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >npm.log 2>&1); then
    cp "$pins" "$target/.installed"
  else
    tail -n 5 "$target/npm.log" >&2
    missing "npm could not install the npm servers and the conformance suite (see .tools/node/npm.log)"
  fi
}

install_sqlite_server() {
  local target="$tools/sqlite" pins="$here/sqlite-requirements.txt"
  is_installed "$pins" "$target/.installed" && return
  rm -rf "$target"
  echo "installing mcp-server-sqlite into .tools/sqlite ..."
  if "${PYTHON:-python3}" -m venv "$target" >"$tools/sqlite.log" 2>&1 &&
    PYTHONDONTWRITEBYTECODE= "$target/bin/pip" install -q --disable-pip-version-check -r "$pins" \
      >>"$tools/sqlite.log" 2>&1; then
    cp "$pins" "$target/.installed"
  else
    tail -n 5 "$tools/sqlite.log" >&2
    missing "mcp-server-sqlite could not be installed (see .tools/sqlite.log)"
  fi
}

install_node_packages
install_sqlite_server

if [ "$num_missing" -gt 0 ] && [ "${CI:-}" = true ]; then
  exit 1
fi
