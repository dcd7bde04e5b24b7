#!/usr/bin/env bash
# Puts a headless Chromium and the library that drives it into .venv, for the slow test that clicks through the demo
# app: about 120 MB from npm and PyPI, no root needed. Does nothing when it is there; Linux on x86-64 only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="$PWD/.venv/bin/python" browser="$PWD/.venv/browser" package="@sparticuz/chromium@147.0.0"
if [ -x "$browser/chromium" ] && "$python" -c 'import playwright' 2>/dev/null; then
    exit 0
fi
if [ "$(uname -sm)" != "Linux x86_64" ] || ! command -v npm >/dev/null; then
    echo "No browser was installed: that takes npm and Linux on x86-64. The test of the demo app will be skipped." >&2
    exit 1
fi
"$python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt playwright brotli
scratch="$(mktemp -d "$PWD/.venv/browser.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
npm pack --silent --pack-destination "$scratch" "$package" >/dev/null
"$python" - "$scratch" <<'PYTHON'
import io, pathlib, sys, tarfile
import brotli

scratch = pathlib.Path(sys.argv[1])
(packed,) = scratch.glob("*.tgz")
with tarfile.open(packed) as package:
    def unpacked(name: str) -> bytes:
        return brotli.decompress(package.extractfile(f"package/bin/{name}.br").read())

    (scratch / "chromium").write_bytes(unpacked("chromium"))
    (scratch / "chromium").chmod(0o755)
    # NSS, where the system has none, and the software renderer that drawing needs
    for name in ("al2023.tar", "swiftshader.tar"):
        with tarfile.open(fileobj=io.BytesIO(unpacked(name))) as libraries:
            for member in libraries:
                if member.isfile():
                    (scratch / pathlib.Path(member.name).name).write_bytes(libraries.extractfile(member).read())
packed.unlink()
PYTHON
rm -rf "$browser"
mv "$scratch" "$browser"
chmod 755 "$browser"
