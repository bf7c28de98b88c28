// Runs before each command, in plain JavaScript: an older Node knows neither `--import`
// nor what the commands import, and would end with a stack trace.
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
