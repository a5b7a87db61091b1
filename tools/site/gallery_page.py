# SPDX-License-Identifier: Apache-2.0
"""Pages of the gallery: of each script of examples/gallery its text, its pictures, what it said,
its code.

build/gallery has what the scripts made on this machine (tools/site.sh runs them). docs/pictures
has a picture for each card, gallery_NAME.png: where gallery_NAME.txt is beside it, which is what
the script said, it is of data that is not in the repository.
"""

import ast

ORDER = (
    "image_neighbours",
    "image_map",
    "photometric_redshifts",
    "cell_types",
    "near_duplicates",
    "two_batches",
)
HEAD = """# Gallery

Each page is a script of `examples/gallery`: what it does, what it drew and said when this site was
built, and its code. The scripts need no other data than the repository and Scanpy have; of the
folder that `KITH_DATA` names they take larger sets, where they are there.

```sh
make gallery                                                 # all of them, build/gallery
python3 examples/gallery/image_neighbours.py out             # one, with kith installed
KITH_DATA=folder python3 examples/gallery/image_map.py out
```

"""


def title_and_text(path):
    title, _, text = ast.get_docstring(ast.parse(path.read_text())).partition("\n")
    return title.rstrip("."), text.strip()


def code_of(path):
    source = path.read_text()
    first = ast.parse(source).body[0]
    code = "\n".join(source.splitlines()[first.end_lineno :]).strip()
    return f"```python\n{code}\n```"


def said(picture):
    """What the script printed, but for the last line, which names the picture."""
    lines = picture.with_suffix(".txt").read_text().strip().splitlines()
    return "\n".join(
        ["```text", *(line for line in lines if not line.startswith("picture:")), "```"]
    )


def kept(root, path):
    return root / "docs" / "pictures" / f"gallery_{path.stem}.png"


def page(root, path, lead):
    title, text = title_and_text(path)
    text = lead(text, f"gallery/{path.stem}.md", str(path.relative_to(root)))
    out = [f"# {title}", text]
    made = root / "build" / "gallery" / f"{path.stem}.png"
    larger = kept(root, path)
    if made.is_file():
        out += ["## Drawn when this site was built", f"![{title}]({made.name})", said(made)]
    command = f"`KITH_DATA=folder python3 examples/gallery/{path.name} out`"
    if larger.with_suffix(".txt").is_file():
        out += ["## Drawn from larger data", f"By {command}:"]
        out += [f"![{title}](../pictures/{larger.name})", said(larger)]
    out += ["## The script", f"`examples/gallery/{path.name}`:", code_of(path)]
    out += ["`gallery.py`, which is beside it:", code_of(path.with_name("gallery.py"))]
    return "\n\n".join(out) + "\n"


def pages(root, lead):
    """{page: its text}; lead(text, page, file) turns links of a file to those of a page."""
    folder = root / "examples" / "gallery"
    made, cards = {}, []
    for name in ORDER:
        path = folder / f"{name}.py"
        made[f"gallery/{name}.md"] = page(root, path, lead)
        title, text = title_and_text(path)
        cards += [f"## [{title}]({name}.md)", text.split("\n\n")[0]]
        cards += [f"[![{title}](../pictures/{kept(root, path).name}){{width=480px}}]({name}.md)"]
    contents = "\n".join(
        ["```{toctree}", ":hidden:", "", *ORDER, "PHAT0 in the shell <photo_z>", "```", ""]
    )
    return {"gallery/index.md": "\n\n".join([HEAD, *cards, contents]), **made}


def pictures(root):
    """{name: file} of what the scripts drew."""
    return {path.name: path for path in sorted((root / "build" / "gallery").glob("*.png"))}
