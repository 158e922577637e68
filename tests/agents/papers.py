"""A PDF of one page with one line of text."""

import base64
from typing import Final

PRICES: Final = "prices.pdf"


def pdf(line: str) -> bytes:
    """Return the file. line: ASCII without brackets."""
    text = f"BT /F1 24 Tf 72 720 Td ({line}) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        " /Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    data, places = b"%PDF-1.4\n", list[int]()
    for number, one in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{one}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + (head + end).encode()


def encoded(line: str) -> bytes:
    """Return the file in base64, as every vendor gets it."""
    return base64.b64encode(pdf(line))
