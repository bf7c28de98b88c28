#!/usr/bin/env node
// JavaScript that an older Node knows, too: the compiled programs would end with a stack trace.
const { existsSync } = require('node:fs');
const { join } = require('node:path');
const { engines } = require('../../package.json');

// Each is like `^20.20.2`, any later version of the same major version, or like `>=24`.
const supported = engines.node.split(' || ').map((range) => ({
  isOpen: range.startsWith('>='),
  parts: range.replace(/^\D+/, '').split('.').map(Number),
}));
const running = process.version.slice(1);
const [major, minor, patch] = running.split('.').map(Number);

const isSupported = supported.some(({ isOpen, parts: [needed, minMinor = 0, minPatch = 0] }) =>
  major === needed
    ? minor > minMinor || (minor === minMinor && patch >= minPatch)
    : isOpen && major > needed,
);
const program = join(__dirname, '../../dist/src/commands/main.js');
if (!isSupported) {
  const names = supported.map(({ isOpen, parts }) =>
    isOpen ? `${parts[0]} or later` : `${parts[0]} (${parts.join('.')} or later)`,
  );
  fail(`Node ${running} is not supported. Use Node ${names.join(', ')}.`);
} else if (!existsSync(program)) {
  fail('The programs are not built: run npm run build, or npm ci.');
} else {
  import(require('node:url').pathToFileURL(program).href);
}

function fail(message) {
  console.error(message);
  process.exitCode = 1;
}
