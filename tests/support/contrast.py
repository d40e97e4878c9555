"""How well the text of a page can be read, by WCAG: 4.5 is what people with weak eyes need (21 is black on white)."""

from __future__ import annotations

from typing import Any

LEAST = 4.5

# What lies under a text is what the browser says lies there, not its ancestors alone: bars are drawn under numbers.
_MEASURE = """
const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const rgba = text => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (top, share, under) => under.map((value, at) => top[at] * share + value * (1 - share));
const light = colour => {
  const [r, g, b] = colour.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (one, other) => {
  const [less, more] = [light(one), light(other)].sort((a, b) => a - b);
  return (more + 0.05) / (less + 0.05);
};
const found = [];
for (const element of document.body.querySelectorAll('*')) {
  const own = [...element.childNodes].find(node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  if (!own && !(element instanceof HTMLInputElement)) continue;
  element.scrollIntoView({block: 'center', inline: 'center'});
  const range = document.createRange();
  if (own) range.selectNodeContents(own);
  const box = (own ? range : element).getBoundingClientRect();
  if (!box.width || !box.height) continue;
  const style = getComputedStyle(element, own ? null : '::placeholder');
  const text = rgba(style.color);
  let least = Infinity;
  for (const x of [box.left + 1, box.left + box.width / 2, box.right - 1]) {
    const stack = document.elementsFromPoint(x, box.top + box.height / 2);
    const at = stack.indexOf(element);
    if (at < 0) continue;
    let under = rgba('Canvas').slice(0, 3);
    for (const one of stack.slice(at).reverse()) {
      const its = getComputedStyle(one), back = rgba(its.backgroundColor);
      under = over(back, back[3] * parseFloat(its.opacity), under);
    }
    least = Math.min(least, ratio(over(text, text[3], under), under));
  }
  if (least < Infinity) found.push([own ? own.textContent.trim() : element.placeholder, least]);
}
return found;
"""


def contrasts(driver: Any) -> list[tuple[str, float]]:
    """Each text that is seen (what is drawn on canvases is not), and its least contrast to what lies under it."""
    return [(text, ratio) for text, ratio in driver.execute_script(_MEASURE)]
