"""PNG images of SVG documents, by the library `resvg`: no browser, no other program, no network.

Texts are in Open Sans, which the extra brings, so that an image is the same everywhere and a machine without any font makes
it too. Characters that it doesn't have are taken from the fonts of the machine.
"""

from __future__ import annotations


def png(document: str, *, scale: float) -> bytes:
    """An SVG document as a PNG.

    Raises:
        ImportError: The extra ``draw`` isn't installed.
    """
    try:
        import resvg_py
        from ttf_opensans import (  # pyright: ignore[reportMissingTypeStubs] - it has none
            OPENSANS_REGULAR,
            OPENSANS_SEMIBOLD,
        )
    except ImportError as error:
        raise ImportError(
            "a PNG is made with resvg-py and ttf-opensans, which aren't installed: install juncture[draw]"
        ) from error
    fonts = [str(font.path) for font in (OPENSANS_REGULAR, OPENSANS_SEMIBOLD)]
    return bytes(resvg_py.svg_to_bytes(svg_string=document, zoom=scale, font_files=fonts))


__all__ = ["png"]
