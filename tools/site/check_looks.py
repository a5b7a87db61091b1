#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at every page of a built site in a browser, as wide as a desktop and as a phone.

check_looks.py FOLDER PICTURES    Chromium of the system shows the pages, and some pictures of them
                                  come into PICTURES

A page must not be wider than the window, must run its scripts without an error, load all that it
names, have a field to search in, a button at each block of code, and other colours in the dark.
Without Chromium nothing is looked at, which is said.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WINDOWS = {"desktop": (1280, 900), "phone": (390, 844)}
PICTURES = ("index", "python", "benchmarks", "reference/c/kith_h", "gallery/index")
LOOK = """(() => {
    const width = window.__width;
    const wide = [...document.querySelectorAll("body *")].filter(each => {
        const box = each.getBoundingClientRect();
        if (box.width === 0 || box.left + scrollX < width && box.right + scrollX <= width + 1) return false;
        for (let up = each.parentElement; up; up = up.parentElement)
            if (["auto", "scroll", "hidden"].includes(getComputedStyle(up).overflowX)) return false;
        return true;
    });
    return JSON.stringify({
        width: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
        wide: wide.slice(0, 3).map(each => each.tagName.toLowerCase() + "." + each.className),
        search: document.querySelectorAll("input[name=q]").length,
        codes: document.querySelectorAll("article div.highlight > pre").length,
        buttons: document.querySelectorAll("article button.copybtn").length,
        broken: [...document.images].filter(each => each.complete && !each.naturalWidth).map(each => each.src),
        colour: getComputedStyle(document.body).backgroundColor,
    });
})()"""


class Browser:
    """Chromium, spoken to through two pipes: one JSON object a message, each with a 0 behind it."""

    def __init__(self, command, folder):
        to_read, self.to = os.pipe()
        self.out, to_write = os.pipe()
        shell = 'exec "$@" 3<&"$KITH_IN" 4>&"$KITH_OUT"'
        options = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}"]
        options += [
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-dev-shm-usage",
        ]
        options += ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses one to root
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", command, *options, "about:blank"],
            pass_fds=(to_read, to_write),
            env={**os.environ, "KITH_IN": str(to_read), "KITH_OUT": str(to_write)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.left, self.last, self.session = b"", 0, None
        self.events = []

    def message(self):
        while b"\0" not in self.left:
            part = os.read(self.out, 1 << 16)
            if not part:
                raise SystemExit("looks: the browser ended")
            self.left += part
        text, _, self.left = self.left.partition(b"\0")
        return json.loads(text)

    def call(self, method, **params):
        self.last += 1
        asked = {"id": self.last, "method": method, "params": params}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.to, json.dumps(asked).encode() + b"\0")
        while True:
            said = self.message()
            if said.get("id") == self.last:
                if "error" in said:
                    raise SystemExit(f"looks: {method}: {said['error']['message']}")
                return said["result"]
            self.events.append(said)

    def wait(self, method):
        while True:
            for said in self.events:
                if said.get("method") == method:
                    return
            self.events.append(self.message())

    def close(self):
        os.close(self.to)
        self.process.wait(timeout=20)
        os.close(self.out)


def begin(command, folder):
    browser = Browser(command, folder)
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)[
        "sessionId"
    ]
    for domain in ("Page", "Runtime", "Log"):
        browser.call(f"{domain}.enable")
    return browser


def set_window(browser, name, dark):
    width, height = WINDOWS[name]
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=1,
        mobile=name == "phone",
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.call("Emulation.setEmulatedMedia", features=[scheme])


def seen(browser, page, width):
    """What LOOK tells of a page, and errors while it was loaded."""
    browser.events.clear()
    browser.call("Page.navigate", url=page.as_uri())
    browser.wait("Page.loadEventFired")
    look = LOOK.replace("window.__width", str(width))
    found = json.loads(browser.call("Runtime.evaluate", expression=look)["result"]["value"])
    errors = []
    for said in browser.events:
        if said.get("method") == "Runtime.exceptionThrown":
            errors.append(said["params"]["exceptionDetails"]["text"])
        elif said.get("method") == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
            entry = said["params"]["entry"]
            errors.append(f"{entry['text']} {entry.get('url', '')}")
    return found, errors


def complaints(found, errors, width):
    said = list(errors)
    if found["width"] > width or found["wide"]:
        said.append(f"is {found['width']} wide, the window {width}: {' '.join(found['wide'])}")
    if found["search"] == 0:
        said.append("has no field to search in")
    if found["buttons"] < found["codes"]:
        said.append(
            f"has {found['codes']} blocks of code, {found['buttons']} buttons that copy one"
        )
    return said + [f"shows nothing of {picture}" for picture in found["broken"]]


def take_picture(browser, path):
    data = browser.call("Page.captureScreenshot", format="png")["data"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(data))


def look(browser, root, pictures):
    """Complaints, each with its page and window."""
    pages = sorted(root.rglob("*.html"))
    wrong, colours = [], {}
    for window, dark in (("desktop", False), ("phone", True)):
        set_window(browser, window, dark)
        width = WINDOWS[window][0]
        for page in pages:
            name = str(page.relative_to(root).with_suffix(""))
            found, errors = seen(browser, page, width)
            wrong += [f"{name}, {window}: {each}" for each in complaints(found, errors, width)]
            if colours.setdefault(name, found["colour"]) == found["colour"] and dark:
                wrong.append(f"{name}: is {found['colour']} in the dark, too")
            if name in PICTURES:
                take_picture(browser, pictures / f"{name.replace('/', '_')}_{window}.png")
    print("\n".join(wrong), end="\n" if wrong else "")
    print(
        f"looks: {len(pages)} pages at {len(WINDOWS)} widths, {len(wrong)} complaints; {pictures}"
    )
    return wrong


def main():
    root, pictures = (pathlib.Path(given).resolve() for given in sys.argv[1:])
    command = next(filter(None, map(shutil.which, BROWSERS)), None)
    if command is None:
        print("looks: skipped, no Chromium (apt-get install chromium)")
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = begin(command, folder)
        try:
            return 1 if look(browser, root, pictures) else 0
        finally:
            browser.close()


if __name__ == "__main__":
    sys.exit(main())
