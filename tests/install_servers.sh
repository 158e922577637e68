#!/usr/bin/env bash
# Installs what some tests need besides Python: a Chromium, PostgreSQL, PgBouncer, Redis, nginx and Caddy. It installs missing
# ones as root on Debian. Elsewhere, and offline, it prints what is missing and exits with 0; the tests that need it are skipped.
set -uo pipefail

any_of() { for name in "$@"; do command -v "$name" >/dev/null && return 0; done; return 1; }

missing=()
any_of chromium-headless-shell chromium chromium-browser google-chrome || missing+=(chromium-headless-shell)
any_of initdb || compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || missing+=(postgresql)
any_of redis-server || missing+=(redis-server)
any_of nginx /usr/sbin/nginx || missing+=(nginx-light)
any_of pgbouncer /usr/sbin/pgbouncer || missing+=(pgbouncer)
any_of caddy || missing+=(caddy)
[ ${#missing[@]} -eq 0 ] && exit 0

apt() { DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 "$@" >/dev/null; }

if [ "$(id -u)" != 0 ] || ! any_of apt-get || ! apt update || ! apt install -y --no-install-recommends "${missing[@]}"; then
    echo "not installed: ${missing[*]}; the tests that need them are skipped"
fi
