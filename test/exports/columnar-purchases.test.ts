import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import sql from 'sql-template-tag';
import { describe, expect, it, vi } from 'vitest';
import { decodeId, encodeId } from '../../src/domain/public-id.ts';
import { purchaseColumns, purchaseLabels } from '../../src/domain/purchase.ts';
import { createInstance, queryRows } from '../../src/duckdb/connection.ts';
import { createColumnarIds } from '../../src/exports/columnar-ids.ts';
import { readColumnarPurchases } from '../../src/exports/columnar-purchases.ts';
import { createRowRanges, type RowRange, type RowRanges } from '../../src/exports/row-ranges.ts';
import { isPresent, type PackedIntegers, valueAt } from '../../src/http/formats/column-data.ts';
import { createLayout } from '../../src/purchase-store/layout.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('packed purchases', () => {
  it('are those that match, each with its own values, from all over a file', {
    timeout: 60_000,
  }, async () => {
    // Several statements' worth; more values of a label than come with every batch.
    const count = 200_000;
    const instance = await DuckDBInstance.create(':memory:');
    const connections = [await instance.connect(), await instance.connect()];
    const [connection] = connections as [(typeof connections)[0]];
    await connection.run(`attach ':memory:' as shop`);
    await connection.run(createLayout('shop'));
    await connection.run(`
      insert into shop.label_utm_term select n, 'term ü ' || n from range(1, 60001) as numbers (n);
      insert into shop.label_platform values (1, 'nuvemshop'), (2, '');
      insert into shop.purchase by name
      select n as id, n * 7919 % 40000 + 1 as customer_id, 0 as customer_key, n % 5000 as purchase_value_in_cents,
        make_timestamp(1700000000000000 + n) as created_at, 0 as created_quarter_hour,
        make_timestamp(1800000000000000 - n) as updated_at,
        case when n % 3 > 0 then 'order ' || n || repeat(' é', n % 9) end as order_number,
        case when n % 5 = 0 then 2 - n end as discount_in_cents,
        case n % 4 when 0 then '[]' when 1 then '[{"code": "C' || n % 100 || '"}]' end as coupons,
        case when n % 7 = 0 then 0 else n % 60000 + 1 end as utm_term_key, n % 3 as platform_key
      from range(1, ${count + 1}) as numbers (n);
      -- Whole stretches, and here and there.
      delete from shop.purchase where id between 70000 and 150000 or id % 11 = 0;
      update shop.purchase set id = 9223372036854775807 - id where id > 199990;`);
    const filters = { minValueInCents: 3n };
    const expected = await queryRows(
      connection,
      sql`
        select purchase.id, customer_id, epoch_us(created_at), epoch_us(updated_at), order_number,
          discount_in_cents, case coupons when '[]' then coupons else replace(coupons, ' ', '') end,
          term.value, case platform_key when 1 then 'nuvemshop' when 2 then '' end
        from shop.purchase left join shop.label_utm_term as term on term.key = utm_term_key
        where purchase_value_in_cents >= 3 order by created_at`,
    );
    expect(expected.length).toBeGreaterThan(100_000);

    const names = ['id', 'customer_id', 'created_at', 'updated_at', 'order_number'];
    names.push('discount_in_cents', 'coupons', 'utm_term', 'platform');
    const places = names.map((name) => purchaseColumns.findIndex((column) => column.name === name));
    const rows: (bigint | string | null)[][] = [];
    const discounts = purchaseColumns.findIndex(({ name }) => name === 'discount_in_cents');
    for await (const { rowCount, data } of readColumnarPurchases(connections, 'shop', filters)) {
      for (let row = 0; row < rowCount; row += 1) {
        // Nothing of what DuckDB's memory held before.
        const { integers, present } = data[discounts] as PackedIntegers;
        if (!isPresent(present, row) && integers[row] !== 0n) throw new Error('memory shows');
        rows.push(places.map((place) => valueAt(data[place] ?? [], row)));
      }
    }
    rows.sort((one, other) => Number((one[2] as bigint) - (other[2] as bigint)));
    const shown = expected.map(([id, customer, ...rest]) => [
      encodeId('purchase', id as bigint),
      encodeId('customer', customer as bigint),
      ...rest,
    ]);
    expect(rows).toHaveLength(shown.length);
    // One by one: a difference of all would take minutes to draw.
    for (const [index, row] of rows.entries()) {
      if (JSON.stringify(row, asText) !== JSON.stringify(shown[index], asText)) {
        expect(row).toEqual(shown[index]);
      }
    }
    // Where nothing matches the ranges grow as well: half a row group each, but for the first.
    const streams = connections.map((each) => vi.spyOn(each, 'stream'));
    const none = readColumnarPurchases(connections, 'shop', { minValueInCents: 10n ** 12n });
    expect((await none.next()).done).toBe(true);
    const statements = streams.reduce((sum, { mock }) => sum + mock.calls.length, 0);
    expect(statements - purchaseLabels.length).toBeLessThan(count / 61_440 + 8);
    for (const each of connections) each.closeSync();
    instance.closeSync();
  });

  it('come in smaller batches where texts are long, and memory short', {
    timeout: 60_000,
  }, async () => {
    const directory = await temporaryDirectory();
    const count = 6_000;
    const instance = await createInstance({
      threads: 2,
      memoryLimit: '100MiB',
      spillDirectory: directory.path,
    });
    const connections = [await instance.connect(), await instance.connect()];
    const [connection] = connections as [(typeof connections)[0]];
    await connection.run(`attach '${directory.path}/long.duckdb' as shop`);
    await connection.run(createLayout('shop'));
    await connection.run(`
      insert into shop.purchase by name
      select n as id, 1 as customer_id, 0 as customer_key, 1 as purchase_value_in_cents,
        make_timestamp(n) as created_at, 0 as created_quarter_hour, make_timestamp(n) as updated_at,
        case when n > 100 then repeat('long ', 5000) || n end as order_number
      from range(1, ${count + 1}) as numbers (n)`);
    const texts = purchaseColumns.findIndex(({ name }) => name === 'order_number');
    const seen = new Set<string>();
    let batches = 0;
    for await (const { rowCount, data } of readColumnarPurchases(connections, 'shop', {})) {
      batches += 1;
      for (let row = 0; row < rowCount; row += 1) {
        const id = valueAt(data[0] ?? [], row) as string;
        const number = decodeId('purchase', id) as bigint;
        const text = valueAt(data[texts] ?? [], row);
        if (text !== (number > 100n ? `${'long '.repeat(5000)}${number}` : null)) {
          throw new Error(`purchase ${number} has another's text`);
        }
        seen.add(id);
      }
    }
    expect(seen.size).toBe(count);
    expect(batches).toBeGreaterThan(4);
    for (const each of connections) each.closeSync();
    instance.closeSync();
    await directory.remove();
  });

  it('of an empty file are none', async () => {
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    await connection.run(`attach ':memory:' as shop`);
    await connection.run(createLayout('shop'));
    for await (const batch of readColumnarPurchases([connection], 'shop', {}))
      expect(batch).toBeNull();
    connection.closeSync();
    instance.closeSync();
  });
});

