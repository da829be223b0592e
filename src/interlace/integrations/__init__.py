"""Indexes of other libraries."""
