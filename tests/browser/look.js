// What a reader would stumble over in this page, as a list of sentences; all that is folded is opened first.
(() => {
  const FONT_MIN = 11, TEXT_CONTRAST_MIN = 4.5, SHAPE_CONTRAST_MIN = 3;
  const SHAPES = "rect, line, circle, polygon, path";
  const defects = [];
  const near = (element) => `${element.localName} "${element.textContent.trim().slice(0, 40)}"`;

  document.querySelectorAll("details").forEach((folded) => { folded.open = true; });

  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth)
    defects.push(`sideways: the page is ${root.scrollWidth} px wide, its window ${root.clientWidth} px`);

  // Colours as the browser computes them, and what they stand on.
  const rgba = (colour) => {
    const found = (colour.match(/[\d.]+/g) || []).map(Number);
    return found.length < 3 ? null : [found[0], found[1], found[2], found[3] ?? 1];
  };
  const luminance = ([red, green, blue]) => {
    const linear = [red, green, blue].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour && colour[3] > 0) return colour;
    }
    return [255, 255, 255, 1];
  };
  const inside = (inner, outer, slack) =>
    inner.left >= outer.left - slack && inner.right <= outer.right + slack
    && inner.top >= outer.top - slack && inner.bottom <= outer.bottom + slack;

  // Every text: large enough, and dark or light enough for what it stands on.
  const texts = [...document.body.querySelectorAll("*")].filter((element) =>
    !["title", "style", "script"].includes(element.localName) && element.getClientRects().length
    && [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));
  for (const element of texts) {
    const style = getComputedStyle(element), drawing = element.closest("svg");
    const scale = drawing ? drawing.getScreenCTM().a : 1;
    const size = parseFloat(style.fontSize) * scale;
    if (size < FONT_MIN) defects.push(`small: ${near(element)} has letters of ${size.toFixed(1)} px`);
    const ink = rgba(drawing ? style.fill : style.color);
    const grounds = [background(element)];
    for (const box of drawing ? drawing.querySelectorAll("rect.box") : [])
      if (inside(element.getBoundingClientRect(), box.getBoundingClientRect(), 4))
        grounds.push(rgba(getComputedStyle(box).fill));
    const ratio = Math.min(...grounds.map((ground) => contrast(ink, ground)));
    if (ratio < TEXT_CONTRAST_MIN) defects.push(`faint: ${near(element)} has a contrast of ${ratio.toFixed(1)}`);
  }

  // Every drawing: there, with shapes that are seen, and all its text within it and apart.
  document.querySelectorAll("svg").forEach((drawing, number) => {
    const name = `drawing ${number + 1}`, frame = drawing.getBoundingClientRect();
    if (frame.width <= 0 || frame.height <= 0) { defects.push(`not drawn: ${name} takes no room`); return; }
    const seen = [...drawing.querySelectorAll(SHAPES)].filter((shape) => {
      const box = shape.getBoundingClientRect();
      return box.width + box.height > 0;
    });
    if (!seen.length) defects.push(`not drawn: ${name} has no shape`);
    for (const shape of seen) {
      if (shape.matches(".line, .box")) continue;  // guides, which may be faint
      const style = getComputedStyle(shape), ground = background(drawing);
      const ink = rgba(style.fill === "none" || shape.localName === "line" ? style.stroke : style.fill);
      const ratio = ink ? contrast(ink, ground) : 1;
      if (ratio < SHAPE_CONTRAST_MIN) defects.push(`faint: a ${shape.localName} of ${name} has a contrast of ${ratio.toFixed(1)}`);
    }
    const labels = [...drawing.querySelectorAll("text")].map((label) => [label, label.getBoundingClientRect()]);
    for (const [label, box] of labels)
      if (!inside(box, frame, 1)) defects.push(`cut: ${near(label)} stands outside of ${name}`);
    labels.forEach(([label, box], place) => {
      for (const [other, second] of labels.slice(place + 1))
        if (Math.min(box.right, second.right) - Math.max(box.left, second.left) > 1
            && Math.min(box.bottom, second.bottom) - Math.max(box.top, second.top) > 3)
          defects.push(`overlap: ${near(label)} and ${near(other)} in ${name}`);
    });
  });
  return defects;
})()
