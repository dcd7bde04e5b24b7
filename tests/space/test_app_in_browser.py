"""The demo app in a headless browser: opened, clicked, typed into and drawn on, as a visitor would."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROWSER = Path(sys.prefix) / "browser"  # made by scripts/install_browser.sh
NONE = "no browser is installed: bash scripts/install_browser.sh"
SECONDS = 60
# nothing but loopback can be reached; without a sandbox, because tests may run as root in a container
FLAGS = ["--no-sandbox", "--no-zygote", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


@pytest.fixture
def address(tmp_path):
    """Where the app runs, in a process of its own, with the checkpoint under review open at first."""
    pytest.importorskip("gradio", reason="gradio is not installed: pip install 'hf-longseq[app]'")
    pytest.importorskip("playwright.sync_api", reason=NONE)
    if not (BROWSER / "chromium").is_file():
        pytest.skip(NONE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_TEMP_DIR": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    words = [ROOT / "scripts/space/app.py", ROOT / "model_cards/transformer-spoken-tones-spt", "--port", str(port)]
    with open(tmp_path / "log", "w") as log:
        app = subprocess.Popen(
            [sys.executable, *words], env={**os.environ, **quiet}, cwd=tmp_path, stdout=log, stderr=log
        )
    try:
        url, deadline = f"http://127.0.0.1:{port}/", time.monotonic() + 3 * SECONDS
        while True:
            try:
                urllib.request.urlopen(url, timeout=10).close()
                break
            except OSError:
                assert app.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()[-2000:]
                time.sleep(0.2)
        yield url
    finally:
        app.kill()
        app.wait()


@pytest.fixture
def page(address):
    """The app's page in a browser."""
    from playwright import sync_api as playwright

    libraries = {**os.environ, "LD_LIBRARY_PATH": str(BROWSER)}
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER / "chromium", args=FLAGS, env=libraries)
        page = browser.new_page(viewport={"width": 1200, "height": 1600})
        page.set_default_timeout(SECONDS * 1000)
        playwright.expect.set_options(timeout=SECONDS * 1000)
        page.wrong = []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.goto(address)
        yield page
        browser.close()


def open_checkpoint(page, folder) -> None:
    page.locator("#checkpoint textarea, #checkpoint input").fill(str(folder))
    page.locator("#open").click()


@pytest.mark.slow
def test_a_visitor_tries_checkpoints_of_every_kind(page, checkpoints, tmp_path):
    from playwright.sync_api import expect

    # a sound, from the examples
    task = "Record or choose one sound: the model answers with its class (first, second, third, fourth)."
    expect(page.locator("#summary")).to_contain_text(task)
    expect(page.locator("#predict")).to_be_disabled()
    page.get_by_label("recording 108: fourth tone").check()
    page.locator("#sound audio").first.wait_for(state="attached")
    page.locator("#predict").click()
    expect(page.locator("#labels h2")).to_have_text("fourth")
    expect(page.locator("#kernels img")).to_be_visible()

    # a drawing
    open_checkpoint(page, checkpoints / "image")
    expect(page.locator("#summary")).to_contain_text("pictures, pixel by pixel")
    expect(page.locator("#labels")).to_have_count(0)  # the answer to the sound is gone
    canvas = page.locator("#picture canvas").first
    canvas.wait_for()
    page.locator("#predict").click()
    expect(page.locator("#labels h2")).to_contain_text("LABEL_")
    expect(page.locator("#kernels img")).to_be_visible()
    shares = page.locator("#labels button")
    of_nothing = shares.all_inner_texts()
    box = canvas.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] - 60, middle[1] - 60)
    page.mouse.down()
    for x, y in ((60, -60), (60, 60), (-60, 60), (-60, -60), (60, 60)):
        page.mouse.move(middle[0] + x, middle[1] + y, steps=8)
    page.mouse.up()
    page.locator("#predict").click()
    expect(shares).not_to_have_text(of_nothing, use_inner_text=True)

    # a typed text whose holes are filled; the answer to the drawing, asked for again, goes when the text is opened
    with page.expect_response("**/queue/join*"):
        page.locator("#predict").click()
    open_checkpoint(page, checkpoints / "masked")
    expect(page.locator("#summary")).to_contain_text("S4ForMaskedLM")
    expect(page.locator("#predict")).to_be_disabled()  # it waits for an input
    expect(page.locator("#labels")).to_have_count(0)
    page.locator("#text textarea").fill("a [MASK] b")
    page.locator("#predict").click()
    page.wait_for_function("document.querySelector('#said textarea')?.value.startsWith('a ')")

    # a csv file, to a regression
    open_checkpoint(page, checkpoints / "series")
    expect(page.locator("#summary")).to_contain_text("series of numbers")
    (tmp_path / "series.csv").write_text("x,y\n1,2\n3,4.5\n")
    page.locator("#file input[type=file]").set_input_files(tmp_path / "series.csv")
    page.wait_for_function("document.querySelector('#text textarea')?.value.startsWith('x,y')")
    page.locator("#predict").click()
    page.wait_for_function("/^-?[0-9.]+$/.test(document.querySelector('#said textarea')?.value)")

    # a link to a checkpoint
    page.goto(f"{page.url}?checkpoint={checkpoints / 'masked'}")
    expect(page.locator("#summary")).to_contain_text("S4ForMaskedLM")
    assert not page.wrong, page.wrong


@pytest.mark.slow
def test_a_drawing_that_arrives_after_another_checkpoint_was_opened_is_not_answered(page, checkpoints):
    from playwright.sync_api import expect

    open_checkpoint(page, checkpoints / "image")
    expect(page.locator("#summary")).to_contain_text("pictures, pixel by pixel")
    page.locator("#picture canvas").first.wait_for()
    slow, held, before = True, [], -1
    page.route("**/upload*", lambda upload: held.append(upload) if slow else upload.continue_())
    with page.expect_request("**/upload*"):
        page.locator("#predict").click()
    while len(held) > before:  # a drawing is sent in parts; the rest of it would go with the canvas
        before = len(held)
        page.wait_for_timeout(1000)
    open_checkpoint(page, checkpoints / "masked")
    expect(page.locator("#summary")).to_contain_text("S4ForMaskedLM")
    slow = False
    for upload in held:
        upload.continue_()
    expect(page.get_by_text("is not the checkpoint that is open")).to_be_visible()
    page.locator("#text textarea").fill("a [MASK] b")
    page.locator("#predict").click()
    page.wait_for_function("document.querySelector('#said textarea')?.value.startsWith('a ')")
    expect(page.locator("#labels")).to_have_count(0)
