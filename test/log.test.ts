import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { mountDisk } from './support/disk.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

describe('a process whose log is on a full disk', () => {
  it('goes on, and goes on telling when there is room', async ({ skip }) => {
    const directory = await temporaryDirectory();
    const disk = await mountDisk(directory.path, 2);
    try {
      if (!disk.canBeFilled) skip();
      await disk.fill(0);
      const program = `
        import { createLog } from './src/log.ts';
        const log = createLog('test', 'info');
        for (let line = 0; line < 2000; line += 1) log.error({ line }, 'x'.repeat(1000));
        console.log('still there');
        process.stdin.once('data', () => {
          // More than was kept.
          log.info('there is room');
          log.info('the end');
          process.exit();
        });`;
      const options = ['--import', 'tsx', '--input-type=module', '--eval', program];
      const file = join(disk.path, 'log');
      const child = spawn(process.execPath, options, {
        stdio: ['pipe', 'pipe', openSync(file, 'a')],
      });
      const [news] = await once(child.stdout as Readable, 'data');
      expect(String(news)).toBe('still there\n');
      await disk.free();
      child.stdin?.write('\n');
      await once(child, 'exit');
      const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
      expect(JSON.parse(lines[0] ?? '').line).toBe(0);
      expect(JSON.parse(lines.at(-1) ?? '').msg).toBe('the end');
    } finally {
      await disk.unmount();
      await directory.remove();
    }
  });
});

describe('a log line with an error of Postgres', () => {
  it('holds its code and its constraint, and neither its detail nor its context', async () => {
    const program = `
      import pg from 'pg';
      import { createLog } from './src/log.ts';
      const error = new pg.DatabaseError('duplicate key value', 0, 'error');
      error.code = '42P01';
      error.constraint = 'purchases_pkey';
      error.detail = 'Key (order_number)=(SECRET-1) already exists.';
      error.where = 'COPY purchases, line 1: SECRET-2';
      createLog('test', 'info').child({}).error({ err: error }, 'failed');`;
    const options = ['--import', 'tsx', '--input-type=module', '--eval', program];
    const child = spawn(process.execPath, options, { stdio: ['ignore', 'ignore', 'pipe'] });
    let line = '';
    (child.stderr as Readable).on('data', (text) => {
      line += text;
    });
    await once(child, 'close');
    const { err } = JSON.parse(line);
    expect(err).toMatchObject({ code: '42P01', constraint: 'purchases_pkey' });
    expect(err.stack).toMatch(/duplicate key value\n {4}at /);
    expect(line).not.toMatch(/SECRET/);
  });
});
