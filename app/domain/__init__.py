"""The ground floor: values and pure functions.

Rules:
1. No I/O, no clock, no randomness, no third-party code: whatever is needed comes in as an argument.
2. Everything that decides something about a run lives here; the floors above only carry it out.
"""
