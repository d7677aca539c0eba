"""The model room: one protocol, Anthropic's client behind it, and the layers and fakes around it.

Rules: only `anthropic_client` (and the fake server) may import anthropic: it costs over a second and 80 MB.
"""
