"""The pictures of the gallery, from the notebooks' outputs: `python docs/gallery_pictures.py`."""

import base64
import io
import json
from pathlib import Path

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


def picture(name: str, number: int) -> Image.Image:
    cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    found = [data["image/png"] for data in outputs if "image/png" in data]
    image = Image.open(io.BytesIO(base64.b64decode(found[number]))).convert("RGB")
    size = (WIDTH, round(image.height * WIDTH / image.width)) if image.width > WIDTH else image.size
    small, best = image.resize(size, Image.Resampling.LANCZOS), Image.Quantize.MAXCOVERAGE
    return small.quantize(COLOURS, best, dither=Image.Dither.NONE)


def main() -> None:
    folder = ROOT / "docs" / "images" / "gallery"
    folder.mkdir(exist_ok=True)
    for name, number in SHOWN.items():
        path = folder / f"{name}.png"
        picture(name, number).save(path, optimize=True)
        print(f"{name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
