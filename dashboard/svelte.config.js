// How Svelte compiles: runes everywhere, and nothing else to be set.
export default { compilerOptions: { runes: true } };
