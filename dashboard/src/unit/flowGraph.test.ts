// The drawing of a flow: layers, crossings, and that nothing lies on something else.
import assert from 'node:assert/strict';
import test from 'node:test';
import { draw, layers, stepsInOrder } from '../text/flowGraph';

const SIZES = { width: 100, height: 40, between: 30, beside: 10, direction: 'right' as const };
const step = (name: string, ...after: string[]) => ({ name, after });

test('a step is one layer behind the latest of those it comes after', () => {
  const found = layers([step('a'), step('b', 'a'), step('c', 'a', 'b'), step('d')]);
  assert.deepEqual(Object.fromEntries(found), { a: 0, b: 1, c: 2, d: 0 });
});

test('a cycle and an unknown name do not hang it', () => {
  assert.equal(layers([step('a', 'b'), step('b', 'a'), step('c', 'nobody')]).size, 3);
});

test('boxes do not overlap and lie within the drawing', () => {
  const steps = Array.from({ length: 60 }, (_, at) =>
    step(`s${at}`, ...[at - 1, at - 7, at - 13].filter((of) => of >= 0 && at % 5 !== 0).map((of) => `s${of}`)),
  );
  for (const direction of ['right', 'down'] as const) {
    const drawing = draw(steps, { ...SIZES, direction });
    assert.equal(drawing.boxes.length, 60);
    for (const a of drawing.boxes) {
      assert.ok(a.x >= 0 && a.y >= 0 && a.x + 100 <= drawing.width && a.y + 40 <= drawing.height);
      for (const b of drawing.boxes) {
        const apart = a === b || Math.abs(a.x - b.x) >= 100 || Math.abs(a.y - b.y) >= 40;
        assert.ok(apart, `${a.name} and ${b.name} overlap`);
      }
    }
  }
});

test('two pairs that would cross are put beside each other', () => {
  // As they are written, a→d and b→c cross.
  const drawing = draw([step('a'), step('b'), step('c', 'b'), step('d', 'a')], SIZES);
  const y = (name: string) => drawing.boxes.find((box) => box.name === name)?.y ?? -1;
  assert.equal(y('a') < y('b'), y('d') < y('c'));
});

test('a long edge passes beside the boxes of the layers between', () => {
  const drawing = draw([step('a'), step('b', 'a'), step('c', 'a', 'b')], SIZES);
  const edge = drawing.edges.find(({ from, to }) => from === 'a' && to === 'c');
  const box = drawing.boxes.find(({ name }) => name === 'b');
  const straight = /L (\d+(?:\.\d+)?) (\d+(?:\.\d+)?)/.exec(edge?.line ?? '');
  assert.ok(straight && box, 'it goes straight through the layer of b');
  const passes = Number(straight[2]);
  assert.ok(passes < box.y || passes > box.y + 40, 'and not through b');
});

test('a sequential flow is a chain', () => {
  const found = stepsInOrder([{ name: 'a' }, { name: 'b' }, { name: 'c' }], 'sequential');
  assert.deepEqual(
    found.map(({ after }) => after),
    [[], ['a'], ['b']],
  );
});
