import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect } from 'vitest';
import { addFormatsTo } from '../support/described-response.ts';
import { test as it } from '../support/fixtures.ts';

describe('the OpenAPI document', () => {
  let text: string;

  it.beforeAll(async ({ api }) => {
    text = (await api.get('/openapi.json')).body;
  });

  it("breaks none of Redocly's recommended rules", async () => {
    const config = await createConfig({ extends: ['recommended'] });
    const problems = await lintFromString({ source: text, config });
    expect(problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)).toEqual([]);
  });

  it('is version 1.0.0, and marks additions to the specification', () => {
    const { info, paths } = JSON.parse(text);
    expect(info.version).toBe('1.0.0');
    const additions = Object.keys(paths).filter((path) => paths[path].get['x-addition'] === true);
    expect(additions).toEqual([
      '/v1/customers/export',
      '/v1/purchases/search',
      '/v1/purchases/timeseries',
      '/v1/purchases/report',
      '/v1/purchases/cohorts',
      '/v1/purchases/export',
      '/v1/purchases/changes',
      '/v1/template-campaigns',
      '/healthz',
      '/readyz',
    ]);
    expect(Object.keys(paths)).toHaveLength(28);
    for (const path in paths) {
      for (const parameter of paths[path].get.parameters) {
        if (!/An addition/.test(parameter.description)) continue;
        expect(parameter, parameter.name).toMatchObject({ 'x-addition': true });
      }
    }
  });

  it('has examples that are valid in its schemas', () => {
    const description = JSON.parse(text);
    const ajv = new Ajv2020({ strict: false });
    addFormatsTo(ajv, ['date-time', 'uri', 'int32', 'int64', 'email']);
    ajv.addSchema({ $id: 'api', components: description.components });
    const examples = [
      // Files have neither a schema nor an example.
      ...Object.entries<Operation>(description.paths)
        .filter(([path]) => !path.endsWith('/export'))
        .map(([, { get }]) => get.responses[200]),
      ...Object.values<Described>(description.components.responses),
    ].map((response) => response?.content['application/json']);
    expect(examples.length).toBeGreaterThan(25);
    for (const found of examples) {
      const schema = JSON.parse(JSON.stringify(found?.schema).replaceAll('"#/', '"api#/'));
      expect(ajv.validate(schema, found?.example), ajv.errorsText()).toBe(true);
    }
  });

  it('has a format of each integer of a response, and a type of each enumeration', () => {
    const { paths, components } = JSON.parse(text);
    const responses = Object.values<Operation>(paths).map(({ get }) => get.responses);
    const lacking: unknown[] = [];
    const find = (document: unknown, lacks: (schema: Schema) => boolean) =>
      JSON.stringify(document, (_name, value) => {
        if (typeof value === 'object' && value !== null && lacks(value)) lacking.push(value);
        return value;
      });
    find({ responses, components }, ({ type, format }) => {
      return [type].flat().includes('integer') && !['int32', 'int64'].includes(format ?? '');
    });
    find(
      { paths, components },
      (schema) => Array.isArray(schema.enum) && schema.type === undefined,
    );
    expect(lacking).toEqual([]);
  });

  it('has no values of header parameters that Swagger UI would send', () => {
    const operations = Object.values<Operation>(JSON.parse(text).paths).map(({ get }) => get);
    const headers = operations.flatMap(({ parameters }) =>
      parameters.filter((parameter) => parameter.in === 'header'),
    );
    expect(headers.length).toBeGreaterThan(10);
    const sent = (key: string) => /^(example|default)/.test(key);
    expect(headers.filter((header) => Object.keys(header).some(sent))).toEqual([]);
    expect(headers.filter(({ schema }) => Object.keys(schema).some(sent))).toEqual([]);
  });

  it('is linked from the root: HTML for a browser, JSON for other clients', async ({ api }) => {
    const browser = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
    const page = await api.get('/', undefined, browser);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(page.headers.vary).toBe('Accept, Accept-Encoding');
    const linked = [...page.body.matchAll(/href="([^"]+)"/g)].map(([, url]) => String(url));
    expect(linked).toContain('/docs');

    for (const headers of [{}, { accept: '*/*' }, { accept: 'application/json' }]) {
      const { body } = await api.get('/', undefined, headers);
      expect(JSON.parse(body)).toMatchObject({ docs: '/docs', openapi: '/openapi.json' });
    }
    for (const url of [...linked, '/openapi.json', '/healthz']) {
      expect((await api.get(url)).statusCode).toBe(200);
    }
  });

  it('begins with five questions, whose requests work, as does the page for agents', async ({
    api,
    get,
  }) => {
    const { info } = JSON.parse(text);
    const llms = await api.get('/llms.txt');
    expect(llms.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(llms.body.split('\n').length).toBeLessThan(60);
    const urls = [...info.description.matchAll(/`GET (\/v1\/[^`]+)`/g)].map(([, url]) => url);
    expect(urls).toHaveLength(5);
    expect([...llms.body.matchAll(/\]\((\/v1\/[^)]+)\)/g)].map(([, url]) => url)).toEqual(urls);
    for (const url of urls) expect((await get(url)).statusCode, url).toBe(200);
    const linked = [...llms.body.matchAll(/\]\((\/[a-uw-z][^)]*)\)/g)].map(([, url]) =>
      String(url),
    );
    expect(linked).toEqual(['/openapi.json', '/docs']);
    expect(llms.body).toContain('POST /mcp');
  });

  it('says of each route and parameter more than its name', () => {
    for (const [path, { get }] of Object.entries<DescribedRoute>(JSON.parse(text).paths)) {
      expect(get.description, path).toMatch(/\w{3}.*\./);
      for (const { name, description } of get.parameters) {
        expect(description.length, `${path} ${name}`).toBeGreaterThan(name.length + 3);
      }
    }
  });

  it.for(['/docs', '/docs/'])('can be browsed at %s without the internet', async (url, { api }) => {
    const page = await api.get(url);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    const linked = [...page.body.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, url]) => String(url));
    expect(linked.length).toBeGreaterThan(2);
    for (const url of linked) {
      expect(url).toMatch(/^\/docs\//);
      expect((await api.get(url)).statusCode).toBe(200);
    }
    expect(page.headers['content-security-policy']).toContain("default-src 'self'");
  });
});

type Described = { content: { 'application/json': { schema: object; example: unknown } } };
type Schema = { type?: string | string[]; format?: string; enum?: unknown };
type Parameter = { in: string; schema: object };
type Operation = { get: { parameters: Parameter[]; responses: Record<string, Described> } };
type DescribedRoute = {
  get: { description: string; parameters: { name: string; description: string }[] };
};
