"""Secrets of nodes in a vault: OpenBao or HashiCorp Vault, KV version 2."""
