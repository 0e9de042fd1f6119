// Draws the parts of a view: what each holds is said in parts.py, which makes them.
// All text goes through textContent: no name from the data is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";
const MINUTE = 60000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 15000, 30000, ...[1, 5, 15, 30, 60,
  180, 360, 720, 1440, 2880, 10080, 20160, 43200, 129600, 525600].map(minutes => minutes * MINUTE)];
const ROW = 28, STRIP = 58, AXIS = 18, CLOSE = 4, TWICE = 400, LEAST_SPAN = 10 * MINUTE, BAND = 22, END = 8, LETTER = 6.6;
const SHORT_EM = 10, LEAST_EM = 5, NAME_EM = 7, ENOUGH_EM = 9;

function furnished(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}
const element = (tag, attributes = {}, ...children) =>
  furnished(document.createElement(tag), attributes, children);
const shape = (tag, attributes = {}, ...children) =>
  furnished(document.createElementNS(SVG, tag), attributes, children);

const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 2 });
const number = value => value.toLocaleString("en-US");
const moment = (ms, length = 16) => new Date(ms).toISOString().slice(0, length).replace("T", " ");
const clock = ms => new Date(ms).toISOString().slice(11, 16);
const tickText = (ms, step) => step >= DAY || ms % DAY === 0 ? DATE.format(ms) : step >= MINUTE ? clock(ms)
  : new Date(ms).toISOString().slice(step < 1000 ? 17 : 11, step < 1000 ? 23 : 19) + (step < 1000 ? " s" : "");

function between(start, end) {
  if (end - start < MINUTE) return `${moment(start, start % 1000 ? 23 : 19)} UTC`;
  const to = moment(start).slice(0, 10) === moment(end).slice(0, 10) ? clock(end) : moment(end);
  return end - start === DAY && start % DAY === 0
    ? `${moment(start).slice(0, 10)} (UTC)` : `${moment(start)} to ${to} UTC`;
}

function ticksOf([from, to], most) {
  const step = STEPS.find(each => (to - from) / each <= most) ?? STEPS.at(-1);
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return [ticks, step];
}

/** Change a place, and have the focus where it was in it; at what is before, if that is gone. */
function keepingFocus(place, change) {
  const all = () => [...place.querySelectorAll("button, input, [tabindex]")];
  const at = all().indexOf(document.activeElement);
  change();
  if (at >= 0 && !place.contains(document.activeElement))
    all().slice(0, at + 1).reverse().find(each => !each.disabled)?.focus({ preventScroll: true });
}

/** What stands above a column; a name from elsewhere as it is. */
const headOf = ({ label, as_is }) => as_is ? label : label.slice(0, 1).toUpperCase() + label.slice(1);

/** First place in a sorted list whose value is above the given one. */
function placeAbove(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

/** A stretch of time that can be narrowed by a brush and by keys, within what there is. */
class Span {
  constructor(whole, changed) {
    this.whole = whole; this.shown = [...whole]; this.changed = changed; this.clicked = -TWICE;
  }

  get isWhole() { return this.shown[0] <= this.whole[0] && this.shown[1] >= this.whole[1]; }

  show(from, to) {
    const least = Math.min(LEAST_SPAN, (this.whole[1] - this.whole[0]) / 20);
    const length = Math.min(Math.max(to - from, least), this.whole[1] - this.whole[0]);
    const start = Math.min(Math.max(from, this.whole[0]), this.whole[1] - length);
    this.shown = [start, start + length];
    this.changed();
  }

  reset() { this.show(...this.whole); }

  zoom(by, about = (this.shown[0] + this.shown[1]) / 2) {
    this.show(about - (about - this.shown[0]) * by, about + (this.shown[1] - about) * by);
  }

  move(by) {
    const step = by * (this.shown[1] - this.shown[0]);
    this.show(this.shown[0] + step, this.shown[1] + step);
  }

  /** Do what a key asks for; return whether it asked for anything. */
  heeds(key, about) {
    const asked = { "+": () => this.zoom(0.5, about), "=": () => this.zoom(0.5, about),
      "-": () => this.zoom(2, about), "0": () => this.reset(), Escape: () => this.reset() }[key];
    if (!asked || (key === "Escape" && this.isWhole)) return false;
    asked();
    return true;
  }
}

/** Let the pointer choose a stretch of a drawing: drag to narrow, click to pick, twice for all. */
function brushed(drawing, span, timeAt, picked) {
  let begun = null;
  const veil = shape("rect", { class: "veil", y: 0, height: "100%" });
  const end = event => {
    if (begun === null) return;
    const [from, to] = [begun, event.offsetX].sort((a, b) => a - b);
    begun = null;
    veil.remove();
    // A click may draw anew what is clicked, and of that no browser tells a second one.
    const isSecond = event.timeStamp - span.clicked < TWICE;
    span.clicked = event.timeStamp;
    if (to - from >= CLOSE) span.show(timeAt(from), timeAt(to));
    else if (isSecond) span.reset();
    else picked?.(timeAt(to));
  };
  drawing.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    begun = event.offsetX;
    drawing.setPointerCapture(event.pointerId);
  });
  drawing.addEventListener("pointermove", event => {
    if (begun === null || Math.abs(event.offsetX - begun) < CLOSE) return;
    if (!veil.isConnected) drawing.append(veil);
    veil.setAttribute("x", Math.min(begun, event.offsetX));
    veil.setAttribute("width", Math.abs(event.offsetX - begun));
  });
  drawing.addEventListener("pointerup", end);
  drawing.addEventListener("pointercancel", () => { begun = null; veil.remove(); });
}

/** What the first label of an axis says beside what the others do: the day, or the minute. */
const firstText = (ms, step) => step >= MINUTE ? `${DATE.format(ms)} ${tickText(ms, step)}`
  : new Date(ms).toISOString().slice(11, step < 1000 ? 23 : 19);

function axisOf(span, width, y) {
  const [ticks, step] = ticksOf(span, Math.max(width / 70, 2));
  const at = ms => width * (ms - span[0]) / (span[1] - span[0]), seen = ticks.filter(ms => at(ms) < width - 14);
  const isDated = step >= DAY || seen.some(ms => ms % DAY === 0), hasRoom = !(at(seen[1]) - at(seen[0]) < 100);
  let taken = -END;
  return shape("g", { class: "v-axis" }, ...seen.flatMap((ms, place) => {
    const text = !isDated && hasRoom && !place && at(ms) < width - 60 ? firstText(ms, step) : tickText(ms, step);
    const long = LETTER * text.length, left = at(ms) < 22 ? at(ms) : at(ms) - long / 2;
    const tick = shape("line", { x1: at(ms), x2: at(ms), y1: y + 1, y2: y + 4 });
    if (left < taken + END) return [tick]; // its label would lie on the one before
    taken = left + long;
    return [tick, shape("text", { x: at(ms), y, "text-anchor": at(ms) < 22 ? "start" : "middle" }, text)];
  }));
}

