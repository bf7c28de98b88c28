import { AsyncLocalStorage } from 'node:async_hooks';
import fs from 'node:fs';
import files from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { basename, dirname } from 'node:path';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import type { Builder, Compacted } from '../../../sync/builds/builder.ts';
import type { WorkerStore } from '../../../sync/commands/stores.ts';
import type { Prepared, Store } from '../../../sync/tick/store.ts';
import { followInSmallSteps } from '../small-steps.ts';
import type { Activity, Step } from './failpoints.ts';

// A worker that kills itself at a step of an activity: `worker.ts <activity> <step>`.
const [activity, step] = process.argv.slice(2) as [Activity, Step];

/** What a build does. Builds run beside each other, and beside ticks. */
const building = new AsyncLocalStorage<Activity>();
/** What appends batches. */
let appending: Activity | null = null;
let hasPublished = false;
let hasExceptions = false;

const current = (): Activity => building.getStore() ?? (hasExceptions ? 'join' : 'tick');

function reach(reached: Step, by = current()): void {
  if (by !== activity || reached !== step) return;
  process.kill(process.pid, 'SIGKILL');
  // The signal arrives asynchronously: nothing may follow the step.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

function watchTokens(database: Database): void {
  const query = database.query.bind(database) as (...args: unknown[]) => Promise<unknown>;
  const watched = async (...args: unknown[]) => {
    const { text = '' } = args[0] as { text?: string };
    const isToken = text.includes('insert into purchase_changes') && hasPublished;
    // The tokens of builds are no steps.
    const isOfTick = isToken && building.getStore() === undefined;
    if (isOfTick) reach('after the snapshot is read');
    const result = await query(...args);
    if (isOfTick) reach('after the token is committed');
    return result;
  };
  Object.assign(database, { query: watched });
}

function watchFiles(): void {
  const { renameSync, rmSync, writeSync } = fs;
  const { link, rename } = files;
  const writeHalf = (...args: Parameters<typeof writeSync>) => {
    const [descriptor, content, offset, length, position] = args as unknown as [
      number,
      Buffer,
      number,
      number,
      number,
    ];
    const isHere = step === 'in the middle of an append' && appending === activity;
    if (isHere) writeSync(descriptor, content, offset, Math.floor(length / 2), position);
    if (isHere) reach(step, appending as Activity);
    const written = writeSync(descriptor, content, offset, length, position);
    if (appending !== null && toAppend > 1) {
      reach('after the first of several appends', appending);
    }
    return written;
  };
  const nameOf = (path: fs.PathLike) => basename(String(path));
  Object.assign(fs, {
    writeSync: writeHalf,
    renameSync(from: fs.PathLike, to: fs.PathLike) {
      const isTick = basename(dirname(String(to))) === 'ticks' && appended !== null;
      if (isTick) reach('before the tick is published', appended as Activity);
      const isDelta = nameOf(to).startsWith('delta-');
      if (isDelta) reach('before the delta is named');
      renameSync(from, to);
      if (isDelta) reach('after the delta is named');
    },
    rmSync(path: fs.PathLike, options?: fs.RmOptions) {
      const isOld = /^(base|log)-[0-9a-f]+\./.test(nameOf(path));
      if (isOld) reach('before old files are removed');
      rmSync(path, options);
      if (isOld) reach('after an old file is removed');
    },
  });
  Object.assign(files, {
    async link(from: fs.PathLike, to: fs.PathLike) {
      const isBase = nameOf(to).startsWith('base-');
      if (isBase) reach('before the base is named');
      await link(from, to);
      if (isBase) reach('after the base is named');
    },
    async rename(from: fs.PathLike, to: fs.PathLike) {
      const kind = nameOf(to) === 'CURRENT' ? 'CURRENT' : nameOf(to).startsWith('base-') && 'base';
      if (kind === 'CURRENT') reach('before CURRENT is replaced');
      if (kind === 'base') reach('before the base is named');
      await rename(from, to);
      if (kind === 'CURRENT') reach('after CURRENT is replaced');
      if (kind === 'base') reach('after the base is named');
    },
  });
  syncBuiltinESMExports();
}

let toAppend = 0;
/** What has appended batches of the next tick. */
let appended: Activity | null = null;

const watchStore = (store: Store): Store => ({
  ...store,
  async append(tick, changes) {
    toAppend = changes.size;
    appending = hasExceptions ? 'join' : 'tick';
    appended = toAppend === 0 ? null : appending;
    const failures = await store.append(tick, changes);
    if (toAppend > 0) reach('after all appends', appending);
    appending = null;
    return failures;
  },
  async publish(content) {
    await store.publish(content);
    hasPublished = true;
    if (appended !== null) reach('after the tick is published', appended);
    appended = null;
    hasExceptions = Object.keys(content.exceptions).length > 0;
  },
});

function watchBuilder(builder: Builder): Builder {
  const build = <Result>(kind: Activity, work: () => Promise<Result>): Promise<Result> =>
    building.run(kind, async () => {
      const result = await work();
      reach('after the new files are written');
      return result;
    });
  const publishing = <Result extends Prepared | Compacted>(
    kind: Activity,
    result: Result,
  ): Result => ({
    ...result,
    publish: (...args) => building.run(kind, () => result.publish(...args)),
  });
  return {
    ...builder,
    async load(...args) {
      const loaded = await build('load', () => builder.load(...args));
      return loaded.map((each) => publishing('load', each));
    },
    catchUp: async (...args) =>
      publishing('catch up', await build('catch up', () => builder.catchUp(...args))),
    compact: async (...args) =>
      publishing('compaction', await build('compaction', () => builder.compact(...args))),
    saveDelta: (...args) => building.run('save', async () => builder.saveDelta?.(...args)),
  };
}

watchFiles();
await followInSmallSteps((opened: WorkerStore, { database }) => {
  watchTokens(database);
  return { ...opened, store: watchStore(opened.store), builder: watchBuilder(opened.builder) };
});