const asText = (_name: string, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value);

describe('ranges of rows', () => {
  const all = (ranges: RowRanges, end: number, fails: (range: RowRange) => boolean) => {
    const seen = new Array<number>(end).fill(0);
    let largest = 0;
    for (let range = ranges.next(); range !== null; range = ranges.next()) {
      if (fails(range) && ranges.halve(range)) continue;
      const [from, to] = [Number(range.begin), Math.min(end, Number(range.end))];
      for (let row = from; row < to; row += 1) seen[row] = (seen[row] as number) + 1;
      largest = Math.max(largest, to - from);
      ranges.noteRead(0);
    }
    return { largest, once: seen.every((times) => times === 1) };
  };

  it('hold each row once, and grow to half a row group', () => {
    const ranges = createRowRanges(1_000_000n);
    expect(all(ranges, 1_000_000, () => false)).toEqual({ largest: 61_440, once: true });
  });

  it('are halved where there is no memory, and stay as small', () => {
    let failures = 0;
    const fails = ({ begin, end }: RowRange) => {
      const isTooLarge = end - begin > 5_000n;
      if (isTooLarge) failures += 1;
      return isTooLarge;
    };
    expect(all(createRowRanges(1_000_000n), 1_000_000, fails).once).toBe(true);
    expect(failures).toBeLessThan(5);
    expect(createRowRanges(10n).halve({ begin: 3n, end: 4n })).toBe(false);
  });
});

describe('packed ids', () => {
  const pack = createColumnarIds('purchase');
  const unpacked = (numbers: readonly bigint[]) => {
    const packed = pack(BigInt64Array.from(numbers));
    return numbers.map((_, row) => valueAt(packed, row));
  };

  it('are those of the numbers one by one, of whatever length', () => {
    const powers = Array.from({ length: 63 }, (_, bit) => 2n ** BigInt(bit));
    const numbers = [...powers, 2n ** 53n - 1n, 2n ** 63n - 1n, 0n].flatMap((power) =>
      [power - 1n, power, power + 1n].filter((n) => n >= 0n && n < 2n ** 63n),
    );
    for (const number of numbers) {
      expect(unpacked([number])).toEqual([encodeId('purchase', number)]);
    }
    fc.assert(
      fc.property(fc.array(fc.bigInt({ min: 1n, max: 2n ** 54n })), (several) => {
        const expected = several.map((number) => encodeId('purchase', number));
        expect(unpacked(several)).toEqual(expected);
      }),
    );
  });
});