/** A table of any length: only the rows that are seen are there. */
class Table {
  constructor(view, name) {
    this.view = view; this.name = name; this.text = ""; this.pressed = new Map();
    this.sorted = null; this.chosen = -1; this.rows = []; this.shut = new Set();
    this.search = element("input", { type: "search", oninput: () => {
      this.text = this.search.value.toLowerCase(); this.filter(); } });
    this.told = element("output", { class: "told" });
    this.chips = element("div", { class: "chips" });
    this.head = element("div", { role: "row", class: "row v-head" });
    this.body = element("div", { role: "rowgroup", class: "body" });
    this.grid = element("div", { role: "grid", class: "grid", tabindex: 0,
      "data-lm-suppress-shortcuts": "true", onscroll: () => this.redraw(),
      onkeydown: event => this.key(event) }, element("div", { role: "rowgroup", class: "heads" },
      this.head), this.body);
    this.bar = element("div", { class: "bar" }, this.search, this.chips, this.told);
    this.title = element("div", { class: "label" });
    this.unknown = element("div"); this.whole = element("output", { class: "label", "aria-live": "polite" });
    this.element = element("section", { class: "table" }, this.bar, this.title, this.grid, this.whole, this.unknown);
  }

  put(part) {
    const isFirst = !this.part;
    this.part = part;
    this.span = this.spanned(part);
    this.above = part.depths ? above(part.depths) : null;
    this.grid.setAttribute("aria-label", part.label);
    this.grid.setAttribute("role", part.depths ? "treegrid" : "grid");
    this.search.setAttribute("aria-label", `Search ${part.label}`);
    this.search.placeholder = part.hint ?? "Search …";
    this.bar.hidden = !part.search;
    this.title.hidden = !!part.search;
    this.title.textContent = part.label;
    this.unknown.replaceChildren(folded(part));
    this.low = part.columns.map(each => each.words?.map(word => word.toLowerCase()));
    this.putChips();
    this.chosen = part.chosen ?? -1;
    if (isFirst) this.shut = new Set(part.shut ?? []);
    this.openTo(this.chosen);
    this.filter();
    if (isFirst) this.reveal();
  }

  spanned(part) {
    const column = part.columns.find(each => each.kind === "spans");
    if (!column) return null;
    const before = this.span;
    const span = new Span(column.span, () => this.filter());
    if (before && !before.isWhole) span.shown = before.shown;
    return span;
  }

  putChips() {
    for (const { label, words } of this.part.chips ?? [])
      if (!words.includes(this.pressed.get(label))) this.pressed.delete(label);
    this.chips.replaceChildren(...(this.part.chips ?? []).map(chip => element("span",
      { role: "group", class: "group", "aria-label": chip.label }, ...chip.words.map((word, code) =>
        element("button", { type: "button", class: "chip", onclick: event => this.press(event, chip, code),
          "aria-pressed": String(this.pressed.get(chip.label) === word) }, word)))));
  }

  press(event, chip, code) {
    const word = chip.words[code];
    this.pressed.set(chip.label, this.pressed.get(chip.label) === word ? null : word);
    for (const each of event.target.parentElement.children)
      each.setAttribute("aria-pressed", String(each.textContent === this.pressed.get(chip.label)));
    this.filter();
  }

  filter() {
    const { part } = this, keep = new Uint8Array(part.rows).fill(1);
    if (this.text) {
      // Which words of each column that is searched hold what is searched for.
      const wanted = part.columns.map(({ name }, place) => part.search.includes(name)
        ? this.low[place].map(word => word.includes(this.text)) : null);
      for (let row = 0; row < part.rows; row++)
        keep[row] = part.columns.some((each, place) => wanted[place]?.[each.codes[row]]) ? 1 : 0;
    }
    this.filterSpans(keep);
    for (const chip of this.chosenChips("row"))
      for (let row = 0; row < part.rows; row++) if (chip.codes[row] !== chip.code) keep[row] = 0;
    this.found = keep.reduce((sum, each, row) => sum + (each && !this.hasBelow(row) ? 1 : 0), 0);
    if (this.above) this.keepTree(keep);
    this.rows = [];
    for (let row = 0; row < part.rows; row++) if (keep[row]) this.rows.push(row);
    this.sort();
  }

  hasBelow(row) { const { depths } = this.part; return !!depths && depths[row + 1] > depths[row]; }

  /** Keep what is above a kept row, and leave out what is below one that is shut. */
  keepTree(keep) {
    const { depths, ids } = this.part, isSought = this.isSought;
    for (let row = keep.length - 1; row > 0; row--) if (keep[row] && this.above[row] >= 0) keep[this.above[row]] = 1;
    if (isSought) return;
    for (let row = 0, shut = Infinity; row < keep.length; row++) {
      if (depths[row] > shut) { keep[row] = 0; continue; }
      shut = this.shut.has(ids[row]) ? depths[row] : Infinity;
    }
  }

  /** Open whatever a row of a tree lies in. */
  openTo(row) {
    for (let of = this.above?.[row] ?? -1; of >= 0; of = this.above[of]) this.shut.delete(this.part.ids[of]);
  }

  get isSought() { return !!this.text || this.chosenChips("row").length > 0; }

  /** Open what is below a row, or shut it. */
  fold(row, shut) {
    if (shut) this.shut.add(this.part.ids[row]); else this.shut.delete(this.part.ids[row]);
    this.filter();
  }

  /** Rows of a tree in the order of a column, each below the one that it is of. */
  sortTree(compare) {
    const below = new Map();
    for (const row of this.rows) {
      const of = this.above[row];
      if (below.has(of)) below.get(of).push(row); else below.set(of, [row]);
    }
    const all = [], walk = of => below.get(of)?.sort(compare).forEach(row => { all.push(row); walk(row); });
    walk(-1);
    this.rows = all;
  }

  chosenChips(of) {
    return (this.part.chips ?? []).filter(chip => chip.of === of && this.pressed.get(chip.label))
      .map(chip => ({ ...chip, code: chip.words.indexOf(this.pressed.get(chip.label)) }));
  }

  /** Leave out rows none of whose spans is wanted, and remember which spans are. */
  filterSpans(keep) {
    this.faded = null;
    const chips = this.chosenChips("span");
    if (!this.span || (this.span.isWhole && !chips.length)) return;
    const column = this.part.columns.find(each => each.kind === "spans");
    const [from, to] = this.span.shown.map(ms => (ms - column.span[0]) / (column.unit ?? MINUTE));
    this.faded = new Uint8Array(column.starts.length);
    for (let row = 0; row < keep.length; row++) {
      let any = 0;
      for (let at = column.firsts[row]; at < column.firsts[row + 1]; at++) {
        const seen = column.starts[at] < to && column.starts[at] + column.lengths[at] > from
          && chips.every(chip => chip.codes[at] === chip.code);
        this.faded[at] = seen ? 0 : 1;
        any |= seen;
      }
      keep[row] &= any;
    }
  }

  sort() {
    const { part } = this;
    const [place, way] = this.sorted ?? [-1, 0];
    const rank = place < 0 ? null : part.columns[place].values ?? this.ranks(place);
    const compare = (a, b) => (rank ? way * (rank[a] - rank[b]) : 0) || a - b;
    if (this.above) this.sortTree(compare); else this.rows.sort(compare);
    const all = part.leaves ?? part.rows, noun = all === 1 ? part.one : part.noun;
    this.told.textContent = this.found === all
      ? `${number(all)} ${noun}` : `${number(this.found)} of ${number(all)} ${noun}`;
    this.grid.setAttribute("aria-rowcount", this.rows.length + 1);
    this.body.style.height = `${this.rows.length * ROW}px`;
    this.heads();
    this.draw();
  }

