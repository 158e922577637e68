#!/bin/sh
# Write random keys and passwords for compose.yaml, unless they exist: .env, which docker compose reads, and the key that
# Prometheus scrapes with. Only the owner can read .env and the folder; Prometheus, another user, has to read the file in it.
set -eu

cd "$(dirname "$0")/../.."
if [ -e .env ]; then
    echo ".env exists; nothing is changed" >&2
    exit 1
fi

random() {
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n'
}

umask 077
metrics_key=$(random)
mkdir -p deploy/compose/secrets
printf '%s' "$metrics_key" >deploy/compose/secrets/metrics-key
chmod 644 deploy/compose/secrets/metrics-key
cat >.env <<END
STROWGER_API_KEY=$(random)
STROWGER_ADMIN_KEY=$(random)
STROWGER_METRICS_KEY=$metrics_key
POSTGRES_PASSWORD=$(random)
REDIS_PASSWORD=$(random)
GRAFANA_PASSWORD=$(random)
END
echo "keys and passwords are in .env"
