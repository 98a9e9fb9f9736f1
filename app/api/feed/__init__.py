"""Change events that open requests follow."""