  /** A column's order: of words by the alphabet, of spans by the first one. */
  ranks(place) {
    const column = this.part.columns[place];
    if (column.kind === "spans") return column.firsts.slice(0, -1).map(at => column.starts[at] ?? 0);
    if (column.kind === "grade") return column.codes;
    const order = column.words.map((_, code) => code)
      .sort((a, b) => column.words[a] < column.words[b] ? -1 : 1);
    const rank = [];
    order.forEach((code, at) => { rank[code] = at; });
    return column.codes.map(code => rank[code]);
  }

  order(place) {
    const [before, way] = this.sorted ?? [];
    this.sorted = before !== place ? [place, 1] : way > 0 ? [place, -1] : null;
    this.sort();
  }

  get isNarrow() { return this.element.clientWidth < 520; }

  get seen() {
    const { isNarrow } = this;
    return this.part.columns.map((each, place) => [each, place]).filter(([each]) => !each.hidden && !(isNarrow && each.wide));
  }

  heads() {
    const { seen } = this, asked = seen.map(([each]) => each.width ?? "minmax(4em, 1fr)");
    const ems = asked.map(width => Number(/[\d.]+/.exec(width)[0])), sum = some => some.reduce((a, b) => a + b, 0);
    // Where there is little room columns stand closer, and texts give way to figures as far as they must;
    // the first text, which names the row, comes off best.
    const isTight = this.isTight = this.isNarrow && sum(ems) > (this.grid.clientWidth - 10 * ems.length - 6) / 13, gap = isTight ? 6 : 10;
    const least = ems.map((em, at) => !isTight || em <= SHORT_EM || !seen[at][0].codes ? em
      : Math.min(em, Math.max(!at || seen[at][0].middle || seen[at][0].tail ? NAME_EM : LEAST_EM, 0.62 * seen[at][0].label.length)));
    let spare = (this.grid.clientWidth - gap * ems.length - 12) / 13 - sum(least);
    for (const most of [ENOUGH_EM, Infinity]) for (let at = 0; at < ems.length && spare > 0; at++) {
      const more = Math.min(Math.max(Math.min(ems[at], most) - least[at], 0), spare);
      least[at] += more; spare -= more;
    }
    const set = (name, value) => this.element.style.setProperty(name, value);
    set("--columns", asked.map((width, at) => width.replace(/[\d.]+em/, `${least[at]}em`)).join(" "));
    set("--least", `calc(${least.join("em + ")}em + ${gap * least.length}px)`);
    set("--gap", `${gap}px`);
    keepingFocus(this.head, () => this.head.replaceChildren(...this.seen.map(([each, place]) => {
      const [by, way] = this.sorted ?? [], sign = by !== place ? "" : way > 0 ? " ▲" : " ▼";
      const sort = by !== place ? "none" : way > 0 ? "ascending" : "descending";
      const head = element("div", { role: "columnheader", class: `cell c-${each.kind}`, "aria-sort": sort },
        element("button", { type: "button", onclick: () => this.order(place), title: each.title },
          headOf(each) + sign));
      if (each.kind === "spans") this.timeHead(head, each);
      return head;
    })));
  }

  timeHead(head, column) {
    const drawing = shape("svg", { class: "brush", height: AXIS, tabindex: 0, role: "application",
      "data-lm-suppress-shortcuts": "true",
      "aria-label": `${column.label}: arrows move, plus and minus zoom, 0 shows all time`,
      onkeydown: event => this.timeKey(event) });
    head.append(drawing);
    requestAnimationFrame(() => {
      const width = drawing.clientWidth || 200;
      drawing.replaceChildren(axisOf(this.span.shown, width, 13));
    });
    const timeAt = x => this.span.shown[0]
      + (this.span.shown[1] - this.span.shown[0]) * x / (drawing.clientWidth || 1);
    brushed(drawing, this.span, timeAt);
  }

  timeKey(event) {
    const move = { ArrowLeft: -0.25, ArrowRight: 0.25 }[event.key];
    if (move) this.span.move(move);
    if (!move && !this.span.heeds(event.key)) return;
    taken(event);
  }

  draw() { this.drawn = null; this.redraw(); }

