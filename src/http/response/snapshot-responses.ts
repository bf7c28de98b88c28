import { writeWhole } from '../formats/format.ts';
import { type FormatName, formats } from '../formats/negotiation.ts';
import { type AnswerTable, batchOf } from '../formats/table.ts';
import type { Call, SnapshotRoute } from '../route.ts';
import { entityTag } from './etag.ts';
import { writeExactly } from './exact-numbers.ts';
import { cursorAfter } from './next-page.ts';
import type { FinishedResponse, ResponseCache } from './response-cache.ts';

type AnyCall = Call<unknown, unknown>;

/** A call of a route, and how its answer is written. */
export type Asked = {
  readonly route: SnapshotRoute;
  readonly format: FormatName;
  /** What makes JSON of an answer. */
  readonly serialize: (answer: unknown) => string;
  readonly call: AnyCall;
};

export type SnapshotResponses = {
  /**
   * The finished answer to a call of the route: from memory, where the same question has
   * been answered from the data that there are now.
   */
  answer(asked: Asked): Promise<FinishedResponse>;
};

export function createSnapshotResponses(answers: ResponseCache): SnapshotResponses {
  return {
    async answer(asked) {
      const { format, call } = asked;
      const { organizationId, purchases } = call;
      const version = await purchases.version(organizationId);
      if (version === null) return finish(asked);
      // Another organization's question is another one.
      const name = `${version.name} ${organizationId} ${format} ${call.question}`;
      const finished = await answers.answer(name, call, (signal) =>
        finish({ ...asked, call: { ...call, signal } }),
      );
      // The data may have been found to show everything up to a later instant since.
      return { ...finished, asOf: version.asOf > finished.asOf ? version.asOf : finished.asOf };
    },
  };
}

async function finish({ route, format, serialize, call }: Asked): Promise<FinishedResponse> {
  const { answer, asOf } = await route.handle(call);
  const table = route.table as AnswerTable<unknown> | undefined;
  const written =
    table === undefined || format === 'json'
      ? { body: writeExactly(serialize(answer)) }
      : writeRows(format, table, answer);
  const tag = route.etag ? entityTag(written.body) : null;
  const contentType =
    format === 'json' ? 'application/json; charset=utf-8' : formats[format].contentType;
  return { ...written, contentType, entityTag: tag, asOf, next: cursorAfter(answer) };
}

function writeRows(
  format: Exclude<FormatName, 'json'>,
  table: AnswerTable<unknown>,
  answer: unknown,
): Pick<FinishedResponse, 'body' | 'hasMore'> {
  const { rows, hasMore } = table.read(answer);
  return { body: writeWhole(formats[format], table, batchOf(table, rows)), hasMore };
}
