/** The commands of `crm-data-service`, and what each does. */
export const commands = {
  start:
    'Runs everything: Postgres (embedded unless DATABASE_URL is set), the sync worker, the API.',
  migrate: "Brings the database's schema up to date.",
  organizations: 'Creates, lists and deletes organizations.',
  keys: 'Creates, lists, rolls and revokes API keys.',
  sync: 'Runs the sync worker, which copies purchases from Postgres into files; shows its status.',
  api: 'Serves the HTTP API.',
  mapping: "Maps a shop's own tables, which the views mapped_customers and mapped_purchases read.",
  seed: 'Adds organizations with demo data.',
} as const;

export type CommandName = keyof typeof commands;

export const isCommandName = (name: string | undefined): name is CommandName =>
  name !== undefined && Object.hasOwn(commands, name);
