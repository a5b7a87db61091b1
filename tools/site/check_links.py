#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every link and picture of a built site leads to a file that is there, and to a place in it that
is there.

check_links.py FOLDER      prints what does not; links to other sites are counted, not followed
"""

import html.parser
import pathlib
import sys
import urllib.parse

ADDRESSES = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "srcset"}


class Page(html.parser.HTMLParser):
    """Addresses that a page has, and places that can be led to."""

    def __init__(self, path):
        super().__init__()
        self.addresses, self.places = [], {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.places |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        address = attrs.get(ADDRESSES.get(tag))
        if address:
            self.addresses.append(address)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html"))}
    wrong, inside, outside = [], 0, 0
    for path, page in pages.items():
        for address in page.addresses:
            parts = urllib.parse.urlsplit(address)
            if parts.scheme or parts.netloc:
                outside += 1
                continue
            inside += 1
            target = (
                (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            )
            place = urllib.parse.unquote(parts.fragment)
            if not target.is_file() or (target in pages and place not in pages[target].places):
                wrong.append(f"{path.relative_to(root)}: {address}")
    print("\n".join(dict.fromkeys(wrong)), end="\n" if wrong else "")
    print(
        f"links: {len(pages)} pages, {inside} links within the site, {len(wrong)} of them broken; "
        f"{outside} lead elsewhere"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
