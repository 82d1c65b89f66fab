// How the dashboard is built: small files with hashed names and relative addresses, so that it works below any path.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// Only `npm run dev` uses this: the server whose API the pages speak to.
const server = process.env.PUNCTUAL_SERVER ?? 'http://127.0.0.1:7878';
const proxied = {
  target: server,
  changeOrigin: true,
  // The server refuses changes that another origin asks for; through this proxy we are another port.
  headers: { origin: server },
};

export default defineConfig({
  base: './',
  plugins: [svelte()],
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false }, reportCompressedSize: false },
  server: { proxy: { '/api': proxied, '/openapi.json': proxied, '/docs': proxied } },
});
