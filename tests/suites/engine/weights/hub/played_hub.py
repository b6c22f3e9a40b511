"""A local HTTP server that plays a model hub: repositories of files at revisions, and everything it can do wrong."""

import contextlib
import hashlib
import http.server
import json
import threading
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import numpy as np

from framework.io import save_tensors
from framework.tensors import tensor

SMALL = (".json", ".txt")


def commit_of(files):
    """40 hexadecimal digits of a state of a repository."""
    return hashlib.sha1(json.dumps({n: hashlib.sha1(c).hexdigest() for n, c in files.items()}).encode()).hexdigest()


@dataclass
class PlayedHub:
    """What the server has, and what it was asked.

    Attributes:
        states: files by name, by repository, by commit.
        revisions: commits by repository, by revision.
        gated: repositories whose files want the token.
        refuse: status that the list of a repository is answered with.
        sent: contents that come in place of a file's, by name.
        kinds: content types by name.
        listed: changes of the list's entries, by name.
        moved: where paths redirect to.
        asked: paths of all requests, with the token that came along.
    """

    address: str = ""
    states: dict = field(default_factory=dict)
    revisions: dict = field(default_factory=dict)
    gated: set = field(default_factory=set)
    refuse: dict = field(default_factory=dict)
    sent: dict = field(default_factory=dict)
    kinds: dict = field(default_factory=dict)
    listed: dict = field(default_factory=dict)
    moved: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)
    token: str = "hf_secret"

    def add(self, repository, files, revision="main"):
        """A state of a repository; returns its commit."""
        commit = commit_of(files)
        self.states.setdefault(repository, {})[commit] = dict(files)
        self.revisions.setdefault(repository, {})[revision] = commit
        return commit

    def add_folder(self, repository, folder, revision="main"):
        """The files of a folder as a state of a repository."""
        files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        return self.add(repository, files, revision)

    def state(self, repository, revision):
        revision = unquote(revision)
        commit = self.revisions.get(repository, {}).get(revision, revision)
        return commit, self.states.get(repository, {}).get(commit)

    def listing(self, repository, commit, files):
        siblings = []
        for name, content in files.items():
            entry = {
                "rfilename": name,
                "size": len(content),
                "blobId": hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(),
            }
            if not name.endswith(SMALL):
                entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            siblings.append(entry | self.listed.get(name, {}))
        return {
            "id": repository, "sha": commit, "gated": "auto" if repository in self.gated else False, "private": False,
            "siblings": siblings, "tags": [], "downloads": 0, "cardData": {"license": "apache-2.0"},
        }  # fmt: skip


def _handler(hub):
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *words):
            pass

        def answer(self, status, body=b"", kind="application/json", **headers):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self):
            self.do_GET()

        def do_GET(self):
            path = urlsplit(self.path).path
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            hub.asked.append((path, token))
            if path in hub.moved:
                return self.answer(302, Location=hub.moved[path])
            words = path.strip("/").split("/")
            if words[:2] == ["api", "models"]:
                repository = "/".join(words[2:4])
                if repository in hub.refuse:
                    return self.answer(hub.refuse[repository], X_Error_Code="")
                if repository not in hub.states:
                    return self.answer(404, b'{"error": "Repository not found"}', X_Error_Code="RepoNotFound")
                commit, files = hub.state(repository, words[5] if len(words) > 5 else "main")
                if files is None:
                    return self.answer(404, b'{"error": "Invalid rev id"}', X_Error_Code="RevisionNotFound")
                return self.answer(200, json.dumps(hub.listing(repository, commit, files)).encode())
            repository = "/".join(words[:2])
            commit, files = hub.state(repository, words[3] if len(words) > 3 else "")
            name = unquote("/".join(words[4:]))
            if files is None or name not in files:
                return self.answer(404, X_Error_Code="EntryNotFound")
            if repository in hub.gated and token != hub.token:
                return self.answer(403 if token else 401, X_Error_Code="GatedRepo")
            body = hub.sent.get(name, files[name])
            begin = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
            kind = hub.kinds.get(name, "application/octet-stream")
            more = {
                "X_Repo_Commit": commit,
                "ETag": f'"{hashlib.sha256(body).hexdigest()}"',
                "X_Linked_Size": str(len(body)),
            }
            return self.answer(206 if begin else 200, body[begin:], kind, **more)

    return Handler


@contextlib.contextmanager
def played_hub():
    """A hub at `address` on this machine."""
    hub = PlayedHub()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    hub.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def use(hub, monkeypatch, folder):
    """Make a hub the one of this process, with an empty cache, and `folder` the working folder."""
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("PADDOCK_ZOO", str(folder / "zoo"))
    monkeypatch.setenv("HF_HUB_CACHE", str(folder / "hf"))
    monkeypatch.chdir(folder)
    try:
        from huggingface_hub import constants
    except ImportError:
        return
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "hf"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(folder / "no_token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def weights_bytes(folder, **arrays):
    """The bytes of a safetensors file."""
    path = folder / "made.safetensors"
    save_tensors(path, {name: tensor(np.asarray(array)) for name, array in arrays.items()})
    content = path.read_bytes()
    path.unlink()
    return content
