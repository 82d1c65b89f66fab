// Builds the unit tests for `node --test`: the rules in plain TypeScript, without a browser.
import { readdirSync } from 'node:fs';
import { defineConfig } from 'vite';

const tests = readdirSync('src/unit').filter((name) => name.endsWith('.test.ts'));

export default defineConfig({
  build: {
    ssr: true,
    outDir: 'unit-dist',
    rollupOptions: {
      input: Object.fromEntries(tests.map((name) => [name.replace('.ts', ''), `src/unit/${name}`])),
      output: { entryFileNames: '[name].mjs', chunkFileNames: 'shared/[name].mjs' },
    },
  },
});