  /** Show the rows that are seen now, and which is chosen; those that stand there stay. */
  redraw() {
    if (!this.part) return;
    const first = Math.max(Math.floor(this.grid.scrollTop / ROW) - 4, 0);
    const last = Math.min(first + Math.ceil(this.grid.clientHeight / ROW) + 8, this.rows.length);
    if (this.drawn !== `${first} ${last}`) {
      const made = [];
      for (let place = first; place < last; place++) made.push(this.row(place));
      this.body.replaceChildren(...made);
      this.drawn = `${first} ${last}`;
    }
    [...this.body.children].forEach((each, at) =>
      each.setAttribute("aria-selected", String(this.rows[first + at] === this.chosen)));
    this.whole.textContent = this.part.opens && this.isTight && this.rows.includes(this.chosen) ? this.texts(this.chosen) : "";
    const active = this.rows.indexOf(this.chosen);
    const id = active >= first && active < last ? `${this.view.id}-${this.name}-${active}` : "";
    if (id) this.grid.setAttribute("aria-activedescendant", id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  row(place) {
    const row = this.rows[place];
    return element("div", { role: "row", class: "row", id: `${this.view.id}-${this.name}-${place}`,
      "aria-rowindex": place + 2,
      "aria-level": this.above && this.part.depths[row] + 1,
      "aria-expanded": this.hasBelow(row) ? String(this.isOpen(row)) : null,
      style: `top: ${place * ROW}px`, onclick: () => this.choose(row) },
    ...this.seen.map(([each], at) => element("div", { role: "gridcell", class: `cell c-${each.kind}${each.tail ? " tail" : ""}`,
      title: each.titles?.[each.hints[row]] }, at === 0 ? this.twist(row) : "", ...this.cell(each, row))));
  }

  /** A row whole, where its columns have little room, or none. */
  texts(row) {
    return this.part.columns.filter(each => !each.hidden).map(each => `${headOf(each)}: ${
      each.texts?.[row] ?? each.words?.[each.codes[row]] ?? each.values?.[row] ?? ""}`).join(" · ");
  }

  isOpen(row) { return this.isSought || !this.shut.has(this.part.ids[row]); }

  /** What stands before the first cell of a row of a tree. */
  twist(row) {
    if (!this.above) return "";
    const indent = `margin-left: ${this.part.depths[row] * (this.isNarrow ? 7 : 14)}px`;
    if (!this.hasBelow(row)) return element("i", { class: "twist", style: indent });
    return element("i", { class: "twist", style: indent, onclick: event => {
      event.stopPropagation();
      this.fold(row, this.isOpen(row)); } }, this.isOpen(row) ? "▾" : "▸");
  }

  cell(column, row) {
    // What several have in common was summed over all of them, not over those that were found.
    if (this.isSought && this.hasBelow(row) && /size|badges/.test(column.kind)) return [];
    if (column.kind === "size") return [element("span", { class: "size",
      style: `--part: ${100 * column.values[row] / column.most}%` }), column.texts[row]];
    if (column.kind === "number")
      return [column.texts?.[row] ?? (column.values[row] === null ? "" : number(column.values[row]))];
    if (column.kind === "spans") return [this.timeline(column, row)];
    const word = column.words[column.codes[row]];
    if (column.kind === "grade")
      return [element("i", {}, "●◐○"[column.codes[row]]), word];
    if (column.kind === "badge") return word ? [element("span", { class: `badge ${word.split(",")[0]}` }, word)] : [];
    if (column.kind === "badges") return word ? word.split(", ").map(each => element("span",
      { class: `badge ${each.split(" ").at(-1)}`, title: each }, each)) : [];
    if (!column.middle || word.length < 2 * END) return [element("bdi", { title: word }, word)];
    const at = [...word].slice(0, -END).join("").length; // between letters, never within one
    return [element("bdi", { title: word, class: "middle" },
      ...[word.slice(0, at), word.slice(at)].map(each => element("span", {}, each)))];
  }

  timeline(column, row) {
    const [from, to] = this.span.shown.map(ms => (ms - column.span[0]) / (column.unit ?? MINUTE)), drawn = [];
    for (let at = column.firsts[row]; at < column.firsts[row + 1]; at++) {
      const x = 100 * (column.starts[at] - from) / (to - from);
      const width = Math.max(100 * column.lengths[at] / (to - from), 0.8);
      if (x + width < 0 || x > 100) continue;
      const kind = column.kinds[at], faded = this.faded?.[at] ? " faded" : "";
      drawn.push(shape("rect", { x, width, y: kind ? 2 : 5, height: kind ? 14 : 8,
        class: `mark k${kind}${faded}` }));
    }
    return shape("svg", { viewBox: "0 0 100 18", preserveAspectRatio: "none", "aria-hidden": "true",
      onpointermove: event => this.hover(event, column, row), onpointerleave: () => this.view.untip() },
    shape("line", { x1: 0, x2: 100, y1: 9, y2: 9, class: "v-line" }), ...drawn);
  }

  hover(event, column, row) {
    const unit = column.unit ?? MINUTE, [from, to] = this.span.shown.map(ms => (ms - column.span[0]) / unit);
    const at = from + (to - from) * event.offsetX / event.currentTarget.clientWidth;
    const slack = (to - from) * 3 / event.currentTarget.clientWidth, told = [];
    for (let place = column.firsts[row]; place < column.firsts[row + 1]; place++) {
      const start = column.starts[place], end = start + column.lengths[place];
      if (at < start - slack || at > end + slack) continue;
      const begin = column.span[0] + start * unit, of = column.counts ? `${number(column.counts[place])} × ` : "";
      told.push(`${between(begin, begin + column.lengths[place] * unit)}: ${of}${column.whats[column.what[place]]}`);
    }
    if (told.length) this.view.tip(event, [...told.slice(0, 5),
      ...told.length > 5 ? [`and ${number(told.length - 5)} more`] : []]);
    else this.view.untip();
  }

  key(event) {
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(Math.floor(this.grid.clientHeight / ROW) - 2, 1), all = this.rows.length;
    const now = this.rows.indexOf(this.chosen);
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, PageDown: now + page, PageUp: now - page,
      Home: 0, End: all - 1 }[event.key];
    if (event.key === "/" && this.part.search) { taken(event); this.search.focus(); return; }
    if (to === undefined || !all) { this.treeKey(event); return; }
    taken(event);
    this.choose(this.rows[Math.min(Math.max(to, 0), all - 1)]);
    this.reveal();
  }

  /** Right opens what is shut, and left shuts it, or goes to what it is of. */
  treeKey(event) {
    const row = this.chosen, right = event.key === "ArrowRight";
    if (!this.above || row < 0 || !(right || event.key === "ArrowLeft")) return;
    taken(event);
    if (this.hasBelow(row) && this.isOpen(row) !== right) this.fold(row, !right);
    else if (!right && this.above[row] >= 0) this.choose(this.above[row]);
    this.reveal();
  }

  choose(row) {
    if (row === this.chosen) return;
    this.chosen = row;
    const named = this.part.columns.find(each => each.codes);
    this.view.send({ chosen: [this.name, row, named?.words[named.codes[row]]] });
    this.redraw();
  }

  mark(row) {
    if (row === this.chosen) return;
    this.chosen = row;
    if (this.above && !this.rows.includes(row)) { this.openTo(row); this.filter(); }
    this.reveal();
  }

  /** Scroll so that the chosen row is seen. */
  reveal() {
    const place = this.rows.indexOf(this.chosen), top = place * ROW, { grid } = this;
    if (place >= 0 && top < grid.scrollTop) grid.scrollTop = top;
    else if (place >= 0 && top + 2 * ROW > grid.scrollTop + grid.clientHeight)
      grid.scrollTop = top + 2.5 * ROW - grid.clientHeight;
    this.redraw();
  }

  resized() { if (this.part) { this.heads(); this.draw(); this.reveal(); } }
}

/** What row each one of a tree is of, by how deep each stands; -1 of none. */
function above(depths) {
  const last = [];
  return depths.map((depth, row) => { last[depth] = row; return depth ? last[depth - 1] : -1; });
}

function taken(event) { event.preventDefault(); event.stopPropagation(); }

/** Counts over time at several lengths of window, on one axis. */
class Strips {
  constructor(view, name) {
    this.view = view; this.name = name; this.at = [0, -1];
    this.heard = element("output", { class: "heard", "aria-live": "polite" });
    this.drawn = element("div", { class: "drawn", tabindex: 0, role: "application",
      "data-lm-suppress-shortcuts": "true", onkeydown: event => this.key(event) });
    this.all = element("button", { type: "button", class: "quiet", onclick: () => this.span.reset() },
      "All time");
    this.colours = element("ul", { class: "key" });
    this.element = element("section", { class: "v-strips" }, this.drawn, this.colours,
      element("div", { class: "bar" }, this.all, this.heard));
  }

  put(part) {
    if (part.label !== this.part?.label) this.view.untip(); // what it tells is of another
    const strips = part.strips.map(each => ({ ...each,
      starts: each.starts.map(units => each.origin + units * each.unit) }));
    this.part = { ...part, strips }; this.at = [part.level ?? 0, -1]; this.outlined = part.outlined;
    this.flagged = part.strips.map(strip => new Set(strip.flagged));
    this.element.hidden = !part.strips.length;
    this.drawn.setAttribute("aria-label", `${part.label}. Left and right go from window to window, `
      + "up and down between lengths, plus and minus zoom, 0 shows all time, Enter looks into a window.");
    const any = has => part.strips.some(has), none = value => value === null || value === undefined;
    this.colours.replaceChildren(...[["bar", "events"], any(each => each.flagged.length) && ["flagged", "flagged"],
      any(each => !none(each.high)) && ["expected", "expected then"], any(each => !none(each.ceiling)) && ["limit", "ceiling"],
      part.outlined && ["outlined", "what is told"]].filter(Boolean).map(([kind, text]) =>
      element("li", {}, element("i", { class: `k-${kind}` }), text)));
    this.span = new Span(part.span, () => this.draw());
    if (part.zoom) this.span.show(...part.zoom); else this.draw();
    this.heard.textContent = "";
  }

