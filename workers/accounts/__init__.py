"""Commands for users without Keystone."""

from workers.accounts import people, rights

GROUPS = (people.users, people.groups, people.projects, rights.grants, rights.api_tokens)
