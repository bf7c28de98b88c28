import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { NoChangeFeedError, UnknownPositionError } from '../../src/domain/purchase-changes.ts';
import { createChangeFeed } from '../../src/purchase-store/change-feed.ts';
import { currentFile, organizationDirectory } from '../../src/purchase-store/current.ts';
import { takeDamageReports } from '../../src/purchase-store/damage-reports.ts';
import { test } from '../support/fixtures.ts';
import { deleteLine, recordsOf } from '../support/log-lines.ts';
import { publishFiles, publishTestTick } from '../support/store-files.ts';

const damages = {
  damaged(path: string) {
    const content = readFileSync(path);
    content.writeUInt8(content.readUInt8(content.length - 20) ^ 1, content.length - 20);
    writeFileSync(path, content);
  },
  missing: (path: string) => rmSync(path),
} as const;

const shop = 1n;
const source = '1 one';
const published = { source: 'one', fingerprint: '1 table triggers' };

const it = test
  .extend('errors', () => [] as unknown[])
  .extend('feed', ({ newDirectory, errors }, { onCleanup }) => {
    const onError = (_id: bigint, error: unknown) => errors.push(error);
    const feed = createChangeFeed({ dataDirectory: newDirectory, onError });
    onCleanup(() => feed.close());
    return feed;
  });

it.for(['damaged', 'missing'] as const)(
  'a %s log has no changes, and is reported once',
  async (damage, { newDirectory, errors, feed }) => {
    const log = publishFiles(newDirectory, shop, recordsOf([deleteLine(1n)]), published);
    publishTestTick(newDirectory, 1);
    const { next: after } = await feed.read(shop, source, { after: null, limit: 10 });
    log.append(recordsOf([deleteLine(2n)]), 2);
    damages[damage](log.path);
    publishTestTick(newDirectory, 2);
    const read = () => feed.read(shop, source, { after, limit: 10 }).catch((error) => error);
    while (!((await read()) instanceof UnknownPositionError)) await sleep(5);
    expect(await read()).toBeInstanceOf(UnknownPositionError);
    const reading = feed.read(shop, source, { after: null, limit: 10 });
    await expect(reading).rejects.toBeInstanceOf(NoChangeFeedError);
    expect(errors).toHaveLength(1);
    expect(takeDamageReports(newDirectory, () => true)).toEqual(new Map([[shop, log.name]]));
  },
);

it('a CURRENT that cannot be read has no changes, and is reported once', async ({
  newDirectory,
  errors,
  feed,
}) => {
  publishFiles(newDirectory, shop, recordsOf([deleteLine(1n)]), published);
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
