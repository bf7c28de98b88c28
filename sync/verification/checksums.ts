import sql, { join, raw, type Sql } from 'sql-template-tag';
import { type PurchaseColumn, purchaseColumns, purchaseLabels } from '../../src/domain/purchase.ts';
import { microsecondsOf } from '../../src/postgres/lists/instants.ts';
import {
  customerDictionary,
  labelDictionary,
  labelKey,
  labelTable,
} from '../../src/purchase-store/format/layout.ts';
import {
  creationQuarter,
  isQuarterHourSql,
} from '../../src/purchase-store/format/quarter-hours.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../../src/purchase-store/format/relations.ts';
import { changesSince } from '../capture/changed-purchases.ts';
import { inFile, inPostgres, type PurchaseRange } from './purchase-range.ts';

/**
 * A checksum of purchases is their count and the sum of their hashes. Postgres and the
 * stores compute checksums in SQL.
 *
 * The hashed text of a purchase has its numbers, the byte lengths of its texts, and the texts.
 * A comma follows each number and length. The lengths mark the end of each text. NULL adds
 * nothing, which no number and no length equals.
 */
type HashedValue = {
  readonly isText: boolean;
  /** An expression on Postgres's table `purchases`. */
  readonly inPostgres: string;
  /** An expression on a file's table `purchase`, joined to its dictionaries. */
  readonly inFile: string;
  /** An expression on ClickHouse's table `purchase`: a text, which is empty for NULL. */
  readonly inClickHouse: string;
};

const hashedValue =
  (isText: boolean) =>
  (inPostgres: string, inFile: string, inClickHouse: string): HashedValue => ({
    isText,
    inPostgres,
    inFile,
    inClickHouse,
  });
const hashedNumber = hashedValue(false);
const hashedText = hashedValue(true);

function hashedValuesOf({ name, kind }: PurchaseColumn): HashedValue[] {
  const original = `purchases.${name}`;
  const copy = `purchase.${name}`;
  switch (kind) {
    case 'purchase_id':
    case 'cents':
      return [hashedNumber(original, copy, textInClickHouse(name))];
    case 'customer_id':
      // The file has the customer twice: in the row and in the dictionary.
      return [
        hashedNumber(original, copy, textInClickHouse(name)),
        hashedNumber(original, 'customer.id', textInClickHouse(name)),
      ];
    case 'instant': {
      const inFile = name === 'created_at' ? confirmedCreation : hexInstant(copy);
      return [hashedNumber(sentInstant(original), inFile, hexInstantInClickHouse(name))];
    }
    case 'text':
      return [hashedText(original, copy, name)];
    case 'label':
      return [hashedText(original, `${labelTable(name)}.value`, name)];
    case 'coupons':
      return [hashedText(`${original}::text`, copy, name)];
  }
}

// Microseconds since 2000 in hexadecimal digits: the binary format of Postgres. Conversion to
// decimal digits was measured to take a third of the time of the hash.
const sentInstant = (column: string) => `encode(timestamptz_send(${column}), 'hex')`;
const hexInstantInClickHouse = (column: string) =>
  `leftPad(lower(hex(reinterpretAsUInt64(${column} - 946684800000000))), 16, '0')`;
const textInClickHouse = (value: string) => `ifNull(toString(${value}), '')`;
const hexInstant = (column: string) => `printf('%016x', epoch_us(${column}) - 946684800000000)`;

// The file has the instant and its quarter hour. If they differ, the text lacks the instant.
const confirmedCreation = `case
  when ${isQuarterHourSql(`purchase.${creationQuarter.name}`, 'epoch_us(purchase.created_at)')}
  then ${hexInstant('purchase.created_at')} end`;

const hashedValues = purchaseColumns.flatMap(hashedValuesOf);

/** The text of a purchase as SQL. `lengthOf` and `textOf` convert a text column. */
function rowText(
  side: 'inPostgres' | 'inFile' | 'inClickHouse',
  lengthOf: (text: string) => string,
  textOf: (text: string) => string = (text) => text,
): string {
  const texts = hashedValues.filter(({ isText }) => isText).map((value) => value[side]);
  const numbers = hashedValues.filter(({ isText }) => !isText).map((value) => value[side]);
  const separated = [...numbers, ...texts.map(lengthOf)].flatMap((number) => [number, `','`]);
  return `concat(${[...separated, ...texts.map(textOf)].join(', ')})`;
}