  get width() { return this.drawn.clientWidth || 480; }

  x(ms) { return this.width * (ms - this.span.shown[0]) / (this.span.shown[1] - this.span.shown[0]); }

  timeAt(x) { return this.span.shown[0] + (this.span.shown[1] - this.span.shown[0]) * x / this.width; }

  draw() {
    if (!this.part || !this.part.strips.length) return;
    this.all.hidden = this.span.isWhole;
    this.all.textContent = this.part.all ?? "All time";
    this.drawn.replaceChildren(...this.part.strips.flatMap((strip, place) => [
      element("div", { class: "label" }, element("b", {}, strip.label), ` · ${this.note(strip, place)}`),
      this.strip(strip, place, place === this.part.strips.length - 1)]));
  }

  /** What is seen of a strip, in words. */
  note(strip, place) {
    const [first, last] = this.seen(strip), seen = strip.counts.slice(first, last);
    if (!seen.length) return strip.none;
    const most = seen.reduce((a, b) => Math.max(a, b), 0);
    const flagged = strip.flagged.filter(at => at >= first && at < last).length;
    return [`up to ${number(most)}`, ...strip.said, ...flagged ? [`${number(flagged)} flagged`] : []]
      .join(", ");
  }

  seen(strip) {
    const [from, to] = this.span.shown;
    const first = Math.max(placeAbove(strip.starts, from) - 1, 0);
    return [first, placeAbove(strip.starts, to)];
  }

  end(strip, at) { return strip.ends ? Math.max(strip.ends[at], strip.starts[at] + 1) : strip.starts[at] + strip.length; }

  strip(strip, place, isLast) {
    const [first, last] = this.seen(strip), { width } = this;
    const height = STRIP + (isLast ? AXIS : 0);
    let most = Math.max(strip.high ?? 0, 1);
    for (let at = first; at < last; at++) most = Math.max(most, strip.counts[at]);
    if (strip.ceiling && strip.ceiling < 3 * most) most = Math.max(most, strip.ceiling);
    const y = count => STRIP - 1 - (STRIP - 10) * count / most;
    const drawing = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, class: "v-strip", "aria-hidden": "true" },
      ...this.bars(strip, place, first, last, y), ...this.limits(strip, y, width),
      shape("line", { class: "base", x1: 0, x2: width, y1: STRIP - 0.5, y2: STRIP - 0.5 }),
      ...this.outline(), isLast ? axisOf(this.span.shown, width, height - 4) : null);
    brushed(drawing, this.span, x => this.timeAt(x), ms => this.pick(place, ms));
    drawing.addEventListener("pointermove", event => this.hover(event, place));
    drawing.addEventListener("pointerleave", () => { this.view.untip(); this.cross(null); });
    return drawing;
  }

  limits(strip, y, width) {
    const drawn = [];
    if (strip.high !== null) {
      // What was expected is known of one window: the band stands there, wide enough to be seen.
      const [from, to] = strip.at ? strip.at.map(ms => this.x(ms)) : [0, width], wide = Math.max(to - from, strip.at ? BAND : 0);
      drawn.push(shape("rect", { class: "v-expected", x: (from + to - wide) / 2, width: wide, y: y(strip.high),
        height: Math.max(y(strip.low ?? 0) - y(strip.high), 1.5) }));
    }
    if (strip.ceiling !== null && y(strip.ceiling) > 0)
      drawn.push(shape("line", { class: "v-ceiling", x1: 0, x2: width, y1: y(strip.ceiling), y2: y(strip.ceiling) }));
    return drawn;
  }

  /** Bars; of those that share a pixel, the highest stands, and a flagged one is not lost. */
  bars(strip, place, first, last, y) {
    const drawn = [], marks = [];
    let pixel = null, high = 0, flagged = false;
    const put = (x, width) => {
      if (!high) return;
      drawn.push(shape("rect", { x, width, y: y(high), height: Math.max(STRIP - 1 - y(high), 0.5),
        class: flagged ? "bar flagged" : "bar" }));
      if (flagged) marks.push(shape("path", { class: "v-flag",
        d: `M${x + width / 2 - 3.5} ${y(high) - 8}h7l-3.5 6z` }));
    };
    for (let at = first; at < last; at++) {
      const x = this.x(strip.starts[at]), width = this.x(this.end(strip, at)) - x;
      const isFlagged = this.flagged[place].has(at);
      if (width >= 1.5) { put(pixel, 1.2); high = strip.counts[at]; flagged = isFlagged;
        put(x + 0.3, Math.max(width - 0.6, 1.2)); high = 0; pixel = null; continue; }
      if (Math.round(x) !== pixel) { put(pixel, 1.2); pixel = Math.round(x); high = 0; flagged = false; }
      high = Math.max(high, strip.counts[at]); flagged ||= isFlagged;
    }
    put(pixel, 1.2);
    return [...drawn, ...marks];
  }

  outline() {
    const { outlined } = this;
    if (!outlined) return [];
    const x = this.x(outlined[0]), width = Math.max(this.x(outlined[1]) - x, 2);
    return x + width < 0 || x > this.width ? [] : [shape("rect", { class: "outline", x, width, y: 0.5, height: STRIP - 1 })];
  }

  barAt(strip, ms) {
    const at = placeAbove(strip.starts, ms) - 1;
    return at >= 0 && ms < this.end(strip, at) ? at : -1;
  }

  told(place, ms) {
    const strip = this.part.strips[place], at = this.barAt(strip, ms);
    if (at < 0) return `${strip.label}: ${strip.none}`;
    const isKnown = strip.high !== null && (!strip.at || strip.starts[at] === strip.at[0]);
    const of = !isKnown ? "" : `, expected ${number(strip.low ?? 0)}–${number(strip.high)}`;
    const limit = strip.ceiling === null ? "" : `, ceiling ${number(strip.ceiling)}`;
    const flagged = this.flagged[place].has(at) ? ", flagged" : "";
    return `${between(strip.starts[at], this.end(strip, at))}: ${number(strip.counts[at])}${of}${limit}${flagged}`;
  }

  hover(event, place) {
    const ms = this.timeAt(event.offsetX);
    this.view.tip(event, [this.told(place, ms)]);
    this.cross(ms);
  }

  /** Draw one line through all strips at a moment; none at null. */
  cross(ms) {
    for (const drawing of this.drawn.querySelectorAll("svg")) {
      drawing.querySelector(".cross")?.remove();
      if (ms !== null) drawing.append(shape("line", { class: "cross", x1: this.x(ms), x2: this.x(ms), y1: 0, y2: STRIP }));
    }
  }

  pick(place, ms) {
    const strip = this.part.strips[place], at = this.barAt(strip, ms);
    if (at < 0) return;
    const [start, end] = [strip.starts[at], this.end(strip, at)], margin = (end - start) / 4;
    if (place > 0) this.span.show(start - margin, end + margin);
    this.outlined = [start, end];
    this.draw();
    this.view.send({ window: [this.name, place, start] });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const strip = this.part.strips[this.at[0]], [level, bar] = this.at;
    const about = bar >= 0 ? strip.starts[bar] : undefined;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], up = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (this.span.heeds(event.key, about)) { taken(event); this.cross(about ?? null); return; }
    if (event.key === "Enter" && bar >= 0) { taken(event); this.pick(level, strip.starts[bar]); return; }
    if (!by && !up) return;
    taken(event);
    if (up) this.turn(up); else this.step(by);
  }

  turn(by) {
    const level = Math.min(Math.max(this.at[0] + by, 0), this.part.strips.length - 1);
    const ms = this.at[1] < 0 ? null : this.part.strips[this.at[0]].starts[this.at[1]];
    const { starts } = this.part.strips[level];
    this.stand(level, ms === null ? 0 : Math.max(placeAbove(starts, ms) - 1, 0));
  }

  step(by) {
    const [level, bar] = this.at, strip = this.part.strips[level], [first, last] = this.seen(strip);
    const next = bar < 0 ? (by > 0 ? first : last - 1) : bar + by;
    this.stand(level, Math.min(Math.max(next, 0), strip.starts.length - 1));
  }

  stand(level, bar) {
    const strip = this.part.strips[level];
    if (!strip.starts.length) { this.at = [level, -1]; this.heard.textContent = `${strip.label}: ${strip.none}`; return; }
    this.at = [level, bar];
    const middle = (strip.starts[bar] + this.end(strip, bar)) / 2, [from, to] = this.span.shown;
    if (middle < from || middle > to) this.span.show(middle - (to - from) / 2, middle + (to - from) / 2);
    this.cross(middle);
    this.heard.textContent = `${strip.label}, ${this.told(level, strip.starts[bar])}`;
  }

  resized() { this.draw(); }
}

