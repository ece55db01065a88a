"""Tests a report's page as a reader uses it, in headless Chromium: `page.py FILE`."""

import sys

from browser import drawn, open_first_death, opened, wait_fits

FRAMES = """
async () => {
  const times = [];
  const frame = () => new Promise(requestAnimationFrame);
  const press = key => document.getElementById('chart').dispatchEvent(new KeyboardEvent('keydown', {key}));
  await frame();
  for (let step = 0; step < 60; step++) {
    const began = performance.now();
    press(step % 3 ? 'ArrowRight' : step % 2 ? '-' : '+');
    await frame();
    await frame();
    times.push((performance.now() - began) / 2);
  }
  press('0');
  await frame();
  await frame();
  return times.sort((one, other) => one - other);
}
"""


def rows(page, section):
    return page.locator(f"#{section} tbody tr")


def column(page, section, index):
    return rows(page, section).locator(f"td:nth-child({index})").all_inner_texts()


def bytes_of(text):
    figure, unit = text.split()
    return float(figure) * {"MiB": 1, "GiB": 1024}[unit]


def sorts(page):
    memory = page.locator("#deaths thead th", has_text="Memory")
    for state, down in (("descending", True), ("ascending", False)):
        memory.locator("button").click()
        page.wait_for_function("([head, state]) => head.getAttribute('aria-sort') === state", arg=[memory.element_handle(), state])
        sizes = [bytes_of(text) for text in column(page, "deaths", 5) if text]
        assert len(set(sizes)) > 3, sizes
        assert sizes == sorted(sizes, reverse=down), sizes


def wait_for_rows(page, count):
    page.wait_for_function("count => document.querySelectorAll('#deaths tbody tr').length === count", arg=count)


def filters(page, data):
    name = data["deaths"][0]["name"]
    expected = sum(1 for death in data["deaths"] if name.lower() in death["headline"].lower())
    assert 0 < expected < len(data["deaths"])
    page.locator("#deaths input").fill(f"{name} signal")
    wait_for_rows(page, min(expected, 100))
    found = column(page, "deaths", 3)
    assert len(found) == min(expected, 100) and set(found) == {name}, (found, expected)
    page.locator("#deaths input").fill("no such death")
    wait_for_rows(page, 0)
    page.locator("#deaths input").fill("")


def zooms(page):
    span = page.locator("#span")
    whole = span.inner_text()
    page.locator("[data-do=in]").click()
    page.wait_for_function("before => document.getElementById('span').textContent !== before", arg=whole)
    page.locator("[data-do=all]").click()
    page.wait_for_function("before => document.getElementById('span').textContent === before", arg=whole)
    place = page.locator("#chart").bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    page.mouse.move(x, y)
    page.locator("#tip", has_text="GiB").wait_for()
    page.mouse.down()
    page.mouse.move(x + 120, y, steps=4)
    page.mouse.up()
    page.wait_for_function("before => document.getElementById('span').textContent !== before", arg=whole)
    page.locator("#chart").focus()
    page.keyboard.press("0")
    page.wait_for_function("before => document.getElementById('span').textContent === before", arg=whole)


def lifetimes_follow_the_zoom(page):
    # A worker of the first hours. The first rows are Ray's own processes, which live all the time.
    bar = page.locator("#processes .life i").nth(50)
    bar.scroll_into_view_if_needed()
    drawn(page)
    before = bar.evaluate("bar => bar.offsetWidth")
    page.locator("#chart").evaluate("chart => chart.dispatchEvent(new KeyboardEvent('keydown', {key: '+'}))")
    assert before > 10, before
    page.wait_for_function("([bar, before]) => Math.abs(bar.offsetWidth - before) > 10", arg=[bar.element_handle(), before])
    page.locator("#chart").evaluate("chart => chart.dispatchEvent(new KeyboardEvent('keydown', {key: '0'}))")


def opens_a_death(page, data):
    open_first_death(page).locator("h3", has_text="Its last 60 seconds").wait_for()
    first = data["deaths"][0]
    page.locator("#deaths a").first.click()
    section = page.locator(f"#death-{first['id']}[open]")
    section.locator("h3").first.wait_for()
    for piece in first["evidence"]:
        assert piece in section.inner_text(), piece


def shows_hostile_names_as_text(page):
    assert page.title() != "owned"
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0
    text = page.locator("main").inner_text()
    assert "</script><script>" in text
    assert not any(hidden in text for hidden in "\x1b\u202e\u200f"), "a hidden character is shown"


def fits(page):
    """Checks that nothing is wider than the page, at both widths, light and dark."""
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            wait_fits(page, width)
            unnamed = page.evaluate("[...document.querySelectorAll('button, input')].filter(one => !one.hidden &&"
                                    " !(one.textContent.trim() || one.ariaLabel || one.labels?.length)).length")
            assert unnamed == 0, f"{unnamed} controls without a name"


def main():
    with opened(sys.argv[1]) as (page, data):
        shows_hostile_names_as_text(page)
        sorts(page)
        filters(page, data)
        zooms(page)
        times = page.evaluate(FRAMES)
        print(f"zoom and pan: median {times[30]:.1f} ms, p95 {times[57]:.1f} ms a frame")
        lifetimes_follow_the_zoom(page)
        opens_a_death(page, data)
        fits(page)


main()
