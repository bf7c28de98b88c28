import { closeSync, fstatSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import {
  appendBatches,
  type Batch,
  DamagedLogError,
  emptyLog,
  encodeBatch,
  type LogEnd,
  readBatches,
  readLines,
  recoverLog,
  scanLog,
} from '../../src/purchase-store/format/log.ts';
import { mountDisk } from '../support/disk.ts';
import { test } from '../support/fixtures.ts';
import { deleteLine, purchaseRow, recordsOf, upsertLine } from '../support/log-lines.ts';

type Content = { readonly tick: number; readonly lines: readonly string[] };

const it = test
  .extend('path', ({ newDirectory }) => join(newDirectory, 'log.tsv'))
  /** Writes a log with these batches, and returns its end. */
  .extend('write', ({ path }) => (batches: readonly Content[]): LogEnd => {
    writeFileSync(path, '');
    return batches.reduce(
      (end, { tick, lines }) => appendBatches(path, end, { tick, ...recordsOf(lines) }),
      emptyLog,
    );
  })
  /** The batches of the log, with their lines. */
  .extend('scan', ({ path }) => (published: number, begin = 0) => {
    const descriptor = openSync(path, 'r');
    try {
      const { size } = fstatSync(descriptor);
      return [...scanLog(descriptor, begin, size, published)].map((batch) => ({
        ...batch,
        lines: readLines(descriptor, batch).toString(),
      }));
    } finally {
      closeSync(descriptor);
    }
  });

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom('', '\\N', 'e\t1\t1', '\ne\t2\t0\t4\t0\t1\n', 't\t9\n', '\r\n', '\ufeff'),
);
const line = fc.oneof(
  fc.bigInt({ min: 1n, max: 99n }).map(deleteLine),
  fc
    .record({ id: fc.bigInt({ min: 1n, max: 99n }), order_number: text, utm_source: text })
    .map((values) => upsertLine(purchaseRow(values))),
);
/** Batches of growing ticks. The first one may be of a load, which has no tick. */
const contents: fc.Arbitrary<Content[]> = fc
  .uniqueArray(fc.nat({ max: 30 }), { minLength: 1, maxLength: 6 })
  .chain((ticks) =>
    fc.tuple(
      ...ticks
        .sort((one, other) => one - other)
        .map((tick) =>
          fc.record({ tick: fc.constant(tick), lines: fc.array(line, { maxLength: 4 }) }),
        ),
    ),
  );

const three: readonly Content[] = [
  { tick: 3, lines: [upsertLine(purchaseRow({ id: 1n, utm_source: 'a\tb\nc' })), deleteLine(2n)] },
  { tick: 5, lines: [] },
  { tick: 6, lines: [deleteLine(1n)] },
];

const bytesOf = (batches: readonly Content[]): Buffer => {
  let totalRecords = 0;
  return Buffer.concat(
    batches.map(({ tick, lines }) => {
      const { lines: content, records } = recordsOf(lines);
      totalRecords += records;
      return encodeBatch(content, { tick, records, totalRecords });
    }),
  );
};
const ticksOf = (batches: Iterable<Pick<Batch, 'tick'>>): number[] =>
  [...batches].map(({ tick }) => tick);

