// Runs before each command, in JavaScript that an older Node knows, too: a command would end
// with a stack trace.
const { engines } = require('../../package.json');

const rank = (version) =>
  version
    .split('.')
    .map(Number)
    .reduce((sum, part) => sum * 1000 + part, 0);

const needed = /\d+\.\d+\.\d+/.exec(engines.node)[0];
const running = process.version.slice(1);
if (rank(running) < rank(needed)) {
  console.error(`Node ${running} is too old: ${needed} or later is needed.`);
  process.exit(1);
}
if (!require('node:fs').existsSync(`${__dirname}/../../dist`)) {
  console.error('The programs are not built: run npm run build, or npm ci.');
  process.exit(1);
}
