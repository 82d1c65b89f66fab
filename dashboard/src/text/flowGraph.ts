// Draws a graph of steps: layers by the longest way to each step, few crossings, and lines that pass between the boxes.

export interface GraphStep {
  name: string;
  after: readonly string[];
}

export interface Box {
  name: string;
  x: number;
  y: number;
}

export interface Edge {
  from: string;
  to: string;
  /** An SVG path. */
  line: string;
}

export interface Drawing {
  width: number;
  height: number;
  boxes: Box[];
  edges: Edge[];
}

export interface Measures {
  width: number;
  height: number;
  /** Between layers, and between the boxes of a layer. */
  between: number;
  beside: number;
  /** Where the flow goes. */
  direction: 'right' | 'down';
}

/** A place in a layer: a step, or where a long edge passes. */
interface Place {
  name: string | null;
  /** Places of the layer before that lead here. */
  before: Place[];
  after: Place[];
  layer: number;
  order: number;
}

/** The layer of every step: one more than the latest of those it comes after. Unknown names count for nothing. */
export function layers(steps: readonly GraphStep[]): Map<string, number> {
  const byName = new Map(steps.map((step) => [step.name, step]));
  const found = new Map<string, number>();
  const visiting = new Set<string>();
  const visit = (name: string): number => {
    const known = found.get(name);
    if (known !== undefined) return known;
    const step = byName.get(name);
    // The server refuses cycles; a drawing must not hang on one all the same.
    if (!step || visiting.has(name)) return -1;
    visiting.add(name);
    const layer = Math.max(-1, ...step.after.map(visit)) + 1;
    visiting.delete(name);
    found.set(name, layer);
    return layer;
  };
  steps.forEach((step) => visit(step.name));
  return found;
}

/** The places of every layer, with those that long edges pass through. */
function places(steps: readonly GraphStep[]): { rows: Place[][]; ways: Place[][] } {
  const layerOf = layers(steps);
  const rows: Place[][] = [];
  const put = (name: string | null, layer: number): Place => {
    const row = (rows[layer] ??= []);
    const place: Place = { name, before: [], after: [], layer, order: row.length };
    row.push(place);
    return place;
  };
  const ordered = [...steps].sort((a, b) => (layerOf.get(a.name) ?? 0) - (layerOf.get(b.name) ?? 0));
  const byName = new Map(ordered.map((step) => [step.name, put(step.name, layerOf.get(step.name) ?? 0)]));
  const ways = ordered.flatMap((step) =>
    step.after.flatMap((name) => {
      const from = byName.get(name);
      const to = byName.get(step.name);
      return from && to && from.layer < to.layer ? [way(from, to, put)] : [];
    }),
  );
  return { rows, ways };
}

function way(from: Place, to: Place, put: (name: null, layer: number) => Place): Place[] {
  const passed = [from];
  for (let layer = from.layer + 1; layer < to.layer; layer += 1) passed.push(put(null, layer));
  passed.push(to);
  passed.slice(1).forEach((place, at) => {
    const previous = passed[at] as Place;
    previous.after.push(place);
    place.before.push(previous);
  });
  return passed;
}

function sortBy(row: Place[], neighbours: (place: Place) => Place[]): void {
  const weight = (place: Place) => {
    const beside = neighbours(place);
    return beside.length === 0 ? place.order : beside.reduce((sum, other) => sum + other.order, 0) / beside.length;
  };
  const weighed = row.map((place) => [place, weight(place)] as const);
  weighed.sort(([a, x], [b, y]) => x - y || a.order - b.order);
  weighed.forEach(([place], order) => {
    place.order = order;
    row[order] = place;
  });
}

/** How many pairs of lines cross between neighbouring layers. */
function crossings(rows: Place[][]): number {
  let found = 0;
  for (const row of rows) {
    const lines = row.flatMap((place) => place.after.map((next) => [place.order, next.order] as const));
    lines.forEach(([from, to], at) => {
      for (const [otherFrom, otherTo] of lines.slice(at + 1)) {
        if ((from - otherFrom) * (to - otherTo) < 0) found += 1;
      }
    });
  }
  return found;
}

/** Places each layer by the middle of its neighbours, down and up, and keeps the best order that was seen. */
function untangle(rows: Place[][]): void {
  let best = crossings(rows);
  let kept = rows.map((row) => [...row]);
  for (let turn = 0; turn < 8 && best > 0; turn += 1) {
    if (turn % 2 === 0) rows.forEach((row) => sortBy(row, (place) => place.before));
    else [...rows].reverse().forEach((row) => sortBy(row, (place) => place.after));
    const now = crossings(rows);
    if (now < best) {
      best = now;
      kept = rows.map((row) => [...row]);
    }
  }
  kept.forEach((row, layer) => {
    row.forEach((place, order) => (place.order = order));
    rows[layer] = row;
  });
}

/** Where everything is. */
export function draw(steps: readonly GraphStep[], measures: Measures): Drawing {
  const { rows, ways } = places(steps);
  untangle(rows);
  const isRight = measures.direction === 'right';
  const along = isRight ? measures.width : measures.height;
  const across = isRight ? measures.height : measures.width;
  const widest = Math.max(0, ...rows.map((row) => row.length));
  const room = Math.max(0, widest * (across + measures.beside) - measures.beside);
  const corner = (place: Place) => {
    const count = rows[place.layer]?.length ?? 1;
    const begin = (room - (count * (across + measures.beside) - measures.beside)) / 2;
    return { a: place.layer * (along + measures.between), c: begin + place.order * (across + measures.beside) };
  };
  const point = (a: number, c: number) => (isRight ? `${a} ${c}` : `${c} ${a}`);
  const line = (passed: Place[]) => curve(passed, corner, { along, across, between: measures.between }, point);
  const boxes = rows.flat().flatMap((place) => {
    const { a, c } = corner(place);
    return place.name === null ? [] : [{ name: place.name, x: isRight ? a : c, y: isRight ? c : a }];
  });
  const edges = ways.map((passed) => ({
    from: passed[0]?.name ?? '',
    to: passed.at(-1)?.name ?? '',
    line: line(passed),
  }));
  const length = Math.max(0, rows.length * (along + measures.between) - measures.between);
  return { width: isRight ? length : room, height: isRight ? room : length, boxes, edges };
}

function curve(
  passed: Place[],
  corner: (place: Place) => { a: number; c: number },
  size: { along: number; across: number; between: number },
  point: (a: number, c: number) => string,
): string {
  const [first, ...rest] = passed;
  if (!first) return '';
  let { a, c } = corner(first);
  a += size.along;
  c += size.across / 2;
  let text = `M ${point(a, c)}`;
  for (const place of rest) {
    const next = corner(place);
    const middle = next.c + size.across / 2;
    const bend = size.between / 2;
    text += ` C ${point(a + bend, c)}, ${point(next.a - bend, middle)}, ${point(next.a, middle)}`;
    a = next.a;
    c = middle;
    // What only passes a layer goes straight through it.
    if (place.name === null) {
      a += size.along;
      text += ` L ${point(a, c)}`;
    }
  }
  return text;
}

/** The steps of a flow with what each comes after: a sequential flow is one chain. */
export function stepsInOrder<T extends { name: string; after?: readonly string[] | null | undefined }>(
  steps: readonly T[],
  order: string | null | undefined,
): { step: T; after: readonly string[] }[] {
  return steps.map((step, at) => {
    const previous = steps[at - 1];
    if (order !== 'sequential') return { step, after: step.after ?? [] };
    return { step, after: previous ? [previous.name] : [] };
  });
}
