// Runs before each command, in JavaScript that an older Node knows, too: a command would end
// with a stack trace.
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
if (!isSupported) {
  const names = supported.map(({ isOpen, parts }) =>
    isOpen ? `${parts[0]} or later` : `${parts[0]} (${parts.join('.')} or later)`,
  );
  console.error(`Node ${running} is not supported. Use Node ${names.join(', ')}.`);
  process.exit(1);
}
if (!require('node:fs').existsSync(`${__dirname}/../../dist`)) {
  console.error('The programs are not built: run npm run build, or npm ci.');
  process.exit(1);
}
