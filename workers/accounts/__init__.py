"""Commands for users without Keystone."""

from workers.commands import role_commands, user_commands

GROUPS = (
    user_commands.users,
    user_commands.groups,
    user_commands.projects,
    role_commands.grants,
    role_commands.api_tokens,
)
