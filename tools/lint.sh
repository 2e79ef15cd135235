#!/usr/bin/env bash
# All linters: the checks of the house, formats, ruff, and clang-tidy on C++ files that differ from
# main (all of them with --all). clang-tidy reads the compile commands of a configured preset.
#   tools/lint.sh [PRESET] [--all]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/dev_tools.sh

preset=${1:-dev}
failed=0
for check in layers links sizes words; do
  "${PYTHON:-python3}" "tools/check_$check.py" || failed=1
done
tools/format.sh --check || failed=1
"$(dev_tool ruff)" check . || failed=1

if [ "${2:-}" = --all ]; then
  sources=$(git ls-files 'thinwire/*.cc' 'apps/*.cc')
else
  sources=$({ git diff --name-only --diff-filter=d main -- '*.cc'; git ls-files -o --exclude-standard '*.cc'; } | sort -u)
fi
if [ -n "$sources" ]; then
  [ -f "build/$preset/compile_commands.json" ] || { echo "error: run make build first" >&2; exit 1; }
  clang_tidy=$(dev_tool clang-tidy)
  xargs -d '\n' -P 2 -n 1 "$clang_tidy" -p "build/$preset" --quiet <<<"$sources" || failed=1
fi
exit $failed