const pieces = told => told.map(([text, isName]) => isName ? element("bdi", {}, text) : text);

/** A figure with its course, of which a value is told where one points, or goes by arrows. */
function tileOf(view) {
  const [label, note] = [0, 1].map(() => element("div", { class: "label" })), text = element("b");
  let of = null, ms = null;
  const last = () => of.times.length - 1;
  const at = () => ms === null ? last() : Math.max(placeAbove(of.times, ms) - 1, 0);
  const share = place => (of.times[place] - of.times[0]) / Math.max(of.times[last()] - of.times[0], 1);
  const told = () => `${moment(of.times[at()], 19)} UTC: ${of.texts[at()]}`;
  const draw = () => {
    line.toggleAttribute("hidden", of.values.length < 2);
    if (of.values.length < 2) return;
    const most = Math.max(...of.values, 1e-9), x = 100 * share(at());
    const points = of.values.map((value, place) => `${100 * share(place)},${26 - 24 * value / most}`);
    line.replaceChildren(shape("line", { class: "base", x1: 0, x2: 100, y1: 27, y2: 27 }),
      shape("polyline", { points: points.join(" ") }),
      ms === null ? "" : shape("line", { class: "cross", x1: x, x2: x, y1: 0, y2: 28 }));
    const said = { label: `${of.label}, its course`, valuemax: last(), valuenow: at(), valuetext: told() };
    for (const [name, value] of Object.entries(said)) line.setAttribute(`aria-${name}`, value);
  };
  const point = (to, event) => {
    ms = to;
    draw();
    if (ms === null) view.untip(); else view.tip(event, [told()]);
  };
  const key = event => {
    const to = { ArrowLeft: at() - 1, ArrowRight: at() + 1, Home: 0, End: last() }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    taken(event);
    const place = Math.min(Math.max(to, 0), last()), box = line.getBoundingClientRect();
    point(of.times[place], { clientX: box.left + share(place) * box.width, clientY: box.bottom });
  };
  const line = shape("svg", { class: "v-spark", viewBox: "0 0 100 28", preserveAspectRatio: "none",
    role: "slider", tabindex: 0, "aria-valuemin": 0, "data-lm-suppress-shortcuts": "true", onkeydown: key,
    onpointermove: event => point(of.times[0] + (of.times[last()] - of.times[0]) * event.offsetX
      / (line.clientWidth || 1), event), onpointerleave: () => point(null), onblur: () => point(null) });
  const tile = element("div", { class: "tile" }, label, text, note, line);
  return given => {
    of = given;
    [label.textContent, text.textContent, note.textContent] = [of.label, of.text, of.note];
    draw();
    return tile;
  };
}

function folded({ unknown, lacks }) {
  if (!unknown?.length) return "";
  return element("details", {}, element("summary", {}, lacks),
    element("ul", {}, ...unknown.map(each => element("li", {}, each))));
}

/** Put a text into the clipboard; return whether that was let happen. */
async function copied(text, place) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* a page without leave */ }
  getSelection().selectAllChildren(place);
  return document.execCommand("copy");
}

/** What a card says: a link is one, and what to set can be copied. */
function cardText(told, deed) {
  if (deed === "link") return [element("a", { href: told, target: "_blank", rel: "noreferrer" }, told)];
  if (deed !== "copy") return [told];
  const text = element("span", {}, told), copy = element("button", { type: "button", class: "quiet",
    "aria-label": `Copy ${told}`, onclick: () => copied(told, text).then(done => { copy.textContent = done ? "Copied" : "Selected"; }) }, "Copy");
  return [text, " ", copy];
}

/** Bars of parts beside each other's, against a limit. */
function barsOf(part, view) {
  const sums = part.bars.map(bar => bar.parts.reduce((sum, each) => sum + each.value, 0));
  const most = Math.max(...sums, part.limit?.value ?? 0, part.most ?? 0, 1) * 1.04, of = value => `${100 * value / most}%`;
  const line = part.limit ? [element("i", { class: "limit", style: `left: ${of(part.limit.value)}` })] : [];
  return [...part.bars.map((bar, place) => element("div", { class: "of" },
    element("div", { class: "label" }, element("b", {}, bar.label), ` ${bar.text}`),
    element("div", { class: "track", role: "img", "aria-label": `${bar.label}: ${bar.text}` },
      ...bar.parts.map(each => element("span", { class: `part p${each.tone}`, style: `width: ${of(each.value)}`,
        onpointermove: event => view.tip(event, [`${each.label}: ${each.text}`]),
        onpointerleave: () => view.untip() })), ...line.map(each => each.cloneNode())))),
  element("ul", { class: "key" }, ...part.key.map(([tone, label]) => element("li", {},
    element("i", { class: `part p${tone}` }), label)),
    part.limit ? element("li", {}, element("i", { class: "part limit" }), part.limit.text) : null)];
}

