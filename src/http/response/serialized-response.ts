import { bigintsAsNumbers, writeExactly } from '../../domain/exact-numbers.ts';
import type { SpreadsheetOptions } from '../formats/csv.ts';
import { type Format, writeWhole } from '../formats/format.ts';
import { type FormatName, formatWith } from '../formats/negotiation.ts';
import { batchOf, type ResponseTable, type Table } from '../formats/table.ts';
import { type HandlerResult, hasEtag, type Route } from '../route.ts';
import { entityTag } from './etag.ts';

/** A response that is ready to be sent. */
export type SerializedResponse<Instant extends bigint | undefined = bigint> = {
  readonly body: string | Buffer;
  readonly contentType: string;
  /** Null if the route has no ETag. */
  readonly entityTag: string | null;
  /** The instant of the data; microseconds since 1970. */
  readonly asOf: Instant;
  /** Whether there are more rows, for formats whose body does not show this. */
  readonly hasMore?: boolean;
  /** The cursor of the next page; null if there is none. */
  readonly next: string | null;
};

type Output = {
  readonly route: Route;
  readonly format: FormatName;
  readonly spreadsheet: SpreadsheetOptions | undefined;
  readonly serialize: (body: unknown) => string;
};

export function serializeResult<Instant extends bigint | undefined>(
  { route, format, spreadsheet, serialize }: Output,
  { result, asOf, next = null }: HandlerResult<unknown, Instant>,
): SerializedResponse<Instant> {
  const table = 'table' in route ? route.table : undefined;
  const content =
    table === undefined || format === 'json'
      ? {
          body: writeExactly(
            'isSparse' in route && route.isSparse
              ? JSON.stringify(result, bigintsAsNumbers)
              : serialize(result),
          ),
          contentType: 'application/json; charset=utf-8',
        }
      : writeRows(formatWith(format, spreadsheet), table as ResponseTable<unknown>, result);
  return {
    ...content,
    entityTag: hasEtag(route) ? entityTag(content.body) : null,
    asOf,
    next,
  };
}

function writeRows(
  format: Format,
  table: ResponseTable<unknown>,
  result: unknown,
): Pick<SerializedResponse, 'body' | 'contentType' | 'hasMore'> {
  const { rows, hasMore, ...ofResponse } = table.read(result);
  const shown: Table = { ...table, ...ofResponse };
  const body = writeWhole(format, shown, batchOf(shown, rows));
  return { body, contentType: format.contentType, hasMore };
}
