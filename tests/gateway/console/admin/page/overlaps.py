"""Find texts of a page that overlap others, are cut, or go beyond the window, in a real browser."""

from typing import Final

OVERLAPS: Final = """() => {
    const faults = [];
    const shown = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        if (!node.data.trim()) continue;
        const one = node.parentElement;
        if (one.closest("script, style, option, textarea, svg, noscript, .hidden, .skip")) continue;
        if (!one.checkVisibility({ visibilityProperty: true })) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        const clip = clipped(one);
        for (const rect of range.getClientRects()) {
            if (rect.width < 1 || rect.height < 1) continue;
            if (clip && rect.left < clip.edge.left - 1) {
                faults.push(`cut at its left: ${node.data.trim()}`);
            }
            const beyond = rect.right > document.documentElement.clientWidth + 1;
            if (beyond && !clip) faults.push(`beyond the window: ${node.data.trim()}`);
            const right = clip ? Math.min(rect.right, clip.edge.right) : rect.right;
            shown.push({ node, text: node.data.trim(), rect, right });
        }
    }
    for (const [place, a] of shown.entries()) {
        for (const b of shown.slice(place + 1)) {
            if (a.node === b.node || fixed(a.node) !== fixed(b.node)) continue;
            const width = Math.min(a.right, b.right) - Math.max(a.rect.left, b.rect.left);
            const top = Math.max(a.rect.top, b.rect.top);
            const height = Math.min(a.rect.bottom, b.rect.bottom) - top;
            if (width > 2 && height > 4) faults.push(`overlap: ${a.text} / ${b.text}`);
        }
    }
    return [...new Set(faults)];

    // The closest element that cuts what is beyond it.
    function clipped(one) {
        for (let up = one; up && up !== document.body; up = up.parentElement) {
            const { overflowX, display } = getComputedStyle(up);
            if (overflowX !== "visible" && display !== "inline") {
                return { edge: up.getBoundingClientRect() };
            }
        }
        return null;
    }

    // What is fixed may be above what scrolls.
    function fixed(node) {
        for (let up = node.parentElement; up; up = up.parentElement) {
            const { position } = getComputedStyle(up);
            if (position === "fixed" || position === "sticky") return true;
        }
        return false;
    }
}"""
"""A function without arguments, for `evaluate`; it returns a sentence for each fault."""
