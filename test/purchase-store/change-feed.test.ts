import {
  appendFileSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { NoChangeFeedError, UnknownFeedPositionError } from '../../src/domain/purchase-changes.ts';
import { takeDamageReports } from '../../src/purchase-store/damage/damage-reports.ts';
import { currentFile, organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { encodeBatch } from '../../src/purchase-store/format/log.ts';
import { createTestChangeFeed } from '../support/engines.ts';
import { test as base } from '../support/fixtures.ts';
import { deleteLine, purchaseRow, recordsOf, upsertLine } from '../support/log-lines.ts';
import { publishFiles, publishTestTick } from '../support/store-files.ts';

const shop = 1n;
const source = '1 one';
const published = { source: 'one', fingerprint: '1 table triggers' };

/** The change feed of a log with one record, and the errors that it reports. */
const test = base.extend('opened', ({ newDirectory }, { onCleanup }) => {
  const errors: unknown[] = [];
  const feed = createTestChangeFeed(newDirectory, (_id, error) => errors.push(error));
  onCleanup(() => feed.close());
  const log = publishFiles(newDirectory, shop, recordsOf([deleteLine(1n)]), published);
  publishTestTick(newDirectory, 1);
  return { feed, log, errors };
});

/** The end of the log that a tick states. */
const logEndsOf = (path: string) => ({ logEnds: { [String(shop)]: statSync(path).size } });

const damages = {
  damaged(path: string) {
    const content = readFileSync(path);
    content.writeUInt8(content.readUInt8(content.length - 20) ^ 1, content.length - 20);
    writeFileSync(path, content);
  },
  missing: (path: string) => rmSync(path),
  shortened: (path: string) => truncateSync(path, readFileSync(path).lastIndexOf('\nt\t') + 1),
} as const;

test.for(['damaged', 'missing', 'shortened'] as const)(
  'a %s log has no changes, and is reported once',
  async (damage, { newDirectory, opened: { feed, log, errors } }) => {
    const { next: after } = await feed.read(shop, source, { after: null, limit: 10 });
    log.append(recordsOf([deleteLine(2n)]), 2);
    const logEnds = logEndsOf(log.path);
    damages[damage](log.path);
    publishTestTick(newDirectory, 2, logEnds);
    const read = () => feed.read(shop, source, { after, limit: 10 }).catch((error) => error);
    while (!((await read()) instanceof UnknownFeedPositionError)) await sleep(5);
    expect(await read()).toBeInstanceOf(UnknownFeedPositionError);
    const reading = feed.read(shop, source, { after: null, limit: 10 });
    await expect(reading).rejects.toBeInstanceOf(NoChangeFeedError);
    expect(errors).toHaveLength(1);
    expect(takeDamageReports(newDirectory, () => true)).toEqual(new Map([[shop, log.name]]));
  },
);

test('a CURRENT that cannot be read has no changes, and is reported once', async ({
  newDirectory,
  opened: { feed, errors },
}) => {
  writeFileSync(currentFile(organizationDirectory(newDirectory, shop)), '{"layoutVersion"');
  for (let reads = 0; reads < 2; reads += 1) {
    const reading = feed.read(shop, source, { after: null, limit: 10 });
    await expect(reading).rejects.toBeInstanceOf(NoChangeFeedError);
    await expect(feed.freshness(shop, source)).rejects.toBeInstanceOf(NoChangeFeedError);
  }
  expect(errors).toHaveLength(1);
  expect(takeDamageReports(newDirectory, () => true)).toEqual(new Map([[shop, 'CURRENT']]));
  publishFiles(newDirectory, shop, recordsOf([deleteLine(1n)]), published);
  expect(await feed.read(shop, source, { after: null, limit: 10 })).toMatchObject({ changes: [] });
});

const texts = Array.from({ length: 60 }, (_, index) => `${index} ${'a'.repeat(60_000)}`);
const lines = texts.map((text, index) =>
  upsertLine(purchaseRow({ id: BigInt(index), utm_source: text })),
);

test.for([
  ['several batches', false],
  ['one batch, as an earlier worker wrote it', true],
] as const)(
  'pages of long purchases have all of %s, and few bytes each',
  async ([, isOneBatch], { newDirectory, opened: { feed, log } }) => {
    let { next: after } = await feed.read(shop, source, { after: null, limit: 10 });
    const { lines: content, records } = recordsOf(lines);
    const batch = { tick: 2, records, totalRecords: 1 + records };
    if (isOneBatch) appendFileSync(log.path, encodeBatch(content, batch));
    else log.append({ lines: content, records }, 2);
    publishTestTick(newDirectory, 2);
    const received: (string | null | undefined)[] = [];
    for (let hasMore = true; hasMore; ) {
      const page = await feed.read(shop, source, { after, limit: 1_000 });
      expect(page.changes.length).toBeLessThan(20);
      received.push(...page.changes.map(({ purchase }) => purchase?.utm_source));
      ({ next: after, hasMore } = page);
    }
    expect(received).toEqual(texts);
  },
);

test('a follower has the last state of a purchase that one batch deletes and adds', async ({
  newDirectory,
  opened: { feed, log },
}) => {
  let { next: after } = await feed.read(shop, source, { after: null, limit: 10 });
  const added = [1n, 2n, 3n].map((id) => upsertLine(purchaseRow({ id })));
  log.append(recordsOf([...[1n, 2n, 3n].map(deleteLine), ...added]), 2);
  publishTestTick(newDirectory, 2);
  const isPresent = new Map<bigint, boolean>();
  for (let hasMore = true; hasMore; ) {
    const page = await feed.read(shop, source, { after, limit: 2 });
    for (const { id, purchase } of page.changes) isPresent.set(id, purchase !== null);
    ({ next: after, hasMore } = page);
  }
  expect([...isPresent.values()]).toEqual([true, true, true]);
});