/** Parts that only stand there, or are pressed: what each is drawn as. */
const PLAIN = {
  sentence: (part, view) => [element("p", { class: part.tone }, ...pieces(part.told))],
  said: part => [element("p", { class: "said", role: "status" }, part.text),
    typeof part.share === "number" ? element("progress", { value: part.share, "aria-label": "Done" }) : ""],
  facts: part => [element("dl", {}, ...part.rows.map(([what, figure]) =>
    element("div", {}, element("dt", {}, what), element("dd", {}, figure)))), folded(part)],
  badge: part => [element("span", { class: `badge ${part.tone}`, role: "status" }, part.text)],
  tiles: (part, view, name, held) => part.tiles.map((each, place) => (held[place] ??= tileOf(view))(each)),
  cards: part => part.cards.map(each => element("article", {}, element("h5", {}, each.title),
    element("dl", {}, ...each.rows.map(([what, told, deed]) => element("div", {}, element("dt", {}, what),
      element("dd", {}, ...cardText(told, deed))))))),
  tabs: (part, view, name) => {
    const at = part.tabs.findIndex(each => each.name === part.chosen);
    const made = part.tabs.map((each, place) => element("button", { type: "button", role: "tab",
      "aria-selected": String(place === at), tabindex: place === at ? 0 : -1,
      onclick: () => view.send({ pressed: [name, each.name] }) }, each.label));
    return [element("div", { role: "tablist", "aria-label": part.label, onkeydown: event => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: made.length - 1 }[event.key];
      if (to === undefined || !made[to]) return;
      taken(event);
      made[to].focus();
      made[to].click(); } }, ...made)];
  },
  code: part => {
    const text = element("pre", { tabindex: 0, class: part.wraps ? null : "raw", "aria-label": part.label }, part.text);
    const told = element("output", { "aria-live": "polite" });
    const copy = element("button", { type: "button", onclick: () => copied(part.text, text)
      .then(done => { told.textContent = done ? "Copied" : "Select it, and copy it by the keyboard"; }) }, "Copy");
    return [element("div", { class: "bar" }, element("span", { class: "label" }, part.label), copy, told), text];
  },
  bars: (part, view) => barsOf(part, view),
  picture: part => [element("img", { src: part.src, alt: part.alt, width: part.width, class: part.narrow ? "wide" : null }),
    part.narrow ? element("img", { src: part.narrow, alt: part.alt, class: "narrow" }) : ""],
  buttons: (part, view, name) => [part.head ? element("div", { class: "label" }, part.label) : "",
    element("div", { class: "bar", role: "group", "aria-label": part.label },
    ...part.buttons.map((each, place) => element("button", { type: "button", title: each.title,
      class: each.chip && "chip", disabled: each.disabled, "aria-pressed": each.pressed === undefined ? null : String(each.pressed),
      onclick: () => view.send({ pressed: [name, each.name ?? place] }) }, each.label)))],
};

/** Have an element hold what was made; nothing moves if it does already. */
function placed(element, made) {
  const now = element.childNodes;
  if (made.length !== now.length || made.some((each, at) => each !== now[at])) element.replaceChildren(...made);
}

/** What is drawn in one place; `held` are pieces of it that stay as their figures change. */
class Plain {
  constructor(view, name) { this.view = view; this.name = name; this.held = []; this.element = element("section"); }

  put(part) {
    this.element.className = part.kind;
    placed(this.element, PLAIN[part.kind]?.(part, this.view, this.name, this.held) ?? []);
  }
}

/** A field's control: a list, a slider over a list, a box to tick, or a text. */
function controlOf(field) {
  if (field.type === "choice") return element("select", {});
  const type = { slider: "range", tick: "checkbox" }[field.type] ?? "text";
  return element("input", { type, autocomplete: "off", spellcheck: "false" });
}

/** Fields that stay as their values change, so that nobody who types in one is disturbed. */
class Form {
  constructor(view, name) {
    this.view = view; this.name = name; this.fields = new Map();
    this.element = element("section", { class: "form" });
  }

  put(part) {
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", part.label);
    const made = part.fields.map(field => {
      const held = this.fields.get(field.name) ?? this.made(field);
      this.fields.set(field.name, held);
      held.take(field);
      return held.element;
    });
    placed(this.element, made);
  }

  made(field) {
    const control = controlOf(field), label = element("span", {}), shown = element("output", {});
    const whole = element("label", { class: `field ${field.type}` }, ...field.type === "tick"
      ? [control, label] : [label, control], field.type === "slider" ? shown : null);
    const held = { element: whole, now: field, sent: null };
    const value = () => field.type === "tick" ? control.checked
      : field.type === "text" ? control.value : held.now.options[Number(control.value)]?.[0];
    const send = () => {
      if (value() === held.sent) return;
      held.sent = value();
      this.view.send({ field: [this.name, field.name, held.sent] });
    };
    const soon = job => { clearTimeout(held.waits); held.waits = setTimeout(job, 60); };
    control.addEventListener("change", () => { clearTimeout(held.waits); send(); });
    if (field.live) control.addEventListener("input", () =>
      soon(() => this.view.send({ typed: [this.name, field.name, value()] })));
    if (field.type === "slider") control.addEventListener("input", () => {
      shown.textContent = held.now.options[Number(control.value)][1];
      control.setAttribute("aria-valuetext", shown.textContent);
      soon(send); });
    held.take = given => { held.now = given; this.fill(given, held, { control, label, shown }); };
    return held;
  }

  fill(field, held, { control, label, shown }) {
    label.textContent = field.label;
    held.element.title = field.title ?? "";
    held.element.hidden = !!field.hidden;
    control.disabled = !!field.disabled;
    control.placeholder = field.hint ?? "";
    const names = JSON.stringify(field.options ?? []);
    if (field.type === "choice" && held.names !== names) control.replaceChildren(
      ...field.options.map(([, text], at) => element("option", { value: at }, text)));
    if (field.type === "slider") Object.assign(control, { min: 0, max: field.options.length - 1, step: 1 });
    held.names = names;
    // What somebody is typing is not sent yet, and no answer to what was sent before takes it away.
    const isTyped = field.type === "text" && document.activeElement === control && control.value !== (held.sent ?? "");
    if (isTyped) return;
    held.sent = field.value;
    if (field.type === "tick") control.checked = field.value;
    else if (field.type === "text") { if (control.value !== field.value) control.value = field.value; }
    else {
      control.value = field.options.findIndex(([value]) => value === field.value);
      shown.textContent = field.options[Number(control.value)]?.[1] ?? "";
      if (field.type === "slider") control.setAttribute("aria-valuetext", shown.textContent);
    }
  }
}

/** Charts of the same courses, with one line through all where one points, or goes by arrows. */
class Lines {
  constructor(view, name) {
    Object.assign(this, { view, name, x: null, chart: 0, stood: null });
    this.told = element("output", { class: "label" });
    this.key = element("ul", { class: "key" });
    this.drawn = element("div", { class: "charts", role: "slider", tabindex: 0, "aria-valuemin": 0,
      "data-lm-suppress-shortcuts": "true", onkeydown: event => this.keyed(event),
      onpointerleave: () => this.point(null), onblur: () => this.point(null) });
    this.alike = element("div");
    this.element = element("section", { class: "lines" },
      element("div", { class: "bar" }, this.key, this.told), this.drawn, this.alike);
  }

  put(part) {
    const { courses, charts } = this.part = part;
    this.scale = part.log ? value => Math.log10(Math.max(value, 1)) : value => value;
    this.steps = courses.reduce((a, { xs }) => xs.at(-1) > (a.at(-1) ?? -1) ? xs : a, []);
    this.span = [Math.min(...courses.map(each => each.xs[0])), Math.max(...courses.map(each => each.xs.at(-1)))];
    this.stood = part.at ?? this.stood;
    this.chart = Math.max(Math.min(this.chart, charts.length - 1), 0);
    this.drawn.setAttribute("aria-label", `${part.label}: left and right go along them, up and down `
      + "from one to another, Enter stays there");
    this.element.firstChild.hidden = this.drawn.hidden = !charts.length;
    this.key.replaceChildren(...courses.map((each, at) => element("li", {},
      element("i", { class: `part p${at % 7}` }), each.label)));
    this.made = charts.map((chart, of) => this.chartOf(chart, of));
    this.drawn.replaceChildren(...this.made.map(each => each.element));
    this.alike.replaceChildren(...(part.alike ?? []).map(each => element("p", { class: "quiet" }, each)));
    this.cross();
  }

