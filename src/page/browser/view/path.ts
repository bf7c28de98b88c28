/** The folder of the records whose ids have a prefix. */
export const foldersByPrefix: Readonly<Record<string, string>> = {
  cus: 'customers',
  pur: 'purchases',
  seg: 'segments',
  flw: 'flows',
  emc: 'email-campaigns',
  tcp: 'template-campaigns',
};

export type RecordPath = { readonly folder: string; readonly id: string };

/** The record of `/app/customers/cus_…`; null for other paths. */
export function recordOfPath(path: string): RecordPath | null {
  const [, folder = '', id = ''] = /^\/app\/([a-z-]+)\/([^/]+)$/.exec(path) ?? [];
  return Object.values(foldersByPrefix).includes(folder) ? { folder, id } : null;
}

export const listNames = ['campaigns', 'segments', 'flows'] as const;
export type ListName = (typeof listNames)[number];

/** The list of `/app/segments`; null for other paths. */
export const listOfPath = (path: string): ListName | null =>
  listNames.find((name) => path === `/app/${name}`) ?? null;
