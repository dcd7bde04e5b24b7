"""A small Hub on loopback that answers what the stock `huggingface_hub` client sends, over a real socket.

    with HubServer() as hub:
        ...  # HF_ENDPOINT=hub.url HF_TOKEN=hub.token HF_HUB_DISABLE_XET=1

`hub.faults` makes the next matching requests fail, by a status or by cutting the connection in the middle of the body;
`hub.requests` records what the client sent. The answers were read off huggingface_hub 2.4 and datasets 5.2.
"""

import asyncio
import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass

import yaml
from aiohttp import web

from hub_answers import Refused, content, error, folder
from hub_store import Blob, Commit, Repo

KINDS = {"models": "", "datasets": "datasets/", "spaces": "spaces/"}
LFS_SUFFIXES = (".safetensors", ".bin", ".pt", ".parquet", ".arrow", ".png", ".npz")
LFS_SIZE = 10 << 20
BODY_BEFORE_CUT = 1 << 16


@dataclass
class Fault:
    """Makes requests fail: `status` is an HTTP status, or "cut" to drop the connection in the middle of the body, or
    "lost" to do what is asked and drop the connection before the answer. The first `skip` requests are let through."""

    method: str
    path: str
    status: int | str = 500
    times: int = 1
    skip: int = 0


