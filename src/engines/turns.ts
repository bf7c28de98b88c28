/** The client of a query. Queries without a name share the turns of one client of the organization. */
export type QueryClient = { readonly organizationId: bigint; readonly name?: string | undefined };

/** Starts a query that waits for a slot. */
type Start = () => void;

/** Queries that wait for a slot. Organizations take turns, and so do the clients of each. */
export type Turns = {
  add(client: QueryClient, start: Start): void;
  remove(client: QueryClient, start: Start): void;
  /** Removes and returns the next query of an organization that `hasSlot`; undefined if there is none. */
  takeNext(hasSlot: (organizationId: bigint) => boolean): Start | undefined;
  /** The number of queries of the client, of its organization and of all. */
  countOf(client: QueryClient): { readonly own: number; readonly organization: number };
  total(): number;
};

export function createTurns(): Turns {
  /** In the order of turns. Nothing is empty. */
  const organizations = new Map<bigint, Map<string, Set<Start>>>();

  const clientsOf = ({ organizationId }: QueryClient) =>
    organizations.get(organizationId) ?? new Map<string, Set<Start>>();
  const nameOf = ({ name = '' }: QueryClient) => name;

  const remove = (client: QueryClient, start: Start): void => {
    const clients = clientsOf(client);
    const queries = clients.get(nameOf(client));
    queries?.delete(start);
    if (queries?.size === 0) clients.delete(nameOf(client));
    if (clients.size === 0) organizations.delete(client.organizationId);
  };

  return {
    add(client, start) {
      const clients = clientsOf(client);
      const queries = clients.get(nameOf(client)) ?? new Set();
      organizations.set(client.organizationId, clients.set(nameOf(client), queries.add(start)));
    },
    remove,
    takeNext(hasSlot) {
      for (const [organizationId, clients] of organizations) {
        if (!hasSlot(organizationId)) continue;
        for (const [name, [start]] of clients) {
          if (start === undefined) continue;
          remove({ organizationId, name }, start);
          moveToEnd(clients, name);
          moveToEnd(organizations, organizationId);
          return start;
        }
      }
      return undefined;
    },
    countOf(client) {
      const clients = clientsOf(client);
      return { own: clients.get(nameOf(client))?.size ?? 0, organization: sizeOf(clients) };
    },
    total: () => [...organizations.values()].reduce((sum, clients) => sum + sizeOf(clients), 0),
  };
}

const sizeOf = (clients: ReadonlyMap<string, ReadonlySet<Start>>): number =>
  [...clients.values()].reduce((sum, { size }) => sum + size, 0);

function moveToEnd<Key, Value>(map: Map<Key, Value>, key: Key): void {
  const value = map.get(key);
  if (value !== undefined && map.delete(key)) map.set(key, value);
}
