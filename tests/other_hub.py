"""A Hub that answers as differently from `hub_server.py` as the stock client bears, and a little more.

Addresses name the host in another way, lists come in pages, large files go up in parts and are not verified, an
existing repository is refused without its address, nothing is said of files that are there already, and errors carry
no codes. It knows nothing of Xet.
"""

import hashlib
import json

from aiohttp import web

from hub_server import HubServer

PAGE, PART = 4, 10_000


class OtherHub(HubServer):
    """See the module's docstring."""

    def _elsewhere(self, text: str) -> str:
        return text.replace("127.0.0.1", "localhost")

    async def create(self, request: web.Request) -> web.Response:
        answer = await super().create(request)
        if answer.status == 409:
            return web.json_response({"error": "exists"}, status=409)
        return web.json_response({"url": self._elsewhere(json.loads(answer.body)["url"]), "warning": None, "x": [1]})

    async def tree(self, request: web.Request) -> web.Response:
        listed = json.loads((await super().tree(request)).body)
        start = int(request.query.get("cursor", 0))
        headers = {}
        if start + PAGE < len(listed):
            following = request.url.update_query(cursor=str(start + PAGE))
            headers["Link"] = f'<{following}>; rel="next"'
        return web.json_response(listed[start : start + PAGE], headers=headers)

    async def preupload(self, request: web.Request) -> web.Response:
        files = json.loads((await super().preupload(request)).body)["files"]
        bare = [{key: file[key] for key in ("path", "uploadMode", "shouldIgnore")} for file in files]
        return web.json_response({"files": bare, "commitOid": "0" * 40})

    async def lfs_batch(self, request: web.Request) -> web.Response:
        answer = json.loads((await super().lfs_batch(request)).body)
        for file in answer["objects"]:
            if "actions" in file:
                del file["actions"]["verify"]
                upload = file["actions"]["upload"]
                if file["size"] > PART:
                    parts = range(1, -(-file["size"] // PART) + 1)
                    upload["header"] = {f"{part:05d}": f"{upload['href']}?part={part}" for part in parts}
                    upload["header"]["chunk_size"] = str(PART)
                    self.expected[file["oid"]] = len(parts)
        return web.json_response(answer, content_type="application/vnd.git-lfs+json")

    expected: dict[str, int] = {}
    parts: dict[tuple[str, int], bytes] = {}

    async def lfs_put(self, request: web.Request) -> web.Response:
        if "part" not in request.query:
            return await super().lfs_put(request)
        data = await request.read()
        self.parts[request.match_info["oid"], int(request.query["part"])] = data
        return web.Response(headers={"ETag": f'"{hashlib.md5(data).hexdigest()}"'})

    async def lfs_complete(self, request: web.Request) -> web.Response:
        oid, asked = request.match_info["oid"], await request.json()
        assert asked["oid"] == oid and len(asked["parts"]) == self.expected[oid]
        data = b"".join(self.parts[oid, part["partNumber"]] for part in asked["parts"])
        assert hashlib.sha256(data).hexdigest() == oid
        self.repos[request.match_info["kind"], "{owner}/{name}".format(**request.match_info)].objects[oid] = data
        return web.json_response({})

    async def commit(self, request: web.Request) -> web.Response:
        answer = json.loads((await super().commit(request)).body)
        return web.json_response({**answer, "commitUrl": self._elsewhere(answer["commitUrl"]), "extra": {}})
