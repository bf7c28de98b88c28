import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { contractOf } from './contract.ts';

// biome-ignore lint/suspicious/noExplicitAny: the changes write to any place of the document.
type Document = any;

describe('the contract with clients', () => {
  let text: string;
  it.beforeAll(async ({ api }) => {
    text = (await api.get('/openapi.json')).body;
  });
  const contractAfter = (change: (document: Document) => void): string => {
    const document = JSON.parse(text);
    change(document);
    return contractOf(document);
  };

  // A change of what clients depend on changes this file, so the change is reviewed.
  it('equals the recorded contract', async () => {
    await expect(contractOf(JSON.parse(text))).toMatchFileSnapshot('contract.txt');
  });

  it.for<[string, (document: Document) => void]>([
    ['a path is removed', ({ paths }) => delete paths['/v1/tags']],
    ['an operation is removed', ({ paths }) => delete paths['/v1/tags'].get],
    ['an operation is renamed', ({ paths }) => put(paths['/v1/me'].get, 'operationId', 'getMine')],
    ['an operation requires a key', ({ paths }) => delete paths['/healthz'].get.security],
    ['keys are sent in another way', (api) => put(schemesOf(api).apiKey, 'scheme', 'basic')],
    ['the server has another URL', ({ servers }) => put(servers[0], 'url', '/api')],
    ['a parameter is removed', (api) => parametersOf(api).pop()],
    ['a parameter is renamed', (api) => put(parameterOf(api, 'utm_term'), 'name', 'term')],
    ['a parameter is moved', (api) => put(parameterOf(api, 'utm_term'), 'in', 'header')],
    ['a parameter becomes required', (api) => put(parameterOf(api, 'platform'), 'required', true)],
    [
      'a required parameter is added',
      (api) =>
        parametersOf(api).push({ name: 'x', in: 'query', required: true, schema: { type: 'any' } }),
    ],
    ['a parameter has another type', (api) => put(constraintsOf(api, 'status'), 'type', 'integer')],
    ['a parameter has another format', (api) => delete constraintsOf(api, 'created_since').format],
    [
      'a parameter has another pattern',
      (api) => put(constraintsOf(api, 'customer_id'), 'pattern', 'x'),
    ],
    [
      'a parameter has a narrower bound',
      (api) => put(constraintsOf(api, 'group_limit'), 'maximum', 49),
    ],
    [
      'a parameter has a shorter length',
      (api) => put(constraintsOf(api, 'utm_term').items, 'maxLength', 9),
    ],
    [
      'a parameter has another default',
      (api) => put(constraintsOf(api, 'group_limit'), 'default', 9),
    ],
    ['a parameter has one value less', (api) => constraintsOf(api, 'group_by').enum.pop()],
    ['a status is removed', (api) => delete responsesOf(api)[409]],
    ['a status has another body', (api) => put(responsesOf(api)[409], '$ref', '#/x/NotFound')],
    ['a format is removed', (api) => delete responsesOf(api)[200].content['text/csv']],
    ['a header of a response is removed', (api) => delete responsesOf(api)[200].headers.ETag],
    ['a header of an error is removed', (api) => delete errorOf(api).headers['Retry-After']],
    ['a header may be missing', (api) => put(api.components.headers.ETag, 'required', false)],
    ['a header has another type', (api) => put(limitHeaderOf(api).schema, 'type', 'string')],
    ['a property is removed', (api) => delete schemaOf(api).properties.revenue_in_cents],
    ['a property of an item is removed', (api) => delete groupOf(api).properties.key],
    ['a property may be missing', (api) => schemaOf(api).required.shift()],
    ['a property of an item may be missing', (api) => groupOf(api).required.shift()],
    ['a property has another type', (api) => put(propertyOf(api), 'type', 'string')],
    ['a property may be null', (api) => put(propertyOf(api), 'type', ['integer', 'null'])],
    ['a property has another format', (api) => delete propertyOf(api).format],
    [
      'a property has one value more',
      (api) => schemaOf(api, 'PurchaseTimeSeries').properties.interval.enum.push('year'),
    ],
    [
      'the items of a list have another schema',
      (api) => put(schemaOf(api, 'TagList').properties.data.items, '$ref', '#/x/Flow'),
    ],
    [
      'a list becomes an object',
      (api) => put(schemaOf(api, 'TagList').properties.data, 'type', 'object'),
    ],
    ['a schema is renamed', ({ components }) => delete components.schemas.Purchase],
  ])('changes if %s', ([_what, change]) => {
    expect(contractAfter(change)).not.toBe(contractOf(JSON.parse(text)));
  });

  it('does not change with descriptions, examples and order', () => {
    const changed = contractAfter((api) => {
      api.info.description = '';
      operationOf(api).summary = '';
      parameterOf(api, 'group_limit').description = '';
      parametersOf(api).reverse();
      responsesOf(api)[200].content['application/json'].example = {};
      schemaOf(api).description = '';
      schemaOf(api).required.reverse();
      limitHeaderOf(api).schema.examples = [];
      api.paths = Object.fromEntries(Object.entries(api.paths).reverse());
    });
    expect(changed).toBe(contractOf(JSON.parse(text)));
  });
});

const put = (object: Document, key: string, value: unknown): void => {
  expect(object).toHaveProperty(key);
  object[key] = value;
};
const operationOf = (api: Document) => api.paths['/v1/purchases/stats'].get;
const parametersOf = (api: Document) => operationOf(api).parameters;
const responsesOf = (api: Document) => operationOf(api).responses;
const parameterOf = (api: Document, name: string) =>
  parametersOf(api).find((parameter: Document) => parameter.name === name);
const constraintsOf = (api: Document, name: string) => parameterOf(api, name).schema;
const schemaOf = (api: Document, name = 'PurchaseStats') => api.components.schemas[name];
const propertyOf = (api: Document) => schemaOf(api).properties.purchase_count;
const groupOf = (api: Document) => schemaOf(api).properties.groups.items;
const schemesOf = (api: Document) => api.components.securitySchemes;
const errorOf = (api: Document) => api.components.responses.RateLimited;
const limitHeaderOf = (api: Document) => api.components.headers['X-RateLimit-Limit'];
