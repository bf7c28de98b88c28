import { execFile } from 'node:child_process';
import { chmod, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { childrenOf } from './support/processes.ts';
import { type Program, runProgram } from './support/program.ts';
import { temporaryDirectory } from './support/temporary-directory.ts';

const run = promisify(execFile);

const suites = [
  ...['engines', 'micro', 'writes', 'growth', 'time-zones', 'http', 'lists', 'load', 'freshness'],
  ...['memory', 'changes', 'organizations', 'steps', 'export', 'reports', 'mapping'],
];

const it = test
  // Shared by all tests, because it contains compiled sources.
  .extend(
    'directory',
    { scope: 'file' },
    // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
    async ({}, { onCleanup }) => {
      const { path, remove } = await temporaryDirectory();
      onCleanup(remove);
      // If root runs the test, Postgres runs as another user.
      await chmod(path, 0o755);
      return path;
    },
  )
  .extend('bench', ({ directory }, { onCleanup }) => {
    let running: Program | undefined;
    onCleanup(async () => {
      if (running?.child.exitCode === null) await running.end('SIGINT');
    });
    return (...args: string[]) => {
      running = runProgram('bench/main.ts', args, { TMPDIR: directory });
      return running;
    };
  })
  /** Files and processes of benchmarks. */
  .extend('remains', ({ directory }) => async () => {
    const names = await readdir(directory);
    const { stdout } = await run('ps', ['-eo', 'pid=,args=']);
    return [
      ...names.filter((name) => name.startsWith('crm-data-service')),
      ...stdout.split('\n').filter((line) => line.includes(directory)),
    ];
  });

const nodeChildrenOf = ({ child }: Program) =>
  childrenOf(child.pid, new RegExp(`^${process.execPath}`));

describe('npm run bench', () => {
  it('prints the results of each suite with the command that reproduces them', {
    tags: ['slow'],
  }, async ({ directory, bench, remains }) => {
    const json = join(directory, 'figures.json');
    const sizes = [
      '--purchases',
      '1000',
      '--customers',
      '1000',
      '--purchases-per-organization',
      '100',
    ];
    const program = bench(
      ...suites.flatMap((name) => ['--suite', name]),
      ...[...sizes, '--organizations', '2', '--changes-per-second', '50', '--rounds', '1'],
      ...['--seconds', '0.3', '--json', json],
    );
    const code = await program.exited();
    // The end of the output has the reason.
    expect(code, program.output().slice(-3000)).toBe(0);
    for (const name of suites) {
      expect(program.output()).toMatch(
        new RegExp(`^Made by: npm run bench -- --suite ${name} --`, 'm'),
      );
    }
    const figures = JSON.parse(await readFile(json, 'utf8'));
    expect(Object.keys(figures.suites)).toEqual(suites);
    expect(figures).toMatchObject({
      commit: expect.toSatisfy((commit) => commit === null || /^[0-9a-f]{40}$/.test(commit)),
      machine: { cores: expect.any(Number), processor: expect.stringMatching(/./) },
      versions: { node: process.version, duckdb: expect.stringMatching(/^v\d/) },
      suites: { micro: { options: { seed: 42 } } },
    });
    expect(await remains()).toEqual([]);
  });

  it('removes its files and ends its processes after SIGINT', { tags: ['slow'] }, async ({
    bench,
    remains,
  }) => {
    const sizes = ['--organizations', '1', '--purchases-per-organization', '100'];
    const program = bench('--suite', 'memory', '--seconds', '3600', ...sizes);
    await program.printed(/Sampling/);
    const children = nodeChildrenOf(program);
    expect(children).toHaveLength(2);
    expect(await program.end('SIGINT')).toBe(130);
    for (const pid of children) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    expect(await remains()).toEqual([]);
  });

  it('fails, and removes its files and processes, if one of its programs fails', {
    tags: ['slow'],
  }, async ({ bench, remains }) => {
    const program = bench('--suite', 'engines', '--purchases', '1000000');
    await program.printed(/Seeding/);
    let seeding = nodeChildrenOf(program);
    while (seeding.length === 0) {
      await sleep(20);
      seeding = nodeChildrenOf(program);
    }
    for (const pid of seeding) process.kill(pid, 'SIGKILL');
    expect(await program.exited()).toBe(1);
    expect(program.output()).toContain('src/commands/seed.ts');
    expect(await remains()).toEqual([]);
  });

  it('lists the suites if a suite does not exist', { tags: ['slow'] }, async ({ bench }) => {
    const program = bench('--suite', 'guesses');
    expect(await program.exited()).toBe(2);
    expect(program.output()).toContain(
      'engines, growth, time-zones, http, micro, steps, shortcuts, lists, questions, live, reports, pages, load, freshness, writes, mapping, memory, changes, organizations, opening, noisy-neighbor, export, all-engines, peers',
    );
  });
});
