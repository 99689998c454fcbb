# Sourced by each finding: `. lib/setup.sh PACKAGE==VERSION ...` makes an empty folder with a virtual
# environment of these packages, enters it, puts its Python first in PATH, and removes it at the end.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# uv reads none of pip's settings
export UV_FIND_LINKS=${UV_FIND_LINKS:-$(python3 -m pip config get global.find-links 2>/dev/null || true)}
install() { # PACKAGE==VERSION ...
    if command -v uv >/dev/null; then
        uv pip install --quiet --python venv/bin/python "$@"
    else
        venv/bin/python -m pip install -qq "$@"
    fi
}
if command -v uv >/dev/null; then uv venv --quiet --python python3 venv; else python3 -m venv venv; fi
install "$@"
PATH=$folder/venv/bin:$PATH
export PYTHONWARNINGS=ignore TOKENIZERS_PARALLELISM=false
cat >still.py <<'PY'
import sys


def still(seen: object, expected: object, what: str) -> None:
    """Print what is still so; leave with an error if it has changed."""
    if seen != expected:
        sys.exit(f"CHANGED: {what}: described as {expected!r}, seen {seen!r}")
    print(f"still so: {what}: {seen!r}")
PY
