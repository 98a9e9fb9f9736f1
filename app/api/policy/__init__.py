"""What a caller may do and see."""
