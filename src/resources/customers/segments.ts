import { z } from 'zod';
import { formatNames } from '../../http/formats/negotiation.ts';
import { formatParameters } from '../../http/request/format-parameters.ts';
import { id, oneOf, pageParameters, text as textParameter } from '../../http/request/parameters.ts';
import { listOf } from '../../http/response/wire.ts';
import { type ResourceRoutes, route } from '../../http/route.ts';
import { byCreation, byTotalSpent, byUpdate } from '../../postgres/lists/keyset-list.ts';
import { textSearch } from '../../postgres/lists/search.ts';
import { defineRecord, htmlUrl, instant, integer, optional, text } from '../record/record.ts';
import {
  hasRecord,
  noRecord,
  queryPostgres,
  readRecords,
  recordRoute,
  serializePage,
} from '../record/record-routes.ts';
import { recordListTable } from '../record/record-table.ts';
import { customerTotalsParameters, totalsConditions } from './customer-totals-parameters.ts';
import { customer } from './customer-wire.ts';

/** Section 2.7. */
const segment = defineRecord('Segment', 'segment', 'segments', {
  created_at: instant,
  updated_at: instant,
  html_url: htmlUrl('segment'),
  name: optional(text),
  description: optional(text),
  customer_count: integer,
});

const url = '/segments';

export const segments: ResourceRoutes = (services) => [
  route({
    url,
    summary: 'Segments, newest first',
    description:
      '`customer_count` is stored, and may differ from the number of ' +
      'customers that the list of a segment has.',
    path: z.strictObject({}),
    query: z.strictObject({
      ...pageParameters('segment'),
      q: textParameter({ min: 1, max: 256 }).optional(),
      sort: oneOf(['updated']).optional(),
    }),
    response: listOf(segment.schema),
    handle: async (request) => {
      const { query, organizationId } = request;
      const order = query.sort === 'updated' ? byUpdate : byCreation;
      const list = {
        organizationId,
        order,
        search: query.q === undefined ? undefined : textSearch(query.q),
      };
      const page = await queryPostgres(services, request, (connection) =>
        readRecords(connection, segment, list, query),
      );
      return serializePage(services, segment, list, page);
    },
  }),
  recordRoute(services, segment, {
    url,
    summary: 'One segment',
    description:
      '`customer_count` is stored with the segment; its customers are a list of their own.',
  }),
  route({
    url: `${url}/:segment_id/customers`,
    summary: "One segment's customers, newest first",
    description:
      'To combine a segment with other filters, send `segment_id` to the list of customers. A ' +
      'segment that does not exist is `404`.',
    path: z.strictObject({ segment_id: id('segment') }),
    query: z.strictObject({
      ...pageParameters('customer'),
      sort: oneOf(['total_spent']).optional(),
      ...customerTotalsParameters,
      ...formatParameters(formatNames),
    }),
    response: listOf(customer.schema),
    table: recordListTable(customer),
    handle: async (request) => {
      const { path, query, organizationId } = request;
      const order = query.sort === 'total_spent' ? byTotalSpent : byCreation;
      const linkedTo = { relation: 'segment', id: path.segment_id } as const;
      const list = {
        organizationId,
        order,
        linkedTo,
        includedConditions: totalsConditions(query),
      };
      const page = await queryPostgres(services, request, async (connection) =>
        (await hasRecord(connection, segment, organizationId, path.segment_id))
          ? readRecords(connection, customer, list, query)
          : null,
      );
      if (page === null) throw noRecord(segment);
      return serializePage(services, customer, list, page);
    },
  }),
];
