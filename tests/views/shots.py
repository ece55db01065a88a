"""Opens a report's page wide and narrow, light and dark, and saves screenshots.

    shots.py FILE FOLDER

The page must not request anything or print anything to the console. It must start with sentences
about the first causes.
"""

import json
import os
import sys

from browser import drawn, wait_fits
from playwright.sync_api import sync_playwright


def shoot(browser, file, folder, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    troubles = []
    page.on("console", lambda message: troubles.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
    page.on("request", lambda request: request.url.startswith(("data:", "file:")) or troubles.append(f"request: {request.url}"))
    page.goto(f"file://{file}")
    data = json.loads(page.locator("#data").text_content())
    causes = [death for death in data["deaths"] if death["root"] is None and death["listed"]]
    sentences = page.locator(".lead li:not(.job)").all_inner_texts()
    assert 0 < len(sentences) <= len(causes), (sentences, len(causes))
    first = page.locator(".lead a").first
    assert first.bounding_box()["y"] < 900, "the first sentence is not on the first screen"
    page.screenshot(path=f"{folder}/{width}-{scheme}.png")
    first.click()
    page.locator("details[open]").first.wait_for()
    assert page.locator("details[open]").count() == 1
    drawn(page)
    page.screenshot(path=f"{folder}/{width}-{scheme}-death.png")
    page.locator("#chart").scroll_into_view_if_needed()
    drawn(page)
    page.screenshot(path=f"{folder}/{width}-{scheme}-memory.png")
    wait_fits(page, width)
    assert not troubles, troubles
    page.close()
    return sum(death["listed"] for death in data["deaths"])


def main():
    file, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    with sync_playwright() as playwright:
        # As root, Chromium runs only without its own sandbox. The page is our own.
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        counts = {shoot(browser, file, folder, width, scheme) for width in (1280, 390) for scheme in ("light", "dark")}
        browser.close()
    print(json.dumps({"deaths": counts.pop(), "pictures": folder}))


main()
