#!/bin/sh
# The start of PostgreSQL's own image, as far as compose.yaml relies on it: for an empty volume, the
# administrator and the database of POSTGRES_*, then the scripts of /docker-entrypoint-initdb.d.
set -eu
[ "$1" = postgres ] || exec "$@"
export PGDATA=/var/lib/postgresql/data
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --encoding=UTF8 --locale=C.UTF-8 \
        --auth-local=trust --auth-host=scram-sha-256 >/dev/null
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
    pg_ctl --wait --options="-c listen_addresses=''" start >/dev/null
    psql --quiet --username "$POSTGRES_USER" --dbname postgres --command "CREATE DATABASE $POSTGRES_DB"
    for script in /docker-entrypoint-initdb.d/*.sh; do
        [ ! -e "$script" ] || sh "$script"
    done
    pg_ctl --wait --mode fast stop >/dev/null
fi
exec "$@"