describe('the batches of a log', () => {
  it('are read as they were appended, up to the published tick', ({ path, write, scan }) => {
    fc.assert(
      fc.property(contents, fc.nat({ max: 30 }), (batches, published) => {
        const end = write(batches);
        let totalRecords = 0;
        const expected = batches.map(({ tick, lines }) => {
          totalRecords += lines.length;
          return { tick, records: lines.length, totalRecords, lines: lines.join('') };
        });
        const shown = scan(published);
        expect(shown).toMatchObject(expected.filter(({ tick }) => tick <= published));
        for (const [index, { begin }] of shown.entries()) {
          expect(begin).toBe(shown[index - 1]?.end ?? 0);
        }
        expect(end).toEqual({ bytes: statSync(path).size, totalRecords });
        expect(scan(Number.POSITIVE_INFINITY).at(-1)?.end).toBe(end.bytes);
      }),
    );
  });

  it('are read from a place within the log', ({ write, scan }) => {
    write(three);
    const [first, ...others] = scan(6);
    expect(scan(6, first?.end)).toEqual(others);
  });

  it('are read if they are longer than what is read at once', ({ path, scan }) => {
    const long = Array.from({ length: 300 }, (_, index) =>
      upsertLine(purchaseRow({ id: BigInt(index), coupons: 'c'.repeat(64 * 1024) })),
    );
    const batches = [
      { tick: 1, lines: [deleteLine(1n)] },
      { tick: 2, lines: long },
      { tick: 3, lines: [deleteLine(3n)] },
      { tick: 4, lines: long.slice(0, 100) },
      { tick: 7, lines: long },
    ];
    writeFileSync(path, bytesOf(batches));
    expect(statSync(path).size).toBeGreaterThan(40 * 2 ** 20);
    for (const published of [1, 4, 7]) {
      const shown = scan(published);
      const expected = batches.filter(({ tick }) => tick <= published);
      expect(ticksOf(shown)).toEqual(ticksOf(expected));
      expect(shown.every(({ lines }, at) => lines === expected[at]?.lines.join(''))).toBe(true);
    }
  });
});

describe('many records of a tick', () => {
  const maxBytes = 64 * 2 ** 10;
  const withText = (length: number) => (_: unknown, index: number) =>
    upsertLine(purchaseRow({ id: BigInt(index), utm_source: 'a'.repeat(length) }));

  it.for([
    ['short', Array.from({ length: 20_000 }, (_, index) => deleteLine(BigInt(index)))],
    ['of some length', Array.from({ length: 2_000 }, withText(300))],
    ['longer than a batch', [deleteLine(1n), ...Array.from({ length: 3 }, withText(maxBytes))]],
  ] as const)(
    'become several small batches if they are %s, which one tick publishes',
    ([, lines], { path, write, scan }) => {
      const before = write([{ tick: 1, lines: [deleteLine(1n)] }]);
      const end = appendBatches(path, before, { tick: 2, ...recordsOf(lines) });
      expect(scan(1).at(-1)?.end).toBe(before.bytes);
      const batches = scan(2).slice(1);
      expect(batches.length).toBeGreaterThan(2);
      for (const { tick, records, lines: content } of batches) {
        expect(tick).toBe(2);
        expect(content.length <= maxBytes || records === 1).toBe(true);
      }
      expect(batches.map((batch) => batch.lines).join('')).toBe(lines.join(''));
      expect(batches.reduce((sum, { records }) => sum + records, 0)).toBe(lines.length);
      expect(end).toEqual({
        bytes: batches.at(-1)?.end,
        totalRecords: batches.at(-1)?.totalRecords,
      });
      expect(recoverLog(path, 1, 0)).toEqual(before);
      expect(statSync(path).size).toBe(before.bytes);
    },
  );
});

describe('a log that ends with a batch or within one', () => {
  const missingBytes = fc.oneof(fc.constant(0), fc.nat());

  it('has the published batches and can be continued, or is damaged if one is incomplete', ({
    path,
    scan,
  }) => {
    fc.assert(
      fc.property(contents, fc.nat({ max: 30 }), missingBytes, (batches, published, missing) => {
        const whole = bytesOf(batches);
        const length = whole.length - (missing % (whole.length + 1));
        writeFileSync(path, whole.subarray(0, length));
        const endOf = (count: number) => bytesOf(batches.slice(0, count)).length;
        const complete = batches.filter((_, index) => endOf(index + 1) <= length);
        const shown = complete.filter(({ tick }) => tick <= published);
        const next = batches[complete.length];
        const begunBytes = length - endOf(complete.length);
        // The tick of a batch is known once its first line is complete.
        const isKnown = next !== undefined && begunBytes >= `t\t${next.tick}\n`.length;
        if (isKnown && next.tick <= published) {
          expect(() => scan(published)).toThrow(DamagedLogError);
          expect(() => recoverLog(path, published, 0)).toThrow(DamagedLogError);
          expect(statSync(path).size).toBe(length);
          return;
        }
        expect(ticksOf(scan(published))).toEqual(ticksOf(shown));
        const bytes = endOf(shown.length);
        const totalRecords = shown.reduce((sum, { lines }) => sum + lines.length, 0);
        const end = recoverLog(path, published, bytes);
        expect(end).toEqual({ bytes, totalRecords });
        expect(readFileSync(path)).toEqual(whole.subarray(0, bytes));
        appendBatches(path, end, { tick: 31, ...recordsOf([deleteLine(9n)]) });
        expect(scan(31).at(-1)).toMatchObject({ tick: 31, totalRecords: totalRecords + 1 });
        expect(scan(31)).toHaveLength(shown.length + 1);
      }),
      { numRuns: 300 },
    );
  });
});

