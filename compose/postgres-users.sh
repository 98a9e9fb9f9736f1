#!/bin/sh
# Create the users of the roles in PostgreSQL, or set their passwords again; `ingot db upgrade --grants`
# gives them their rights. The image of PostgreSQL runs this for an empty volume. For another one:
# docker compose --file compose/compose.yaml exec postgres sh /docker-entrypoint-initdb.d/users.sh
set -eu
for role in api conductor beat; do
    psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<SQL
\set password \`cat /run/secrets/postgres_password_$role\`
SELECT 'CREATE ROLE ingot_$role' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ingot_$role') \gexec
ALTER ROLE ingot_$role LOGIN PASSWORD :'password';
SQL
done
