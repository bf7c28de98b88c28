import type { IdentifiedResource } from '../../src/domain/public-id.ts';

export type Endpoint = {
  /** The path below /v1. Ids are in braces. */
  readonly path: string;
  readonly object: string;
  readonly kind: 'list' | 'single' | 'aggregate';
  /** The accepted values of `sort`, for lists. */
  readonly sorts?: readonly string[];
};

// Section 4.3, and the list of template campaigns, which is an addition.
export const endpoints: readonly Endpoint[] = [
  { path: '/me', object: 'identity', kind: 'single' },
  { path: '/customers', object: 'customer', kind: 'list', sorts: ['updated', 'total_spent'] },
  { path: '/customers/{customer}', object: 'customer', kind: 'single' },
  { path: '/customers/{customer}/purchases', object: 'purchase', kind: 'list', sorts: [] },
  { path: '/segments', object: 'segment', kind: 'list', sorts: ['updated'] },
  { path: '/segments/{segment}', object: 'segment', kind: 'single' },
  {
    path: '/segments/{segment}/customers',
    object: 'customer',
    kind: 'list',
    sorts: ['total_spent'],
  },
  { path: '/purchases', object: 'purchase', kind: 'list', sorts: [] },
  { path: '/purchases/{purchase}', object: 'purchase', kind: 'single' },
  { path: '/purchases/stats', object: 'purchase_stats', kind: 'aggregate' },
  { path: '/tags', object: 'tag', kind: 'list', sorts: [] },
  { path: '/tags/{tag}', object: 'tag', kind: 'single' },
  { path: '/attributes', object: 'attribute', kind: 'list', sorts: [] },
  { path: '/flows', object: 'flow', kind: 'list', sorts: ['updated'] },
  { path: '/flows/{flow}', object: 'flow', kind: 'single' },
  { path: '/email-campaigns', object: 'email_campaign', kind: 'list', sorts: ['updated'] },
  { path: '/email-campaigns/{email_campaign}', object: 'email_campaign', kind: 'single' },
  { path: '/template-campaigns', object: 'template_campaign', kind: 'list', sorts: ['updated'] },
  {
    path: '/template-campaigns/{template_campaign}',
    object: 'template_campaign',
    kind: 'single',
  },
];

export const listEndpoints = endpoints.filter(({ kind }) => kind === 'list');

/** Ids in the path come from `idOf`. */
export const endpointUrl = (
  { path }: Endpoint,
  idOf: (resource: IdentifiedResource) => string,
): string => `/v1${path.replace(/\{(\w+)\}/, (_, resource) => idOf(resource))}`;

// Section 2.2.
export const prefixes: Readonly<Record<IdentifiedResource, string>> = {
  organization: 'org_',
  api_key: 'bak_',
  customer: 'cus_',
  segment: 'seg_',
  purchase: 'pur_',
  tag: 'tag_',
  attribute: 'atr_',
  flow: 'flw_',
  email_campaign: 'emc_',
  template_campaign: 'tcp_',
};

/** The resource of an `object`, if it has ids. */
export const resourceOf = (object: string | undefined): IdentifiedResource | undefined =>
  object !== undefined && object in prefixes ? (object as IdentifiedResource) : undefined;

/** A path of the OpenAPI document, with its query parameters. */
export type Operation = {
  /** Segments in braces are ids of that resource. */
  readonly path: string;
  /** The resource of `starting_after`. */
  readonly resource: IdentifiedResource;
  readonly parameters: readonly string[];
};

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
