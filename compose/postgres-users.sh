#!/bin/sh
# Create the users of the roles in PostgreSQL, or set all passwords again, the owner's too; `ingot db upgrade
# --grants` gives the roles their rights. The image of PostgreSQL runs this for an empty volume. For another one:
# docker compose exec -T postgres sh /docker-entrypoint-initdb.d/users.sh
set -eu
# a server that was just started: at most a minute
for _ in $(seq 60); do pg_isready --quiet && break; sleep 1; done
statements() {
    psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB"
}
for role in api conductor beat; do
    statements <<SQL
\set password \`cat /run/secrets/postgres_password_$role\`
SELECT 'CREATE ROLE ingot_$role' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ingot_$role') \gexec
ALTER ROLE ingot_$role LOGIN PASSWORD :'password';
SQL
done
statements <<SQL
\set password \`cat /run/secrets/postgres_password\`
ALTER ROLE "$POSTGRES_USER" PASSWORD :'password';
SQL
