# Sourced: finds the pinned formatters and linters, installing them into build/dev-tools if needed.
# dev_tool NAME prints the path of a tool; system versions serve where they are the pinned ones.
readonly DEV_TOOLS=build/dev-tools

pinned() { sed -n "s/^$1==//p" requirements-dev.txt; }

is_pinned() { "$2" --version 2>/dev/null | grep -qF "$(pinned "$1")"; }

dev_tool() {
  local name=$1 candidate
  for candidate in "$DEV_TOOLS/bin/$name" "$name" "$name-$(pinned "$name" | cut -d. -f1)"; do
    if is_pinned "$name" "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  echo "installing $name $(pinned "$name") into $DEV_TOOLS" >&2
  { [ -x "$DEV_TOOLS/bin/python" ] || "${PYTHON:-python3}" -m venv "$DEV_TOOLS"; } &&
    "$DEV_TOOLS/bin/python" -m pip install -q --disable-pip-version-check "$name==$(pinned "$name")" >&2 || {
    echo "error: cannot install $name $(pinned "$name"); it needs the network once" >&2
    return 1
  }
  echo "$DEV_TOOLS/bin/$name"
}

cpp_files() { git ls-files --cached --others --exclude-standard '*.h' '*.cc' '*.cu'; }
