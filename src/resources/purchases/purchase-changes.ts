import { z } from 'zod';
import { encodeId } from '../../domain/public-id.ts';
import type { PurchaseChange } from '../../domain/purchase-changes.ts';
import { formatNames } from '../../http/formats/negotiation.ts';
import type { ResponseTable } from '../../http/formats/table.ts';
import { formatParameters } from '../../http/request/format-parameters.ts';
import { integer } from '../../http/request/parameters.ts';
import { ApiError } from '../../http/response/errors.ts';
import { named } from '../../http/response/wire.ts';
import { type ResourceRoutes, route } from '../../http/route.ts';
import { purchaseTable } from './purchase-table.ts';
import { purchaseSchema, serializePurchase } from './purchase-wire.ts';

/** The positions of all stores: a name, then two or three numbers to a base of at most 36. */
const pattern = /^[0-9a-f]{12}(\.[0-9a-z]{0,19}){2,3}$/;

/**
 * A position of the change feed. An invalid cursor is 400, as in lists. Names belong to one organization, so a
 * position of another one is unknown.
 */
function changeCursor() {
  return z
    .string()
    .min(1)
    .transform((text): string => {
      if (pattern.test(text)) return text;
      throw new ApiError('invalid_request', 'cursor is no cursor of the change feed.', {
        param: 'cursor',
      });
    })
    .meta({ type: 'string', pattern: pattern.source });
}

const maxWaitSeconds = 30;

const changesParameters = z.strictObject({
  cursor: changeCursor().optional(),
  limit: integer({ min: 1, max: 1_000, default: 100 }),
  wait: integer({ min: 0, max: maxWaitSeconds, default: 0 }),
  ...formatParameters(formatNames),
});

/** A purchase as it is now, or the id of a deleted one. */
const changeSchema = named(
  'PurchaseChange',
  purchaseSchema.partial().required({ object: true, id: true }).extend({ deleted: z.boolean() }),
);
const changesSchema = named(
  'PurchaseChanges',
  z.object({ data: z.array(changeSchema), has_more: z.boolean(), next_cursor: z.string() }),
);

const changesTable: ResponseTable<z.output<typeof changesSchema>> = {
  before: purchaseTable.before ?? {},
  columns: [
    ...purchaseTable.columns.map((column) =>
      column.name === 'id' ? column : { ...column, absent: 'left out' as const },
    ),
    { name: 'attributed_flow_ids', kind: 'json', absent: 'left out' },
    { name: 'deleted', kind: 'boolean', absent: 'never' },
  ],
  read: ({ data, has_more: hasMore }) => ({ rows: data, hasMore }),
};

const serializeChange = ({ id, purchase }: PurchaseChange): z.output<typeof changeSchema> =>
  purchase === null
    ? { object: 'purchase', id: encodeId('purchase', id), deleted: true }
    : { ...serializePurchase(purchase), deleted: false };

export const purchaseChanges: ResourceRoutes = ({ changes }) => [
  route({
    url: '/purchases/changes',
    summary: 'Changes of purchases since a position, deletions included',
    description:
      'Keeps a copy up to date. There are no filters, because a purchase that left a filter ' +
      'would vanish. An item may repeat: overwrite or delete by `id`. Begin without `cursor`, ' +
      'then read the export with the `X-Data-As-Of` of this response as `X-Min-Data-As-Of`, ' +
      'then the changes.',
    isAddition: true,
    path: z.strictObject({}),
    query: changesParameters,
    response: changesSchema,
    kind: 'feed',
    table: changesTable,
    waitSeconds: ({ wait }) => wait,
    feed: changes,
    async handle({ query, organizationId, credential, signal }, ended) {
      const { cursor, limit, wait } = query;
      const {
        changes: items,
        hasMore,
        next,
        asOf,
      } = await changes.read(
        organizationId,
        credential.source,
        { after: cursor ?? null, limit },
        { waitMs: wait * 1_000, signal, ended },
      );
      const data = items.map(serializeChange);
      return { result: { data, has_more: hasMore, next_cursor: next }, asOf, next };
    },
  }),
];
