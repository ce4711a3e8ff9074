#!/usr/bin/env bash
# Whether this machine's GPU does what Orrery says of it: see check.py, which needs Python 3.8 and nothing else.
#
#   check.sh [--out FOLDER] [--bin FOLDER] [--profile-name NAME] [--part-seconds SECONDS]
#            [--only kernels,layouts,calibrate,predict,speed,sanitize]
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
command -v python3 >/dev/null || { echo 'check.sh: python3 was not found' >&2; exit 2; }
exec python3 "$here/check.py" "$@"
