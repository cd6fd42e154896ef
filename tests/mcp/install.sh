#!/usr/bin/env bash
# Puts the MCP servers, clients and the conformance suite of others into a folder; a folder that
# has them already is left as it is.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
peers="$1"
mkdir -p "$peers"
peers="$(cd "$peers" && pwd)"

same() {
    [ -e "$peers/$1.done" ] && cmp -s "$here/$1" "$peers/$1.done"
}

if ! same package.json; then
    cp "$here/package.json" "$peers/package.json"
    (cd "$peers" && timeout 180 npm install --no-audit --no-fund --loglevel=error \
        --fetch-retries 1 --fetch-timeout 18000)
    "$peers/node_modules/.bin/node" --version
    cp "$here/package.json" "$peers/package.json.done"
fi
if ! same requirements.txt; then
    [ -x "$peers/v/bin/pip" ] || python3 -m venv "$peers/v"
    timeout 180 "$peers/v/bin/pip" install --quiet --disable-pip-version-check --timeout 15 \
        --retries 1 -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$peers/requirements.txt.done"
fi
