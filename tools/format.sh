#!/usr/bin/env bash
# Formats C++ with clang-format and Python with ruff, in the pinned versions.
#   tools/format.sh [--check]      --check changes nothing and fails where a file would change
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/dev_tools.sh

clang_format=$(dev_tool clang-format)
ruff=$(dev_tool ruff)
if [ "${1:-}" = --check ]; then
  cpp_files | xargs -d '\n' -r "$clang_format" --dry-run -Werror
  "$ruff" format --check .
else
  cpp_files | xargs -d '\n' -r "$clang_format" -i
  "$ruff" format .
fi
