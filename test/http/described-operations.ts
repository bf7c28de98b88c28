import { endpoints, resourceOf } from './endpoints.ts';
import type { Operation } from './hostile-requests.ts';

/** The operations of an OpenAPI document as JSON. */
export function describedOperations(document: string): Operation[] {
  type Parameter = { readonly name: string; readonly in: string };
  const { paths } = JSON.parse(document) as {
    paths: Record<string, { get: { parameters?: Parameter[] } }>;
  };
  return Object.entries(paths).map(([described, { get }]) => {
    const path = described.replaceAll(/\{(\w+)_id\}/g, '{$1}');
    const object = endpoints.find((endpoint) => `/v1${endpoint.path}` === path)?.object;
    const parameters = get.parameters ?? [];
    return {
      path,
      resource: resourceOf(object) ?? 'purchase',
      parameters: parameters.filter((one) => one.in === 'query').map(({ name }) => name),
    };
  });
}
