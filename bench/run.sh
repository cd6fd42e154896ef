#!/bin/sh
# Measures one part with ours and the peers side by side, or prints the tables: see README.md.
#
#   ./run.sh A|B|C|D [--only=rig,OURS] [--cases=0,3] [--quick]
#   ./run.sh report [results.jsonl ...]
set -eu

here=$(cd "$(dirname "$0")" && pwd)

python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || {
    echo "run.sh: the harness needs python3, 3.10 or later" >&2
    exit 1
}

# Our own modules leave no compiled files in the tree; the peers keep theirs.
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$here"
exec python3 -m harness "$@"
