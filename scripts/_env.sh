# Sourced by the scripts beside it: goes to the project's root and makes .venv what the caller needs.
#
#   env_ensure runtime   the package and what it needs to run
#   env_ensure all       that, the extras, and the groups dev and bench
#
# Works on a bare Debian: a Python of 3.11 or later is found (or, as root, installed), the venv is made with the
# standard library, uv is installed inside it with pip, and everything else with uv at the versions that
# constraints.txt pins. The system's Python is never written to. When nothing has changed since the last call,
# this takes a few milliseconds: the venv carries a stamp made of pyproject.toml and constraints.txt.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export UV_PYTHON_DOWNLOADS=never            # the system's interpreter, never one from elsewhere
export PIP_DISABLE_PIP_VERSION_CHECK=1
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH     # a caller's own environment must not leak into ours

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# is_python CMD: it starts (a version manager's shim may not) and is 3.11 or later.
is_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  say "installing $* with apt-get"
  DEBIAN_FRONTEND=noninteractive apt-get install -yq "$@" >&2 ||
    { apt-get update -q >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -yq "$@" >&2; }
}

# find_python: prints the interpreter that the venv is made with.
find_python() {
  local candidate
  for candidate in "${JUNCTURE_PYTHON:-python3}" python3.11 python3.12 python3.13 python3.14; do
    if is_python "$candidate"; then command -v "$candidate"; return; fi
  done
  apt_install python3 python3-venv || true
  is_python python3 || die "no Python 3.11 or later was found. Install one (Debian: apt-get install python3 python3-venv)" \
    "or name it: JUNCTURE_PYTHON=/path/to/python3.11 $0"
  command -v python3
}

# find_version X.Y: prints an interpreter of that version, or nothing. pyenv keeps its own off the PATH.
find_version() {
  local candidate="python$1" prefix
  if "$candidate" -c '' >/dev/null 2>&1; then command -v "$candidate"; return; fi
  if command -v pyenv >/dev/null && prefix=$(pyenv prefix "$(pyenv latest "$1" 2>/dev/null)" 2>/dev/null) &&
    "$prefix/bin/$candidate" -c '' >/dev/null 2>&1; then
    printf '%s\n' "$prefix/bin/$candidate"
  fi
}

make_venv() { # PYTHON DIR
  "$1" -c 'import ensurepip' 2>/dev/null ||
    apt_install "python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" ||
    die "$1 can't make a venv: its ensurepip is missing. Install it (Debian: apt-get install python3-venv)."
  say "making $2 with $("$1" --version)"
  "$1" -m venv --clear "$2"
  "$2/bin/python" -m pip install -q -c constraints.txt uv >&2
}

# venv_has DIR WHAT: DIR was made from the present pyproject.toml and constraints.txt, and holds WHAT.
venv_has() { grep -qsxF "$(venv_inputs) $2" "$1/.stamp" && "$1/bin/python" -c '' 2>/dev/null; }
venv_inputs() { cat pyproject.toml constraints.txt | sha256sum | cut -d' ' -f1; }

# venv_install DIR PYTHON WHAT: DIR holds WHAT (arguments of `uv pip install`) at the pinned versions.
venv_install() {
  local dir=$1 python=$2 what=$3 inputs
  "$dir/bin/python" -m uv --version >/dev/null 2>&1 || make_venv "$python" "$dir"
  say "installing into $dir: $what"
  # shellcheck disable=SC2086 # WHAT is a list of arguments
  "$dir/bin/python" -m uv pip install -q --python "$dir/bin/python" -c constraints.txt -b constraints.txt $what >&2
  inputs=$(venv_inputs) # what an older pyproject.toml asked for is no longer true: its lines go
  { grep -s "^$inputs " "$dir/.stamp" || true; printf '%s %s\n' "$inputs" "$what"; } >"$dir/.stamp.new"
  mv "$dir/.stamp.new" "$dir/.stamp"
}

ENV_RUNTIME="-e ."
ENV_TEST="-e .[all] --group test"
ENV_ALL="-e .[all] --group dev --group bench"

env_ensure() { # runtime | all
  venv_has .venv "$ENV_ALL" && return
  case $1 in
    runtime) venv_has .venv "$ENV_RUNTIME" || locked venv_install .venv "$(find_python)" "$ENV_RUNTIME" ;;
    all) locked venv_install .venv "$(find_python)" "$ENV_ALL" ;;
    *) die "env_ensure: 'runtime' or 'all', not '$1'" ;;
  esac
}

env_ensure_other() { # X.Y PYTHON: build/venv-X.Y, with what the tests need that don't compare with the peer
  venv_has "build/venv-$1" "$ENV_TEST" || locked venv_install "build/venv-$1" "$2" "$ENV_TEST"
}

# One at a time: two scripts started together would install into the same folder.
locked() {
  mkdir -p build
  (
    flock 9
    venv_has "$2" "$4" || "$@"
  ) 9>build/.env.lock
}
