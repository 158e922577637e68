#!/bin/sh
# Download what install.sh needs for an image to a folder: wheels.sh gateway|engine FOLDER. Run in the root of the source tree.
#
# $PYTHON is a Python of the image's version with pip, $TORCH_INDEX_URL the index of torch's build.
set -eu

PYTHON=${PYTHON:-python3}
get() {
    "$PYTHON" -m pip --quiet --disable-pip-version-check download --no-deps --dest "$folder" "$@"
}

folder=$2
get --require-hashes -r requirements/pip.txt
get --require-hashes -r requirements/build.txt
# The patch version of the image's Python may differ from this one's.
mkdir -p "$folder"
sed "s/ ; python_full_version < '3\.11\.[0-9]*'//" "requirements/$1.txt" >"$folder/requirements.txt"
get --require-hashes -r "$folder/requirements.txt"
rm "$folder/requirements.txt"
if [ "$1" != gateway ]; then
    if [ -n "${TORCH_INDEX_URL:-}" ]; then
        get --index-url "$TORCH_INDEX_URL" -c constraints.txt torch
    else
        get -c constraints.txt torch
    fi
fi
