#!/bin/sh
# Make the secrets of compose.yaml, each once, in the folder `secrets` beside this file:
# the master key, a password for each user of Redis and PostgreSQL, and the URLs with them.
set -eu
cd "$(dirname "$0")"
# other users of the host cannot enter the folder; in the containers, users of other numbers read the files
mkdir -p secrets && chmod 0700 secrets
umask 022

once() {  # write standard input to a file that does not exist yet
    [ -e "secrets/$1" ] || cat >"secrets/$1"
}
password() { head -c 24 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'; }
digest() { printf %s "$1" | sha256sum | cut -d ' ' -f 1; }

head -c 32 /dev/urandom | base64 | once master_key
password | once flower_password
password | once grafana_password
password | once postgres_password
echo "postgresql://ingot:$(cat secrets/postgres_password)@postgres:5432/ingot" | once database_url
for role in api conductor beat; do
    password | once "postgres_password_$role"
    secret=$(cat "secrets/postgres_password_$role")
    echo "postgresql://ingot_$role:$secret@postgres:5432/ingot" | once "database_url_$role"
done

users=$(cat redis-users.acl)
for role in api conductor beat flower; do
    password | once "redis_password_$role"
    secret=$(cat "secrets/redis_password_$role")
    echo "redis://$role:$secret@redis:6379/0" | once "redis_url_$role"
    name=$(echo "$role" | tr a-z A-Z)_PASSWORD
    users=$(echo "$users" | sed "s/#$name/#$(digest "$secret")/")
done
echo "$users" >secrets/redis_users
