import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const { version: release } = JSON.parse(readFileSync('package.json', 'utf8')) as {
  version: string;
};
const command = './src/commands/crm-data-service.cjs';

describe('a version of Node', () => {
  const checkedAs = (version: string) => {
    const fake = `Object.defineProperty(process, 'version', { value: '${version}' })`;
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--eval', `${fake}; process.argv = ['node', '', '--version']; require('${command}')`],
      { encoding: 'utf8' },
    );
    return { status, stdout, stderr };
  };

  it.each(['v20.20.1', 'v21.7.3', 'v22.12.0', 'v23.11.1'])(
    'that is not supported is refused in one line: %s',
    (version) => {
      expect(checkedAs(version)).toEqual({
        status: 1,
        stdout: '',
        stderr:
          `Node ${version.slice(1)} is not supported. ` +
          'Use Node 20 (20.20.2 or later), 22 (22.13.0 or later), 24 or later.\n',
      });
    },
  );

  it.each([process.version, 'v20.20.2', 'v22.13.0', 'v24.0.0'])('is accepted: %s', (version) => {
    expect(checkedAs(version)).toEqual({ status: 0, stdout: `${release}\n`, stderr: '' });
  });
});