describe('a published batch with a flipped bit', () => {
  const later: Content = { tick: 8, lines: [deleteLine(7n)] };

  it.for([
    ['at the end of the log', []],
    ['before a batch that is not published', [later]],
  ] as const)('is damage %s', ([_, others]) => {
    const { length } = bytesOf(three);
    const content = bytesOf([...three, ...others]);
    for (let bit = 0; bit < length * 8; bit += 1) {
      const damaged = Buffer.from(content);
      damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const position = `bit ${bit & 7} of byte ${bit >> 3}`;
      expect(() => [...readBatches(damaged, 0, 6)], position).toThrow(DamagedLogError);
    }
  });

  it('is damage in a long log', ({ path, write, scan }) => {
    const lines = Array.from({ length: 40_000 }, (_, index) => deleteLine(BigInt(index)));
    const batches = Array.from({ length: 40 }, (_, index) => ({ tick: index + 1, lines }));
    const { bytes } = write(batches);
    expect(bytes).toBeGreaterThan(8 * 2 ** 20);
    const content = readFileSync(path);
    fc.assert(
      fc.property(fc.nat({ max: bytes - 1 }), fc.nat({ max: 7 }), (at, bit) => {
        const original = content[at] ?? 0;
        content[at] = original ^ (1 << bit);
        writeFileSync(path, content);
        content[at] = original;
        expect(() => scan(40)).toThrow(DamagedLogError);
      }),
      { numRuns: 10 },
    );
  });
});

describe('a log to recover', () => {
  it('is damaged, and not changed, if it is too short', ({ path, write }) => {
    const whole = write(three);
    const content = readFileSync(path);
    const end = { bytes: bytesOf(three.slice(0, 2)).length, totalRecords: 2 };
    expect(() => recoverLog(path, 6, whole.bytes + 1)).toThrow(DamagedLogError);
    // It is long enough only with a batch that is not published.
    expect(() => recoverLog(path, 5, end.bytes + 1)).toThrow(DamagedLogError);
    expect(readFileSync(path)).toEqual(content);
  });
});

describe('appending to a log', () => {
  it('is refused, and changes nothing, if the log has another length', ({ path, write }) => {
    const whole = write(three);
    const content = readFileSync(path);
    for (const bytes of [0, whole.bytes - 1, whole.bytes + 1]) {
      const append = () =>
        appendBatches(path, { ...whole, bytes }, { tick: 7, ...recordsOf([deleteLine(1n)]) });
      expect(append).toThrow(DamagedLogError);
      expect(readFileSync(path)).toEqual(content);
    }
  });

  it('changes nothing if the disk becomes full meanwhile', async ({ newDirectory, skip }) => {
    const disk = await mountDisk(join(newDirectory, 'disk'), 4);
    try {
      if (!disk.canBeFilled) skip();
      const path = join(disk.path, 'log.tsv');
      const content = bytesOf(three);
      writeFileSync(path, content);
      const end = { bytes: content.length, totalRecords: 3 };
      const lines = recordsOf(Array.from({ length: 50_000 }, () => deleteLine(10n ** 17n)));
      await disk.fill(lines.lines.length / 2);
      expect(() => appendBatches(path, end, { tick: 7, ...lines })).toThrow('ENOSPC');
      expect(readFileSync(path)).toEqual(content);
      await disk.free();
      const next = appendBatches(path, end, { tick: 8, ...lines });
      expect(next.totalRecords).toBe(50_003);
      const ticks = new Set(ticksOf(readBatches(readFileSync(path), 0, 8)));
      expect([...ticks]).toEqual([3, 5, 6, 8]);
    } finally {
      await disk.unmount();
    }
  });
});
