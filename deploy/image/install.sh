#!/bin/sh
# The steps of the Dockerfile's build stages. Run in the root of the source tree, which stays unchanged:
#
#   install.sh packages gateway|engine|ascend   the packages of requirements/NAME.txt, into $PREFIX
#   install.sh project                          the gateway itself, into $PREFIX
#
# With a folder requirements/wheels (`make wheels`) nothing is downloaded. $PIP_INDEX_URL is another index than PyPI,
# $TORCH_INDEX_URL the index of torch's build. All packages but torch are checked against the hashes in requirements/.
set -eu

PREFIX=${PREFIX:-/opt/strowger}
TOOLS=${TOOLS:-/opt/strowger-build}   # pip and the build tools; they stay in the build stage
TORCH_INDEX_URL=${TORCH_INDEX_URL:-}
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore

if [ -d requirements/wheels ]; then
    PIP_FIND_LINKS=$(pwd)/requirements/wheels
    PIP_NO_INDEX=1
    TORCH_INDEX_URL=
    export PIP_FIND_LINKS PIP_NO_INDEX
fi

into_prefix() {
    "$TOOLS/bin/python" -m pip --quiet --python "$PREFIX/bin/python" install --no-compile "$@"
}

packages() {
    python3 -m venv "$TOOLS"
    "$TOOLS/bin/python" -m pip --quiet install --require-hashes -r requirements/pip.txt
    "$TOOLS/bin/python" -m pip --quiet install --no-deps --require-hashes -r requirements/build.txt
    python3 -m venv --without-pip "$PREFIX"
    into_prefix --no-deps --require-hashes -r "requirements/$1.txt"
    # What torch's CPU build needs is in the list; a CUDA build brings NVIDIA's libraries.
    if [ "$1" != gateway ]; then
        if [ -n "$TORCH_INDEX_URL" ]; then
            into_prefix --index-url "$TORCH_INDEX_URL" -c constraints.txt torch
        else
            into_prefix -c constraints.txt torch
        fi
    fi
    prune
    compile "$PREFIX"/lib/python*/site-packages || :   # torch has files with the syntax of later Pythons
}

# botocore describes every service of AWS, 16 MB compressed. Finding and renewing credentials uses four of them.
prune() {
    for service in "$PREFIX"/lib/python*/site-packages/botocore/data/*/; do
        case $(basename "$service") in
            sts | sso | sso-oidc | signin) ;;
            *) rm -r "$service" ;;
        esac
    done
}

project() {
    folder=$(mktemp -d)
    "$TOOLS/bin/python" -m pip --quiet wheel --no-deps --no-build-isolation --wheel-dir "$folder" .
    into_prefix --no-deps --no-index "$folder"/*.whl
    rm -r "$folder"
    compile "$PREFIX"/lib/python*/site-packages/strowger_gateway
}

# The root file system is read-only in production: what is not compiled here would be compiled at every start. A hash
# of the source instead of its time, and never checked: copying between stages may change times.
compile() {
    "$PREFIX/bin/python" -m compileall -qq -j 0 --invalidation-mode unchecked-hash "$@"
}

"$@"
