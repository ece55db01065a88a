"""Opens a report's page in headless Chromium."""

import contextlib
import json

from playwright.sync_api import sync_playwright


def drawn(page):
    """Waits until the page has drawn all changes, and the changes that follow from them."""
    page.evaluate("async () => { for (let left = 3; left; left--) await new Promise(requestAnimationFrame) }")


def wait_fits(page, width):
    """Waits until nothing is wider than the page."""
    drawn(page)
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)


def open_first_death(page):
    """Opens the section of the first mark, and waits for its content.

    The mark moves while the page is laid out. A section is filled only after it is open.
    """
    for _ in range(600):
        page.locator(".mark").first.click()
        drawn(page)
        if page.locator("details[open]").count():
            break
    section = page.locator("details[open]").first
    section.locator("h3", has_text="Evidence").wait_for()
    return section


@contextlib.contextmanager
def opened(file):
    """Yields the page and its data.

    The test fails if the page requests anything, prints to the console or throws. The paint times
    are printed, but not checked.
    """
    with sync_playwright() as playwright:
        # As root, Chromium runs only without its own sandbox. The page is our own.
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        troubles = []
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("request", lambda request: request.url.startswith("data:") or troubles.append(f"request: {request.url}"))
        page.goto(f"file://{file}")
        assert troubles == [f"request: file://{file}"], troubles
        troubles.clear()
        paint = page.evaluate("performance.getEntriesByType('paint').map(one => [one.name, one.startTime])")
        print("paint", {name: f"{time:.0f} ms" for name, time in paint})
        yield page, json.loads(page.locator("#data").text_content())
        assert not troubles, troubles
        browser.close()
