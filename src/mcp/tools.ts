import { type DescribedParameter, describeParameters } from '../http/openapi/parameters.ts';
import { jsonParameters } from '../http/request/format-parameters.ts';
import type { Route } from '../http/route.ts';
import type { NotedTool } from './notes.ts';
import { noteReport } from './report-notes.ts';

/** A tool that calls a route. */
export type Tool = NotedTool & {
  readonly name: string;
  readonly description: string;
  /** By the value of the argument `kind`, or one that needs no argument. */
  readonly routes: ReadonlyMap<string | undefined, Route>;
  /** Of the path and the query, without those of other formats than JSON. */
  readonly parameters: readonly DescribedParameter[];
  /** The texts of parameters that are not given. */
  readonly defaults: Readonly<Record<string, string>>;
};

type ToolDefinition = NotedTool & {
  readonly url: string | Readonly<Record<string, string>>;
  /** Before the description of the route. */
  readonly description?: string;
  /** Parameters that the tool lacks. */
  readonly unused?: readonly string[];
};

const definitions: Readonly<Record<string, ToolDefinition>> = {
  purchase_report: { url: '/purchases/report', countsPurchases: true, writeNotes: noteReport },
  purchase_cohorts: {
    url: '/purchases/cohorts',
    countsPurchases: true,
    // They would be those of first purchases.
    unused: ['not', 'weekday', 'hour_of_day'],
  },
  list_purchases: { url: '/purchases', countsPurchases: true },
  get_purchase: { url: '/purchases/:purchase_id' },
  find_customers: { url: '/customers' },
  get_customer: { url: '/customers/:customer_id' },
  list_segments: { url: '/segments' },
  list_campaigns: {
    url: {
      email: '/email-campaigns',
      whatsapp_and_sms: '/template-campaigns',
      flow: '/flows',
    },
    description: 'Campaigns and automation flows, most recently updated first.',
    unused: ['sort'],
  },
};

const paidOnly = { status: 'paid' } as const;

/** The name of the argument that selects one of several routes. */
export const kindArgument = 'kind';

/** The route with a URL. Throws if there is none. */
export function routeAt(routes: readonly Route[], url: string): Route {
  const found = routes.find((route) => route.url === url);
  if (found === undefined) throw new Error(`there is no route ${url}`);
  return found;
}

/** The tools, in the order of their list. Throws if a route does not exist. */
export function createTools(routes: readonly Route[]): Tool[] {
  return Object.entries(definitions).map(([name, definition]) => {
    const { url, unused = [], countsPurchases, writeNotes } = definition;
    const urls: [string | undefined, string][] =
      typeof url === 'string' ? [[undefined, url]] : Object.entries(url);
    const ofKinds = new Map(urls.map(([kind, url]) => [kind, routeAt(routes, url)]));
    const [route] = ofKinds.values() as Iterable<Route> as [Route];
    const own = definition.description ?? `${route.summary}.`;
    const paid = countsPurchases ? ' Only paid ones unless `status` is set.' : '';
    return {
      name,
      description: `${own} ${route.description}${paid}`,
      routes: ofKinds,
      parameters: [route.path, jsonParameters(route.query)]
        .flatMap(describeParameters)
        .filter(({ name }) => !unused.includes(name)),
      defaults: countsPurchases ? paidOnly : {},
      ...(countsPurchases && { countsPurchases }),
      ...(writeNotes && { writeNotes }),
    };
  });
}
