"""What goes back to the model: the content of a tool_result, made valid and bounded once, before the store.

Rules:
1. A str goes as it is; None as the empty string, which the API accepts; a non-empty list of well-formed text and image
   blocks as blocks; everything else as compact JSON text in the forms of `plain`.
2. At most `max_chars` characters of content, images included, and 100 blocks, plus a marker that tells of the cut.
3. Nothing here raises an Exception: the tool has run, and its effect must not be repeated for the sake of its answer.
"""

import re
from typing import Any

from app.domain.errors import ToolError
from app.domain.text import clean, dumps, shorten
from app.tools.plain import json_text, unfold

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MAX_BLOCKS = 100
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def result_text(value: Any, max_chars: int) -> str:
    """The content of the tool_result as JSON text: a string, or a list of content blocks.

    Args:
        value: what the tool returned.
        max_chars: cap of the content, in characters before JSON escapes.
    """
    if type(value) is list and value and all(_is_block(block) for block in value):
        return dumps(_blocks(value, max_chars))
    layer = unfold(value, max_chars + 1)
    if layer is None:
        return dumps("")
    # Cut before cleaning, so that only what is kept is looked through.
    text = shorten(layer, max_chars) if isinstance(layer, str) else json_text(value, max_chars)
    return dumps(clean(text))


def error_text(exception: BaseException, max_chars: int) -> str:
    """What the model reads of a failure: plain text, never empty.

    A ToolError speaks for itself; other exceptions are named, since `'id'` alone says little of a KeyError.
    """
    name = type(exception).__name__
    try:
        said = str(exception).strip()
    except Exception:
        said = ""
    if not said:
        return clean(shorten(name, max_chars))
    return clean(shorten(said if isinstance(exception, ToolError) else f"{name}: {said}", max_chars))


def _is_block(block: Any) -> bool:
    """Whether it is a text or image block to the letter; anything more (a cache_control, say) makes it data."""
    if type(block) is not dict:
        return False
    kind = block.get("type")
    # Compared only as a str: the == of other types (arrays) may answer with anything.
    if type(kind) is not str:
        return False
    if kind == "text":
        return block.keys() == {"type", "text"} and type(block["text"]) is str
    return kind == "image" and block.keys() == {"type", "source"} and _is_source(block["source"])


def _is_source(source: Any) -> bool:
    if type(source) is not dict or not all(type(part) is str for part in source.values()):
        return False
    if source.keys() == {"type", "url"}:
        return bool(source["type"] == "url" and source["url"].startswith("https://") and source["url"].isascii())
    if source.keys() != {"type", "media_type", "data"}:
        return False
    data = source["data"]
    if len(data) % 4 or not _BASE64.fullmatch(data):
        return False
    return source["type"] == "base64" and source["media_type"] in _IMAGES


def _blocks(blocks: list[dict[str, Any]], max_chars: int) -> list[dict[str, Any]] | str:
    kept: list[dict[str, Any]] = []
    left = max_chars
    for n, block in enumerate(blocks):
        is_text = block["type"] == "text"
        # The API refuses blank text blocks, and with them the whole request.
        if is_text and not block["text"].strip():
            continue
        size = len(block["text"]) if is_text else len(block["source"].get("data") or block["source"]["url"])
        if size > left or len(kept) >= _MAX_BLOCKS:
            kept += _last(block, left if size > left else 0, len(blocks) - n)
            break
        left -= size
        kept.append({"type": "text", "text": clean(block["text"])} if is_text else block)
    return kept or ""


def _last(block: dict[str, Any], left: int, missing: int) -> list[dict[str, Any]]:
    """What stands for the blocks that do not fit: the beginning of the first, if it is text, and a count."""
    notes = [f"[{missing} content blocks were cut]"]
    if block["type"] == "text" and block["text"][:left].strip():
        notes.insert(0, clean(shorten(block["text"], left)))
    return [{"type": "text", "text": note} for note in notes]
