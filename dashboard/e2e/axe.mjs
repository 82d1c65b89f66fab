// Accessibility by axe-core: WCAG 2.2 AA, in the light theme and in the dark one.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
const GRAVE = ['serious', 'critical'];

let source;

async function axeSource() {
  source ??= await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  return source;
}

/** Fails when the page, as it stands, has a serious violation in either theme. */
export async function checkAccessibility(page, { themes = ['light', 'dark'] } = {}) {
  const found = [];
  for (const colorScheme of themes) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    // Evaluated and not added as a script, which the page's policy would refuse.
    await page.evaluate(await axeSource());
    const violations = await page.evaluate(async (values) => {
      const result = await window.axe.run(document, { runOnly: { type: 'tag', values }, resultTypes: ['violations'] });
      return result.violations;
    }, TAGS);
    for (const { id, impact, help, nodes } of violations.filter((violation) => GRAVE.includes(violation.impact))) {
      const places = nodes.slice(0, 5).map((node) => `${node.target.join(' ')}: ${node.failureSummary}`);
      found.push(`${colorScheme}: ${impact} ${id}, ${help}\n    ${places.join('\n    ')}`);
    }
  }
  if (found.length > 0) throw new Error(`${page.url()} is hard to use for some:\n  ${found.join('\n  ')}`);
}
