"""Write the pages of docs/reference that come from the code."""

from tools.reference.pages import PAGES, ROOT

for place, page in PAGES.items():
    (ROOT / place).write_text(page(), "utf-8")
