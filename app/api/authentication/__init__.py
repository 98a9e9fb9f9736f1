"""Identification of callers, and the cookies of browsers' sessions."""
