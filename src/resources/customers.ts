import { z } from 'zod';
import { id } from '../http/request/parameters.ts';
import { listOf } from '../http/response/wire.ts';
import { type Route, route } from '../http/route.ts';
import type { Services } from '../http/services.ts';
import { customerListParameters, customersAskedFor } from './customer-parameters.ts';
import { customer, customerInDetail } from './customer-wire.ts';
import { answerList, answerSingle } from './record-responses.ts';

export function customers(services: Services): readonly Route[] {
  return [
    route({
      url: '/customers',
      summary: 'Customers, newest first',
      path: z.strictObject({}),
      query: customerListParameters,
      response: listOf(customer.schema),
      etag: false,
      handle: async ({ query, organizationId, signal }) =>
        answerList(services, customer, customersAskedFor(query, organizationId), query, signal),
    }),

    route({
      url: '/customers/:customer_id',
      summary: 'One customer, with tags, attributes and address',
      path: z.strictObject({ customer_id: id('customer') }),
      query: z.strictObject({}),
      response: customerInDetail.schema,
      etag: true,
      handle: async ({ path, organizationId, signal }) =>
        answerSingle(services, customerInDetail, organizationId, path.customer_id, signal),
    }),
  ];
}
