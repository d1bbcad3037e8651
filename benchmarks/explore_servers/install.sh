#!/usr/bin/env bash
# Install the third-party MCP servers that `turnwise explore` is measured on, at pinned versions, and write their data.
#
#   bash benchmarks/explore_servers/install.sh FOLDER
#
# FOLDER/NAME/mcp.json is one server; FOLDER/together/mcp.json has several. A server that is installed already is kept;
# data and mcp.json files are always written anew. Exit code 1 if a server could not be installed.
set -euo pipefail

if [ $# -ne 1 ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
python="${PYTHON:-python3}"
num_missing=0
# Servers start faster from compiled files.
export PYTHONDONTWRITEBYTECODE=

missing() {
  echo "not installed: $1 (see $2)" >&2
  num_missing=$((num_missing + 1))
}

install_node_servers() {
  local target="$folder/node"
  cmp -s "$here/package-lock.json" "$target/.installed" && return
  mkdir -p "$target"
  cp "$here/package.json" "$here/package-lock.json" "$target/"
  echo "installing the npm servers ..."
  if (cd "$target" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) >"$target/npm.log" 2>&1; then
    cp "$here/package-lock.json" "$target/.installed"
  else
    missing "the npm servers" "$target/npm.log"
  fi
}

install_python_server() {
  local pins="$1" name target
  name="$(basename "$pins" .txt)"
  target="$folder/venvs/$name"
  cmp -s "$pins" "$target/.installed" && return
  echo "installing $name ..."
  mkdir -p "$folder/venvs"
  if { "$python" -m venv --clear "$target" &&
    "$target/bin/pip" install -q --disable-pip-version-check -r "$pins"; } >"$folder/venvs/$name.log" 2>&1; then
    cp "$pins" "$target/.installed"
  else
    missing "$name" "$folder/venvs/$name.log"
  fi
}

prepare_fetch_server() {
  # Its HTML reader installs npm packages at the first use; in a session its folder is read-only.
  local server="$folder/venvs/mcp-server-fetch"
  if [ -e "$server/.installed" ]; then
    "$server/bin/python" -c "import readabilipy; readabilipy.simple_json_from_html_string('<p>a</p>', use_readability=True)" \
      >"$folder/venvs/mcp-server-fetch.log" 2>&1 || missing "the HTML reader of fetch" "$folder/venvs/mcp-server-fetch.log"
  fi
}

write_document() {
  local kind="$1" server="$2" target="$3"
  if [ -e "$folder/venvs/$server/.installed" ]; then
    "$folder/venvs/$server/bin/python" "$here/documents.py" "$kind" "$folder/data/shop" "$folder/data/$target"
  fi
}

install_node_servers
for pins in "$here"/requirements/*.txt; do
  install_python_server "$pins"
done
prepare_fetch_server
"$python" "$here/bookshop.py" "$folder/data/shop"
"$python" "$here/office.py" "$folder/data"
write_document workbook excel-mcp-server workbooks/bookshop.xlsx
write_document report office-word-mcp-server reports/bookshop.docx
write_document warehouse mcp-server-duckdb warehouse/bookshop.duckdb
"$python" "$here/mcp_files.py" "$folder"
[ "$num_missing" -eq 0 ]
