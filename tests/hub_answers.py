"""Answers of the Hub of the tests that are alike everywhere: refusals, folders, and files or parts of them."""

import hashlib
import re

from aiohttp import web


class Refused(Exception):
    def __init__(self, status: int, message: str, code: str = "", headers: dict | None = None):
        self.response = error(status, message, code, headers)


def error(status: int, message: str, code: str = "", headers: dict | None = None) -> web.Response:
    given = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {}), **(headers or {})}
    return web.json_response({"error": message}, status=status, headers=given)


def folder(path: str) -> dict:
    return {"type": "directory", "path": path, "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0}


def content(request: web.Request, data: bytes, headers: dict) -> web.Response:
    """A file, or the part of it that a Range header asks for."""
    headers = {**headers, "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    asked = re.match(r"bytes=(\d+)-(\d*)$", request.headers.get("Range", ""))
    if not asked:
        return web.Response(body=data, headers=headers)
    first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
    if first >= len(data):
        return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
    return web.Response(status=206, body=data[first : last + 1], headers=headers)
