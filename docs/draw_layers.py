"""Draw the layers of the package: ``python docs/draw_layers.py`` writes ``docs/layers.svg``.

The picture is made from the table that `tests/architecture/test_layers.py` holds against the sources, so it cannot
disagree with them; the same test compares the file with a new drawing.
"""

import sys
from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "layers.svg"
WIDTH, MARGIN, GAP, BOX, LABEL = 900, 16, 6, 26, 175  # pixels
CHARACTER = 7.2  # pixels of a character in a box
FONT = "font-family='ui-monospace, Menlo, Consolas, monospace' font-size='12'"
NAMES = {
    0: "shared helpers",
    1: "kernels, graph",
    2: "devices, deadness",
    3: "operations, swapping",
    4: "building and passes",
    5: "compiler",
    6: "sessions and steps",
    7: "libraries on top",
    8: "other interfaces, public names",
    10: "program and command",
}
COLORS = {
    "engine": "#dbe7f6",
    "kernels": "#fbe3c8",
    "streams": "#dcefd8",
    "swap": "#f3dcea",
}
LEFT_OUT = {
    "tagloom.distributed",
    "tagloom.profiling",
    "tagloom.kernels",
}  # names kept free; the folder of its rooms


def folder(room):
    """Return the folder or file of a module in the repository, such as ``engine/compile`` or ``engine/cli.py``."""
    parts = room.split(".")[1:] or ["__init__"]
    path = (
        "/".join(parts)
        if parts[0] in ("kernels", "streams", "swap")
        else "/".join(["engine", *parts])
    )
    return path if (ROOT / path).is_dir() else f"{path}.py"


def rows(layers):
    """Return (label, folders) of each layer, the highest first."""
    found = defaultdict(list)
    for room, layer in layers.items():
        if room not in LEFT_OUT:
            found[8 if layer == 9 else min(layer, 10)].append(folder(room))
    return [
        (NAMES[layer], sorted(found[layer])) for layer in sorted(found, reverse=True)
    ]


def lines_of(folders):
    """Return the boxes of a layer in lines that fit the width: lists of (folder, width)."""
    lines, right = [[]], LABEL + MARGIN
    for name in folders:
        width = len(name) * CHARACTER + 16
        if right + width > WIDTH - MARGIN:
            lines.append([])
            right = LABEL + MARGIN
        lines[-1].append((name, width))
        right += width + GAP
    return lines


def draw(layers):
    """Return the picture as SVG: a band for each layer, which imports from the bands below it only."""
    parts, top = [], MARGIN
    for label, folders in rows(layers):
        lines = lines_of(folders)
        height = len(lines) * (BOX + GAP) + GAP
        parts.append(
            f"<rect x='{MARGIN}' y='{top}' width='{WIDTH - 2 * MARGIN}' height='{height}' rx='6' fill='#f6f6f4'/>"
        )
        parts.append(
            f"<text x='{MARGIN + 10}' y='{top + height / 2 + 4:g}' fill='#444'>{escape(label)}</text>"
        )
        for number, line in enumerate(lines):
            left, y = LABEL + MARGIN, top + GAP + number * (BOX + GAP)
            for name, width in line:
                color = COLORS[name.split("/")[0]]
                parts.append(
                    f"<rect x='{left:g}' y='{y}' width='{width:g}' height='{BOX}' rx='4' fill='{color}'/>"
                )
                parts.append(
                    f"<text x='{left + 8:g}' y='{y + 17}' fill='#111'>{escape(name)}</text>"
                )
                left += width + GAP
        top += height + GAP
    size = f"width='{WIDTH}' height='{top + MARGIN - GAP}' viewBox='0 0 {WIDTH} {top + MARGIN - GAP}'"
    title = "<title>The layers of tagloom: each imports only from the layers below it</title>"
    body = "\n".join(parts)
    back = f"<rect width='{WIDTH}' height='{top + MARGIN - GAP}' fill='#ffffff'/>"
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT}>\n{title}\n{back}\n{body}\n</svg>\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from tests.architecture.layers import LAYERS

    FILE.write_text(draw(LAYERS))
