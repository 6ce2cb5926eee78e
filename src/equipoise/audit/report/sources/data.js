// The findings: the summary, and the blocks of the items, unzipped and read when needed.

const TYPES = {
  f4: Float32Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array,
  i2: Int16Array, i4: Int32Array,
};

/** The bytes behind base64 of gzip in the element with this id. */
export async function unzipped(id) {
  const element = document.getElementById(id);
  const coded = atob(element.textContent);
  element.remove(); // a few megabytes that are not read again
  const bytes = new Uint8Array(coded.length);
  for (let at = 0; at < coded.length; at += 1) bytes[at] = coded.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function block(buffer, index, name) {
  const [start, type, count] = index[name];
  if (type === "json") {
    return JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, start, count)));
  }
  return new TYPES[type](buffer, start, count);
}

/** Undo quantize() of encoding.py: sum up the differences of the rows, then scale. */
function restored(codes, [low, high, levels, power], width) {
  for (let at = width; at < codes.length; at += 1) codes[at] += codes[at - width];
  const values = new Float32Array(codes.length);
  for (let at = 0; at < codes.length; at += 1) {
    const share = codes[at] / levels;
    const risen = power === 2 ? share * share : share;
    values[at] = codes[at] > levels ? NaN : low + (high - low) * risen;
  }
  return values;
}

/** One variant; the numbers of its items are read when they are first needed. */
function variantOf(fields, place, buffer, index, width) {
  const read = new Map();
  const once = (name, make) => {
    if (!read.has(name)) read.set(name, make());
    return read.get(name);
  };
  const raw = (measure) => block(buffer, index, `${place}.${measure}`);
  const whole = (measure) => once(measure,
    () => restored(raw(measure), fields.scales[measure], width));
  return {
    ...fields,
    toHalfByItem: () => once("to_half", () => raw("to_half")), // Infinity: never, NaN: not measured
    aucByItem: () => whole("item_auc"),
    /** Self-reconstruction or error of every item at the size in this place. */
    byItem: (measure, at) => whole(measure).subarray(at * width, (at + 1) * width),
    /** The item's curve over the sizes. */
    curve: (measure, item) => fields.sizes.map((_, at) => whole(measure)[at * width + item]),
    neighborsOf: (item) => {
      const all = once("neighbors", () => raw("neighbors"));
      const listed = all.subarray(item * fields.neighbors, (item + 1) * fields.neighbors);
      return Array.from(listed).filter((position) => position >= 0);
    },
  };
}

/** Everything that the page shows. */
export async function load() {
  const summary = JSON.parse(document.getElementById("summary").textContent);
  const buffer = await unzipped("blocks");
  const read = (name) => block(buffer, summary.blocks, name);
  const ids = read("ids");
  const names = read("names").map((name, at) => name.trim() || ids[at].trim() || "(no name)");
  const items = { ids, names, popularity: read("popularity"), users: read("users"),
    group: read("group"), count: ids.length };
  const variants = summary.variants.map((fields, place) =>
    variantOf(fields, place, buffer, summary.blocks, items.count));
  const groups = summary.groups.map((section, at) => ({ ...section, members: section.members
    ? { starts: read(`groups.${at}.starts`), of: read(`groups.${at}.of`) } : null }));
  return { ...summary, items, variants, groups };
}
