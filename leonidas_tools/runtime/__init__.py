"""Runs calls: executor, compiler and attempts. It knows no framework."""
