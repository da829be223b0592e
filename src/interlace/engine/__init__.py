"""Packed rows and their search: segments, margins and their calibration, filters, explanations, results."""
