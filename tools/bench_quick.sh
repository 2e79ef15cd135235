#!/usr/bin/env bash
# Every benchmark in its short form; each ends with one JSON line. A bar that is missed is no failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
for recipe in zero3 hpz zero++; do
  "$python" bench/wire.py --quick --recipe "$recipe" --hosts 2 --ranks 2 --mbit 200
done
"$python" bench/peers.py --quick
"$python" bench/codec.py --quick --build "build/${PRESET:-dev}"
"$python" bench/shm.py --quick --build "build/${PRESET:-dev}"
