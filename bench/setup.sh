#!/bin/sh
# Installs the measured peers into $PERF_HOME, at the versions of 2026-11-15. Safe to run again:
# what is already installed at these versions is left alone.
#
#   PY      the Python of most peers (default python3; 3.10 or later)
#   PY313   the Python of weakincentives, which needs 3.12 or later (default python3.13)
set -u

PERF_HOME="${PERF_HOME:-$HOME/.cache/toolgate-perf}"
PY="${PY:-python3}"
PY313="${PY313:-python3.13}"
failed=""

# venv PYTHON NAME REQUIREMENT...: an environment of its own for each peer, so none holds back
# another's dependencies. The list is written last: without it the install did not finish.
venv() {
    python=$1 name=$2
    shift 2
    dir="$PERF_HOME/venvs/$name"
    if [ "$(cat "$dir/installed" 2>/dev/null)" = "$*" ]; then
        return
    fi
    echo "setup.sh: installing $*"
    if "$python" -m venv --clear "$dir" && "$dir/bin/pip" install --quiet "$@"; then
        echo "$*" >"$dir/installed"
    else
        rm -rf "$dir"
        failed="$failed $name"
    fi
}

node_packages() {
    dir="$PERF_HOME/node"
    if [ "$(cat "$dir/installed" 2>/dev/null)" = "$*" ]; then
        return
    fi
    echo "setup.sh: installing $*"
    mkdir -p "$dir"
    if (cd "$dir" && npm install --silent --prefix "$dir" "$@"); then
        echo "$*" >"$dir/installed"
    else
        failed="$failed node"
    fi
}

mkdir -p "$PERF_HOME/venvs"
PERF_HOME=$(cd "$PERF_HOME" && pwd)

venv "$PY" pydantic-ai 'pydantic-ai-slim[openai]==2.66.0'
venv "$PY" openai-agents openai-agents==0.24.0
venv "$PY" langgraph langgraph==1.2.20 langchain==1.4.7 langchain-openai==1.7.3
venv "$PY" fastmcp fastmcp==4.1.2
venv "$PY" mcp-proxy mcp-proxy==0.13.0
# Its completion calls import mcp, which only the extra installs.
venv "$PY" litellm 'litellm[mcp]==1.106.2'
venv "$PY" smolagents smolagents==1.26.0

# A name on the PATH is not enough: a version manager may put one there that starts nothing.
if "$PY313" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
    venv "$PY313" weakincentives weakincentives==0.27.0
    # The last release with an OpenAI adapter, for part A.
    venv "$PY313" wi024 'weakincentives[openai]==0.24.0'
else
    echo "setup.sh: weakincentives left out: $PY313 is no working Python 3.12 or later (set PY313)"
fi

if command -v npm >/dev/null; then
    node_packages ai@6.0.326 @ai-sdk/openai-compatible@2.0.87 supergateway@4.0.0 zod@4
else
    echo "setup.sh: the Node peers left out: there is no command npm"
fi

if [ -n "$failed" ]; then
    echo "setup.sh: not installed:$failed; run.sh skips them" >&2
    exit 1
fi
echo "setup.sh: the peers are in $PERF_HOME"
