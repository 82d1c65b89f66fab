// Whether a page that complains would be noticed: each kind of complaint is made on purpose.
import assert from 'node:assert/strict';
import { checkAccessibility } from './axe.mjs';
import { onEachStore } from './stores.mjs';

/** What a page does, and what is to be noticed of it. */
const COMPLAINTS = [
  [() => console.error('something is wrong'), /^console: something is wrong/],
  [() => setTimeout(() => Promise.reject(new Error('nobody cares'))), /^error: .*nobody cares/],
  [() => setTimeout(() => document.body.setAttribute('style', 'color: red')), /^against the CSP: style-src/],
  [
    () => document.body.append(Object.assign(document.createElement('script'), { text: '1' })),
    /^against the CSP: script-src/,
  ],
  [() => fetch('assets/nothing.js'), /^404 GET .*\/assets\/nothing\.js$/],
  [() => fetch('http://127.0.0.2:1/').catch(() => {}), /^against the CSP: connect-src/],
];

onEachStore(
  'watching',
  (test) => {
    test('c12_whatever_a_page_complains_about_is_noticed', async ({ page, watch }) => {
      await page.logIn();
      watch.check();
      for (const [act, told] of COMPLAINTS) {
        await page.evaluate(act);
        await watch.heard(told);
      }
      assert.throws(() => watch.check(), /the page complains/);
      watch.expect(/./);
      watch.check();
    });

    test('b10_a_page_that_is_hard_to_use_is_noticed', async ({ page }) => {
      await page.logIn();
      await page.evaluate(() => document.body.append(document.createElement('input')));
      await assert.rejects(checkAccessibility(page, { themes: ['light'] }), /critical label/);
    });
  },
  { stores: ['sqlite'] },
);
