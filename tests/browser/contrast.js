// The lowest contrast of any text to the paper behind it.
(() => {
  const numbers = (color) => color.match(/[\d.]+/g).slice(0, 3).map((x) => Number(x) / 255);
  const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const light = (color) => { const [r, g, b] = numbers(color).map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  let low = 21;
  for (const e of document.querySelectorAll("main *, nav *")) {
    if (e.closest(".plot, svg, option")) continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const ink = light(getComputedStyle(e).color);
    low = Math.min(low, (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05));
  }
  return low;
})()