  share(x) {
    const [from, to] = this.span.map(this.scale);
    return (this.scale(x) - from) / (to - from || 1);
  }

  text(x) { return `${this.part.log ? number(x) : x.toFixed(2)}${this.part.unit ?? ""}`; }

  chartOf(chart, of) {
    const all = chart.values.flat(), most = all.reduce((a, b) => Math.max(a, b ?? 0), 0);
    const spot = (course, at) => `${100 * this.share(this.part.courses[course].xs[at])} ${
      58 - 54 * this.scale(chart.values[course][at]) / (this.scale(most) || 1)}`;
    const paths = chart.values.map((values, course) => shape("path", { class: `course p${course % 7}`, d: values.map(
      (value, at) => value === null ? "" : `${at && values[at - 1] !== null ? "L" : "M"}${spot(course, at)}`).join("") }));
    const cross = shape("g"), figures = element("div", { class: "figures" });
    const xAt = event => this.nearest(event.offsetX / (event.currentTarget.clientWidth || 1));
    const drawing = shape("svg", { viewBox: "0 0 100 60", preserveAspectRatio: "none", "aria-hidden": "true",
      onpointermove: event => this.point(xAt(event), of), onclick: event => this.stay(xAt(event)) },
    shape("line", { class: "base", x1: 0, x2: 100, y1: 59, y2: 59 }), ...paths, cross);
    const { log, unit } = this.part, [from, to] = this.span;
    const ticks = log ? [0, 1, 2, 3, 4].map(at => SHORT.format(from * (to / from) ** (at / 4))) : this.span.map(x => this.text(x));
    return { cross, figures, spot, element: element("div", { class: "chart" }, element("div", { class: "label" },
      element("b", {}, chart.label), ` up\u00a0to\u00a0${chart.texts.flat()[all.indexOf(most)].replace(" ", "\u00a0")}${log ? `, by${unit}; both by powers of ten` : ""}`),
    figures, drawing, element("div", { class: "v-axis" }, ...ticks.map(x => element("span", {}, x)))) };
  }

  nearest(share) {
    const far = x => Math.abs(this.share(x) - share);
    return this.steps.reduce((a, b) => far(b) < far(a) ? b : a);
  }

  get now() { return this.x ?? this.stood ?? this.span[1]; }

  point(x, chart = this.chart) { Object.assign(this, { x, chart }); this.cross(); }

  mark(x) { this.stood = x; if (this.part) this.cross(); }

  stay(x) { this.mark(x); this.view.send({ at: [this.name, x] }); }

  /** Draw the line where one is, and tell the figures there: of each course, its last ones before. */
  cross() {
    const { courses, charts } = this.part, { now } = this, x = 100 * this.share(now);
    if (!charts.length) return;
    const at = courses.map(each => Math.max(placeAbove(each.xs, now) - 1, 0));
    this.told.textContent = `at ${this.text(now)}`;
    this.made.forEach(({ cross, figures, spot, element: whole }, of) => {
      const { values, texts } = charts[of], dots = at.map((place, course) => values[course][place] === null ? ""
        : shape("path", { class: `dot p${course % 7}`, d: `M${spot(course, place)}h0.001` }));
      cross.replaceChildren(shape("line", { class: "cross", x1: x, x2: x, y1: 0, y2: 60 }), ...dots);
      figures.replaceChildren(...at.map((place, course) => element("span", {},
        element("i", { class: `part p${course % 7}` }), texts[course][place])));
      whole.classList.toggle("now", of === this.chart);
    });
    const { label, texts } = charts[this.chart];
    const told = at.map((place, course) => `${courses[course].label} ${texts[course][place]}`).join(", ");
    const said = { valuemax: this.steps.length - 1, valuenow: Math.max(placeAbove(this.steps, now) - 1, 0) };
    for (const [name, value] of Object.entries({ ...said, valuetext: `${label} at ${this.text(now)}: ${told}` }))
      this.drawn.setAttribute(`aria-${name}`, value);
  }

  keyed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.steps.length - 1, at = Math.max(placeAbove(this.steps, this.now) - 1, 0);
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -last, End: last }[event.key];
    const turn = { ArrowUp: -1, ArrowDown: 1, Enter: 0 }[event.key];
    if (by === undefined && turn === undefined) return;
    taken(event);
    if (event.key === "Enter") this.stay(this.steps[at]);
    else this.point(this.steps[Math.min(Math.max(at + (by ?? 0), 0), last)],
      Math.min(Math.max(this.chart + (turn ?? 0), 0), this.part.charts.length - 1));
  }
}

const KINDS = { table: Table, strips: Strips, form: Form, lines: Lines };
/** Parts in columns, which tell one another what is chosen; `send` tells whoever answers. */
class View {
  constructor(root, layout, send) {
    this.id = `kst-view-${Math.random().toString(36).slice(2)}`; // each view has a script of its own
    this.send = send; this.parts = new Map(); this.width = 0;
    this.tipped = element("div", { class: "tip", role: "tooltip", hidden: "" });
    this.columns = layout.map(names => element("div", { class: "column" }, ...names.map(name => {
      const slot = element("div", { class: "slot" });
      this.parts.set(name, { slot, kind: null, drawn: null });
      return slot;
    })));
    this.root = element("div", { class: "kst-view", onkeydown: event => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && event.key !== "Tab" && !event.shiftKey)
        event.stopPropagation(); } }, ...this.columns, this.tipped);
    root.append(this.root);
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(this.root);
  }

  put(name, part) {
    const held = this.parts.get(name);
    if (!held || !part?.kind) { held?.slot.replaceChildren(); if (held) held.kind = null; return; }
    if (held.kind !== part.kind) {
      held.drawn = new (KINDS[part.kind] ?? Plain)(this, name);
      held.kind = part.kind;
      held.slot.replaceChildren(held.drawn.element);
    }
    keepingFocus(held.slot, () => held.drawn.put(part));
  }

  mark(name, row) { this.parts.get(name)?.drawn?.mark?.(row); }

  resized() {
    if (Math.abs(this.root.clientWidth - this.width) < 1) return;
    this.width = this.root.clientWidth;
    for (const { drawn } of this.parts.values()) drawn?.resized?.();
  }

  tip(event, lines) {
    const box = this.root.getBoundingClientRect(), { tipped } = this;
    tipped.replaceChildren(...lines.map(line => element("div", {}, line)));
    tipped.hidden = false;
    const left = event.clientX - box.left + 14;
    tipped.style.left = `${Math.max(Math.min(left, box.width - tipped.offsetWidth - 4), 4)}px`;
    tipped.style.top = `${event.clientY - box.top + 16}px`;
  }

  untip() { this.tipped.hidden = true; }

  close() { this.watch.disconnect(); this.root.remove(); }
}
