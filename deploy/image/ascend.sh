#!/bin/bash
# Entry point of the Ascend image: set CANN's variables, then become `strowger`.
for file in "${CANN_SET_ENV:-}" /usr/local/Ascend/ascend-toolkit/set_env.sh /usr/local/Ascend/cann/set_env.sh; do
    if [ -f "$file" ]; then
        # shellcheck disable=SC1090  CANN's file
        source "$file"
        break
    fi
done
exec /opt/strowger/bin/strowger "$@"