class HubServer:
    """The server, in a thread of its own; a context manager."""

    token, other_token, user, organization = "hf_test_token", "hf_other_token", "tester", "longseq-tests"

    def __init__(self):
        self.users = {self.token: self.user, self.other_token: "stranger"}
        self.members = {self.user: [self.organization], "stranger": []}
        self.repos: dict[tuple[str, str], Repo] = {}
        self.collections: dict[str, dict] = {}
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> "HubServer":
        self._thread.start()
        assert self._started.wait(10), "the server did not start"
        return self

    def __exit__(self, *exception) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def environment(self, home, token: str | None = None) -> dict[str, str]:
        """Variables for a fresh process that talks to this server, with the cache in `home`."""
        given = {"HF_ENDPOINT": self.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
        return {**given, **({"HF_TOKEN": token} if token else {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"})}

    def repo(self, name: str, kind: str = "models") -> Repo:
        return self.repos[kind, name]

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(middlewares=[self._watch], client_max_size=1 << 30)
        kind, repo = r"/api/{kind:models|datasets|spaces}", r"/{owner:[^/]+}/{name:[^/]+}"
        prefix = "/{kind:datasets/|spaces/|}"
        app.add_routes(
            [
                web.get("/api/whoami-v2", self.whoami),
                web.post("/api/validate-yaml", self.validate),
                web.get("/api/jobs/hardware", self.hardware),
                web.post("/api/repos/create", self.create),
                web.delete("/api/repos/delete", self.delete),
                web.post("/api/collections", self.create_collection),
                web.post("/api/collections/{owner}/{slug}/items", self.add_to_collection),
                web.get("/api/collections/{owner}/{slug}", self.get_collection),
                web.get(kind, self.list_repos),
                web.get(kind + repo, self.info),
                web.get(kind + repo + "/revision/{revision:.+}", self.info),
                web.get(kind + repo + "/tree/{revision:[^/]+}{path:.*}", self.tree),
                web.post(kind + repo + "/paths-info/{revision:.+}", self.paths_info),
                web.get(kind + repo + "/refs", self.refs),
                web.get(kind + repo + "/commits/{revision:.+}", self.commits),
                web.post(kind + repo + "/branch/{revision:.+}", self.branch),
                web.post(kind + repo + "/tag/{revision:.+}", self.tag),
                web.post(kind + repo + "/preupload/{revision:.+}", self.preupload),
                web.post(kind + repo + "/commit/{revision:.+}", self.commit),
                web.post(prefix + repo[1:] + ".git/info/lfs/objects/batch", self.lfs_batch),
                web.put("/lfs/{kind}" + repo + "/{oid}", self.lfs_put),
                web.post("/lfs/{kind}" + repo + "/verify", self.lfs_verify),
                web.post("/lfs/{kind}" + repo + "/{oid}", self.lfs_complete),
                web.get(prefix + repo[1:] + "/resolve/{revision:[^/]+}/{path:.+}", self.resolve),
                web.get("/cdn/{kind}" + repo + "/{oid}", self.cdn),
            ]
        )
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, shutdown_timeout=0.1)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    @web.middleware
    async def _watch(self, request: web.Request, handler) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        for fault in self.faults:
            if fault.times and fault.method == request.method and re.search(fault.path, request.path):
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                if fault.status == "lost":
                    await handler(request)
                    request.transport.abort()
                    return web.Response()
                if fault.status == "cut":
                    await request.content.read(BODY_BEFORE_CUT)
                    request.transport.abort()
                    return web.Response()
                return error(int(fault.status), "Internal Error - injected")
        try:
            return await handler(request)
        except Refused as refused:
            return refused.response

    # who asks, and for what

    def _user(self, request: web.Request) -> str | None:
        given = request.headers.get("Authorization", "")
        if not given:
            return None
        if given.removeprefix("Bearer ") not in self.users:
            raise Refused(401, "Invalid credentials in Authorization header")
        return self.users[given.removeprefix("Bearer ")]

    def _may(self, user: str | None, owner: str) -> bool:
        return user is not None and owner in (user, *self.members[user])

    def _repo(self, request: web.Request, write: bool = False) -> Repo:
        user, kind = self._user(request), request.match_info["kind"].rstrip("/") or "models"
        owner = request.match_info["owner"]
        repo = self.repos.get((kind, f"{owner}/{request.match_info['name']}"))
        if repo is None or (repo.private and not self._may(user, owner)):
            raise Refused(401 if user is None else 404, "Repository not found", "RepoNotFound")
        if write and not self._may(user, owner):
            raise Refused(401 if user is None else 403, "You have no write access to this repository")
        return repo

    def _commit(self, request: web.Request, repo: Repo) -> Commit:
        found = repo.at(request.match_info.get("revision", "main"))
        if found is None:
            raise Refused(404, "Invalid rev id", "RevisionNotFound")
        return found

    # accounts and repositories

    async def whoami(self, request: web.Request) -> web.Response:
        user = self._user(request)
        if user is None:
            raise Refused(401, "Invalid username or password.")
        orgs = [{"type": "org", "name": name, "fullname": name, "roleInOrg": "admin"} for name in self.members[user]]
        auth = {"type": "access_token", "accessToken": {"displayName": "test", "role": "write"}}
        return web.json_response(
            {"type": "user", "id": user, "name": user, "fullname": user, "orgs": orgs, "auth": auth}
        )

    async def hardware(self, request: web.Request) -> web.Response:
        machine = {"name": "a10g-large", "prettyName": "Nvidia A10G - large", "cpu": "12 vCPU", "ram": "46 GB",
                   "unitCostMicroUSD": 25000, "unitCostUSD": 0.025, "unitLabel": "minute"}  # fmt: skip
        return web.json_response([machine])

    async def validate(self, request: web.Request) -> web.Response:
        card = (await request.json())["content"]
        match = re.match(r"---\n(.*?)\n---(\n|$)", card, re.DOTALL)
        try:
            data = yaml.safe_load(match[1]) if match else {}
            wrong = [] if isinstance(data, dict) else ["metadata is not a mapping"]
            for index, entry in enumerate((data or {}).get("model-index", [])):
                missing = {"name", "results"} - set(entry)
                wrong += [f'"model-index[{index}].{name}" is required' for name in missing]
        except yaml.YAMLError as mistake:
            wrong = [str(mistake)]
        report = {"errors": [{"message": message} for message in wrong], "warnings": []}
        return web.json_response(report, status=400 if wrong else 200)

    async def create(self, request: web.Request) -> web.Response:
        user, asked = self._user(request), await request.json()
        owner, kind = asked.get("organization") or user, f"{asked.get('type') or 'model'}s"
        if user is None:
            raise Refused(401, "Invalid username or password.")
        if not self._may(user, owner):
            raise Refused(403, f"You don't have the rights to create a {kind[:-1]} under the namespace {owner!r}")
        name = f"{owner}/{asked['name']}"
        answer = {"url": f"{self.url}/{KINDS[kind]}{name}", "name": name, "id": name}
        if (kind, name) in self.repos:
            return web.json_response({**answer, "error": "You already created this repo"}, status=409)
        first = Commit(hashlib.sha1(name.encode()).hexdigest(), "initial commit", {})
        first = first.child("initial commit", {".gitattributes": Blob(b"*.safetensors filter=lfs\n", False)})
        private = bool(asked.get("private")) or asked.get("visibility") == "private"
        self.repos[kind, name] = Repo(kind, name, private, {"main": first})
        return web.json_response(answer)

    async def delete(self, request: web.Request) -> web.Response:
        user, asked = self._user(request), await request.json()
        owner, kind = asked.get("organization") or user, f"{asked.get('type') or 'model'}s"
        if not self._may(user, owner) or (kind, f"{owner}/{asked['name']}") not in self.repos:
            raise Refused(404, "Repository not found", "RepoNotFound")
        del self.repos[kind, f"{owner}/{asked['name']}"]
        return web.Response()

    async def list_repos(self, request: web.Request) -> web.Response:
        user, kind, author = self._user(request), request.match_info["kind"], request.query.get("author")
        seen = [repo for repo in self.repos.values() if repo.kind == kind]
        seen = [repo for repo in seen if not repo.private or self._may(user, repo.name.split("/")[0])]
        return web.json_response(
            [r.describe(r.branches["main"]) for r in seen if not author or r.name.startswith(f"{author}/")]
        )

    async def info(self, request: web.Request) -> web.Response:
        repo = self._repo(request)
        return web.json_response(repo.describe(self._commit(request, repo)))

    # reading

    async def tree(self, request: web.Request) -> web.Response:
        repo = self._repo(request)
        files = self._commit(request, repo).files
        inside = request.match_info["path"].strip("/")
        root = f"{inside}/" if inside else ""
        below = {path: blob for path, blob in files.items() if path.startswith(root)}
        if inside and not below:
            raise Refused(404, f"{inside} does not exist", "EntryNotFound")
        folders = {
            path[: match.start()] for path in below for match in re.finditer("/", path) if match.start() >= len(root)
        }
        listed = [blob.info(path) for path, blob in below.items()] + [folder(path) for path in folders]
        if request.query.get("recursive", "false").lower() not in ("true", "1"):
            listed = [entry for entry in listed if "/" not in entry["path"][len(root) :]]
        return web.json_response(sorted(listed, key=lambda entry: entry["path"]))

    async def paths_info(self, request: web.Request) -> web.Response:
        repo = self._repo(request)
        files = self._commit(request, repo).files
        is_json = request.content_type == "application/json"
        asked = (await request.json())["paths"] if is_json else (await request.post()).getall("paths", [])
        asked = [path.strip("/") for path in asked]
        found = [files[path].info(path) for path in asked if path in files]
        found += [folder(path) for path in asked if any(name.startswith(f"{path}/") for name in files)]
        return web.json_response(found)

    async def refs(self, request: web.Request) -> web.Response:
        repo = self._repo(request)
        named = {
            kind: [{"name": name, "ref": f"refs/{place}/{name}", "targetCommit": at.oid} for name, at in refs.items()]
            for kind, place, refs in (("branches", "heads", repo.branches), ("tags", "tags", repo.tags))
        }
        return web.json_response({**named, "converts": [], "pullRequests": []})

    async def commits(self, request: web.Request) -> web.Response:
        repo = self._repo(request)
        return web.json_response(
            [
                {
                    "id": commit.oid,
                    "title": commit.title,
                    "message": "",
                    "date": commit.date,
                    "authors": [{"user": "x"}],
                }
                for commit in self._commit(request, repo).history()
            ]
        )

    async def resolve(self, request: web.Request) -> web.Response:
        repo = self._repo(request)
        commit, path = self._commit(request, repo), request.match_info["path"]
        headers = {"X-Repo-Commit": commit.oid, "Access-Control-Expose-Headers": "*"}
        if path not in commit.files:
            raise Refused(404, "Entry not found", "EntryNotFound", headers)
        blob = commit.files[path]
        if not blob.lfs:
            return content(request, blob.data, {**headers, "ETag": f'"{blob.oid}"'})
        headers |= {"X-Linked-Etag": f'"{blob.sha256}"', "X-Linked-Size": str(len(blob.data))}
        # another host, as on the real Hub: the client follows redirects within a host before it reads the headers
        headers["Location"] = f"{self.url.replace('127.0.0.1', 'localhost')}/cdn/{repo.kind}/{repo.name}/{blob.sha256}"
        return web.Response(status=302, headers=headers)

    async def cdn(self, request: web.Request) -> web.Response:
        # signed addresses on the real Hub: no credentials are asked for
        repo = self.repos[request.match_info["kind"], f"{request.match_info['owner']}/{request.match_info['name']}"]
        oid = request.match_info["oid"]
        return content(request, repo.objects[oid], {"ETag": f'"{oid}"'})

    # writing

    async def branch(self, request: web.Request) -> web.Response:
        repo, name = self._repo(request, write=True), request.match_info["revision"]
        if name in repo.branches:
            raise Refused(409, "Reference already exists")
        start = (await request.json()).get("startingPoint", "main") if request.can_read_body else "main"
        repo.branches[name] = repo.at(start) or repo.branches["main"]
        return web.json_response({})

    async def tag(self, request: web.Request) -> web.Response:
        repo = self._repo(request, write=True)
        name = (await request.json())["tag"]
        if name in repo.tags:
            raise Refused(409, "Tag reference exists already")
        repo.tags[name] = self._commit(request, repo)
        return web.json_response({})

    async def preupload(self, request: web.Request) -> web.Response:
        repo = self._repo(request, write=True)
        known = self._commit(request, repo).files
        modes = []
        for file in (await request.json())["files"]:
            lfs = file["path"].endswith(LFS_SUFFIXES) or file["size"] >= LFS_SIZE
            at = known.get(file["path"])
            oid = at and (at.sha256 if at.lfs else at.oid)
            mode = "lfs" if lfs else "regular"
            modes.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return web.json_response({"files": modes})

    async def lfs_batch(self, request: web.Request) -> web.Response:
        repo = self._repo(request, write=True)
        answers = []
        for asked in (await request.json())["objects"]:
            answer = {"oid": asked["oid"], "size": asked["size"]}
            if asked["oid"] not in repo.objects:
                place = f"{self.url}/lfs/{repo.kind}/{repo.name}"
                answer["actions"] = {
                    "upload": {"href": f"{place}/{asked['oid']}"},
                    "verify": {"href": f"{place}/verify"},
                }
            answers.append(answer)
        return web.json_response(
            {"transfer": "basic", "objects": answers}, content_type="application/vnd.git-lfs+json"
        )

    async def lfs_put(self, request: web.Request) -> web.Response:
        repo = self.repos[request.match_info["kind"], f"{request.match_info['owner']}/{request.match_info['name']}"]
        data = await request.read()
        if hashlib.sha256(data).hexdigest() != request.match_info["oid"]:
            raise Refused(400, "The content does not match its checksum")
        repo.objects[request.match_info["oid"]] = data
        return web.Response()

    async def lfs_verify(self, request: web.Request) -> web.Response:
        repo, asked = self._repo(request, write=True), await request.json()
        if len(repo.objects.get(asked["oid"], b"")) != asked["size"]:
            raise Refused(404, "Object was not uploaded")
        return web.Response()

    async def lfs_complete(self, request: web.Request) -> web.Response:
        raise Refused(404, "Uploads here are in one part")

    async def commit(self, request: web.Request) -> web.Response:
        repo, revision = self._repo(request, write=True), request.match_info["revision"]
        if revision not in repo.branches:
            raise Refused(404, "Invalid rev id", "RevisionNotFound")
        before = repo.branches[revision]
        files, title = dict(before.files), ""
        for line in (await request.text()).splitlines():
            entry = json.loads(line)
            key, value = entry["key"], entry["value"]
            if key == "header":
                title = value["summary"]
                if value.get("parentCommit") not in (None, before.oid):
                    raise Refused(412, "A commit has happened since. Please refresh and try again.")
            elif key == "file":
                files[value["path"]] = Blob(base64.b64decode(value["content"]), False)
            elif key == "lfsFile":
                if value["oid"] not in repo.objects:
                    raise Refused(400, f"LFS pointer pointed to a file that does not exist: {value['path']}")
                files[value["path"]] = Blob(repo.objects[value["oid"]], True)
            elif key == "deletedFile":
                if files.pop(value["path"], None) is None:
                    raise Refused(404, "A file with this name doesn't exist", "EntryNotFound")
            elif key == "deletedFolder":
                files = {path: blob for path, blob in files.items() if not path.startswith(value["path"])}
        after = repo.branches[revision] = before.child(title, files)
        url = f"{self.url}/{KINDS[repo.kind]}{repo.name}/commit/{after.oid}"
        return web.json_response({"success": True, "commitOid": after.oid, "commitUrl": url, "hookOutput": ""})

    # collections

    async def create_collection(self, request: web.Request) -> web.Response:
        user, asked = self._user(request), await request.json()
        if not self._may(user, asked["namespace"]):
            raise Refused(403, "You have no write access to this namespace")
        slug = f"{asked['namespace']}/{re.sub(r'[^a-z0-9]+', '-', asked['title'].lower())}-0123456789abcdef01234567"
        exists = slug in self.collections
        self.collections.setdefault(
            slug,
            {"slug": slug, "title": asked["title"], "description": asked.get("description"), "items": [],
             "owner": {"name": asked["namespace"]}, "lastUpdated": "2026-01-01T00:00:00.000Z", "position": 0,
             "private": bool(asked.get("private")), "theme": "blue", "upvotes": 0},
        )  # fmt: skip
        return web.json_response(self.collections[slug], status=409 if exists else 200)

    async def add_to_collection(self, request: web.Request) -> web.Response:
        collection = self.collections["{owner}/{slug}".format(**request.match_info)]
        asked = await request.json()
        item = {**asked["item"], "note": {"text": asked["note"]} if asked.get("note") else None}
        exists = any(known["id"] == item["id"] for known in collection["items"])
        if not exists:
            collection["items"].append({**item, "_id": item["id"], "position": len(collection["items"])})
        return web.json_response(collection, status=409 if exists else 200)

    async def get_collection(self, request: web.Request) -> web.Response:
        return web.json_response(self.collections["{owner}/{slug}".format(**request.match_info)])