const rowTextInPostgres = rowText('inPostgres', (text) => `octet_length(${text})`);
const rowTextInFile = rowText('inFile', (text) => `strlen(${text})`);
const rowTextInClickHouse = rowText(
  'inClickHouse',
  (text) => textInClickHouse(`length(${text})`),
  (text) => `ifNull(${text}, '')`,
);

// A bigint without its sign holds fifteen hexadecimal digits of the hash.
const hashInPostgres = raw(`('x' || left(md5(${rowTextInPostgres}), 15))::bit(60)::bigint`);
const hashInFile = raw(`('0x' || left(md5(${rowTextInFile}), 15))::bigint`);
/** The first eight bytes of the hash, without the last four bits. */
export const hashInClickHouse = raw(
  `toInt64(bitShiftRight(reinterpretAsUInt64(reverse(substring(MD5(${rowTextInClickHouse}), 1, 8))), 4))`,
);

/** An organization's purchases in Postgres that have not changed since the snapshot `since`. */
export type UnchangedPurchases = { readonly organizationId: bigint; readonly since: string };

/** A subquery: the ids of the purchases that changed since the snapshot. */
export function changedSince({ organizationId, since }: UnchangedPurchases): Sql {
  return sql`
    select distinct purchase_id as id
    from ${changesSince(since)} as changes
    where organization_id = ${organizationId}`;
}

const unchangedIn = (range: PurchaseRange, { organizationId }: UnchangedPurchases): Sql => sql`
  from purchases
  where organization_id = ${organizationId} and ${inPostgres(range)}
    and not exists (select from changed where changed.id = purchases.id)`;

/** Selects the place of the last of the first `rows` purchases of a range; no row if there are fewer. */
export const placeInPostgres = (range: PurchaseRange, organizationId: bigint, rows: number): Sql =>
  sql`
    select ${raw(microsecondsOf('created_at'))} as "createdAt", id
    from purchases
    where organization_id = ${organizationId} and ${inPostgres(range)}
    order by purchases.created_at, purchases.id
    offset ${rows - 1}::bigint limit 1`;

/** Selects the count and the sum of hashes (numeric), and the number of changed purchases. */
export const checksumInPostgres = (range: PurchaseRange, unchanged: UnchangedPurchases): Sql => sql`
  with changed as materialized (${changedSince(unchanged)})
  select count(*) as count, coalesce(sum(${hashInPostgres}), 0) as sum,
    (select count(*) from changed) as changed
  ${unchangedIn(range, unchanged)}`;

/** Selects id and hash of each purchase of the range. */
export const rowHashesInPostgres = (
  range: PurchaseRange,
  unchanged: UnchangedPurchases,
): Sql => sql`
  with changed as materialized (${changedSince(unchanged)})
  select id, ${hashInPostgres} as hash
  ${unchangedIn(range, unchanged)}`;

/** Selects count and sum from a file, without the purchases in the table `changed`. */
export const checksumInFile = (catalogs: StoreCatalogs, range: PurchaseRange): Sql =>
  sql`select count(*), coalesce(sum(${hashInFile}), 0) ${decoded(catalogs, range)}`;

export const rowHashesInFile = (catalogs: StoreCatalogs, range: PurchaseRange): Sql =>
  sql`select purchase.id, ${hashInFile} ${decoded(catalogs, range)}`;

/** The file's purchases, joined to the dictionaries. */
function decoded(catalogs: StoreCatalogs, range: PurchaseRange): Sql {
  const dictionaries = purchaseLabels.map((label) => {
    const table = raw(labelTable(label));
    const entries = dictionaryEntries(catalogs, labelDictionary(label));
    return sql`left join ${entries} as ${table} on ${table}.key = purchase.${raw(labelKey(label))}`;
  });
  return sql`
    from (
      select purchase.* from ${currentPurchases(catalogs, inFile(range))} as purchase
      anti join changed on changed.id = purchase.id
    ) as purchase
    left join ${dictionaryEntries(catalogs, customerDictionary)} as customer
      on customer.key = purchase.customer_key
    ${join(dictionaries, ' ')}`;
}
