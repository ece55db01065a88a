"""Tests the page of many nodes in headless Chromium: `lanes.py FILE [FOLDER]`.

It uses the page as a reader would. Screenshots go into FOLDER.
"""

import os
import sys

from browser import drawn, open_first_death, opened, wait_fits

FRAMES = """
async () => {
  const times = [];
  const box = document.getElementById('chart');
  const frame = () => new Promise(requestAnimationFrame);
  const press = key => box.dispatchEvent(new KeyboardEvent('keydown', {key}));
  await frame();
  for (let step = 0; step < 60; step++) {
    const began = performance.now();
    if (step % 2) box.scrollTop = step * 97 % Math.max(box.scrollHeight - box.clientHeight, 1);
    else press(step % 4 ? 'ArrowRight' : step % 8 ? '-' : '+');
    await frame();
    await frame();
    times.push((performance.now() - began) / 2);
  }
  press('0');
  box.scrollTop = 0;
  await frame();
  await frame();
  return times.sort((one, other) => one - other);
}
"""
PAINTED = """
lane => {
  const canvas = lane.querySelector('canvas');
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  for (let at = 3; at < data.length; at += 4) if (data[at]) return true;
  return false;
}
"""


def lanes_stand_by_their_first_death(page, data):
    lanes = page.locator(".lane")
    assert lanes.count() == len(data["lanes"]) > 1
    names = [lane["name"] for lane in data["lanes"]]
    assert page.locator(".lane .name").all_text_contents() == names
    first = [min((death["t"] for death in data["deaths"] if death["lane"] == number and death["listed"] and death["t"] is not None), default=None)
             for number in range(len(names))]
    died = [time for time in first if time is not None]
    assert died and died == sorted(died), first
    assert all(time is None for time in first[len(died):]), first
    for number, lane in enumerate(data["lanes"]):
        thin = "thin" in lanes.nth(number).get_attribute("class")
        assert thin == lane["quiet"] == (first[number] is None), (lane["name"], first[number])


def a_quiet_lane_opens(page, data):
    quiet = [number for number, lane in enumerate(data["lanes"]) if lane["quiet"] and lane["node"]]
    if not quiet:
        return
    lane = page.locator(".lane").nth(quiet[0])
    lane.scroll_into_view_if_needed()
    page.wait_for_function(PAINTED, arg=lane.element_handle())
    before = lane.bounding_box()["height"]
    height = "([lane, low, high]) => low <= lane.getBoundingClientRect().height && lane.getBoundingClientRect().height <= high"
    for low, high in ((2 * before + 1, 100 * before), (before, before)):
        lane.locator(".name").click()
        page.wait_for_function(height, arg=[lane.element_handle(), low, high])


def figures_are_those_of_the_lane(page, data):
    for number in (0, 1):
        lane = page.locator(".lane").nth(number)
        lane.scroll_into_view_if_needed()
        drawn(page)
        if "bare" in lane.get_attribute("class"):
            continue
        place = lane.bounding_box()
        page.mouse.move(place["x"] + place["width"] * 0.6, place["y"] + place["height"] * 0.7)
        page.locator("#tip", has_text=data["lanes"][number]["name"]).wait_for()


def arrows_lead_across(page, data):
    deaths = {death["id"]: death for death in data["deaths"]}
    across = [death for death in data["deaths"] if death["cause"] in deaths and None not in (death["lane"], deaths[death["cause"]]["lane"])
              and deaths[death["cause"]]["lane"] != death["lane"] and death["listed"]]
    drawn = page.locator("#arrows .line").get_attribute("d") or ""
    assert bool(across) == bool(drawn), (len(across), drawn)
    return drawn.count("M")


def opens_a_death(page):
    page.evaluate("document.getElementById('chart').scrollTop = 0")
    open_first_death(page)


def tables_name_the_node(page, data):
    heads = page.locator("#deaths thead th").all_inner_texts()
    assert "Node" in heads, heads
    name = next(death["node"] for death in data["deaths"] if death["node"])
    page.locator("#deaths input").fill(name)
    cells = f"#deaths tbody td:nth-child({heads.index('Node') + 1})"
    are_all = """([cells, name]) => {
      const found = [...document.querySelectorAll(cells)].map(cell => cell.innerText);
      return found.length && found.every(text => text === name);
    }"""
    page.wait_for_function(are_all, arg=[cells, name])
    page.locator("#deaths input").fill("")


def fits(page, folder):
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.locator("#memory").scroll_into_view_if_needed()
            wait_fits(page, width)
            if folder:
                page.locator("#memory h2").evaluate("head => head.scrollIntoView()")
                drawn(page)
                page.screenshot(path=f"{folder}/{width}-{scheme}-lanes.png")
                page.evaluate("window.scrollTo(0, 0)")
                drawn(page)
                page.screenshot(path=f"{folder}/{width}-{scheme}.png")


def main():
    file, folder = sys.argv[1], (sys.argv[2:] or [None])[0]
    if folder:
        os.makedirs(folder, exist_ok=True)
    with opened(file) as (page, data):
        lanes_stand_by_their_first_death(page, data)
        arrows = arrows_lead_across(page, data)
        a_quiet_lane_opens(page, data)
        figures_are_those_of_the_lane(page, data)
        tables_name_the_node(page, data)
        times = page.evaluate(FRAMES)
        print(f"{arrows} arrows; zoom, pan and scroll: median {times[30]:.1f} ms, p95 {times[57]:.1f} ms a frame")
        fits(page, folder)
        page.set_viewport_size({"width": 1280, "height": 900})
        opens_a_death(page)


main()
