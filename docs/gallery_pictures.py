"""The pictures of the gallery, from the notebooks' outputs, and of the guide's page of pictures.

`python docs/gallery_pictures.py`; the page is run from top to bottom for its own.
"""

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
WIDTH, COLOURS = 640, 160
# of each notebook, which of its pictures
SHOWN = {
    "quickstart": 0,
    "control_variates": 0,
    "million_items": 0,
    "network": 0,
    "manifolds": 0,
    "topics": 0,
    "mixture_on_devices": 0,
    "random_measures": 3,
    "composition": 0,
    "dependent_data": 0,
    "tuning": 1,
}
# of the page, the names of its axes
DRAWN = ("trace", "ksd", "clusters", "features", "topics", "sphere")


def stored(name: str, number: int) -> bytes:
    """A picture among the outputs of a notebook."""
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    found = [data["image/png"] for data in outputs if "image/png" in data]
    return base64.b64decode(found[number])


def drawn() -> dict[str, bytes]:
    """The pictures that the page draws."""
    text, names, made = (ROOT / "docs" / "guide" / "pictures.md").read_text(), {}, {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(block, names)
    for name in DRAWN:
        file = io.BytesIO()
        np.ravel(names[name])[0].figure.savefig(file, dpi=100)
        made[name] = file.getvalue()
    return made


def small(png: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(png)).convert("RGB")
    size = (WIDTH, round(image.height * WIDTH / image.width)) if image.width > WIDTH else image.size
    resized, best = image.resize(size, Image.Resampling.LANCZOS), Image.Quantize.MAXCOVERAGE
    return resized.quantize(COLOURS, best, dither=Image.Dither.NONE)


def main() -> None:
    notebooks = {name: stored(name, number) for name, number in SHOWN.items()}
    for folder, pictures in {"gallery": notebooks, "pictures": drawn()}.items():
        for name, png in pictures.items():
            path = ROOT / "docs" / "images" / folder / f"{name}.png"
            path.parent.mkdir(exist_ok=True)
            small(png).save(path, optimize=True)
            print(f"{folder}/{name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
