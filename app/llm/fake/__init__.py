"""The parts of the local Messages API server: rules, scripts, the demo model, the stream format, the request log.

Rules: only `answer` imports anthropic (every answer passes the SDK's types), so `fake_client` and `rules` stay cheap.
The facts behind the rules, and their texts, are those of Anthropic's API as of version 2026-10-21.
"""
