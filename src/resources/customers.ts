import { z } from 'zod';
import { listOf } from '../http/response/wire.ts';
import { type ResourceRoutes, route } from '../http/route.ts';
import { customerList, customerListParameters } from './customer-parameters.ts';
import { customer, customerInDetail } from './customer-wire.ts';
import { listRecords, recordRoute } from './record-routes.ts';

const url = '/customers';

export const customers: ResourceRoutes = (services) => [
  route({
    url,
    summary: 'Customers, newest first',
    path: z.strictObject({}),
    query: customerListParameters,
    response: listOf(customer.schema),
    handle: async ({ query, organizationId, signal }) =>
      listRecords(services, customer, customerList(query, organizationId), query, signal),
  }),
  recordRoute(services, customerInDetail, {
    url,
    summary: 'One customer, with tags, attributes and address',
  }),
];
