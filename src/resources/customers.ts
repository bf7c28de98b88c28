import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { id } from '../http/parameters.ts';
import { serve } from '../http/resource.ts';
import type { Services } from '../http/services.ts';
import { listOf } from '../http/wire.ts';
import { customerListParameters, customersAskedFor } from './customer-parameters.ts';
import { customer, customerInDetail } from './customer-wire.ts';
import { answerList, answerSingle } from './record-answers.ts';

export function customers(app: FastifyInstance, services: Services): void {
  serve(app, {
    url: '/customers',
    summary: 'Customers, newest first',
    path: z.strictObject({}),
    query: customerListParameters,
    response: listOf(customer.schema),
    etag: false,
    handle: async ({ query, organizationId }) =>
      answerList(services, customer, customersAskedFor(query, organizationId), query),
  });

  serve(app, {
    url: '/customers/:customer_id',
    summary: 'One customer, with tags, attributes and address',
    path: z.strictObject({ customer_id: id('customer') }),
    query: z.strictObject({}),
    response: customerInDetail.schema,
    etag: true,
    handle: async ({ path, organizationId }) =>
      answerSingle(services, customerInDetail, organizationId, path.customer_id),
  });
}
