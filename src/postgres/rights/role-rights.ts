/** The roles of docs/sql/roles.sql beside the owner; `public` is every role of the database. */
export const roles = ['api', 'worker', 'writer', 'public'] as const;
export type Role = (typeof roles)[number];

type RoleRight = {
  readonly role: Role;
  readonly rights: string;
  /** Tables, views and sequences of the service's schema. */
  readonly on: readonly string[];
  /** What needs the right; null for what all of the role's processes do. */
  readonly for: 'a mapping' | 'upserts' | 'an option' | null;
};

const written = 'select, insert, update, delete';
const links = ['segment_customers', 'customer_tags'];
const resources = ['organizations', 'api_keys', 'customers', 'segments', 'tags', 'attributes'];
const campaigns = ['flows', 'email_campaigns', 'template_campaigns'];
const writtenByUser = [...resources, ...links, ...campaigns, 'purchases'];
const sequences = ['customers_id_seq', 'purchases_id_seq'];
const numbers = ['mapped_customer_numbers', 'mapped_purchase_numbers'];
const upsertNumbers = ['customer_numbers', 'purchase_numbers'];

/**
 * Each right of each role in the service's schema. SECURITY.md has the same table, docs/sql grants these
 * rights, and `npx crm-data-service migrate --check-rights` compares them with those of a database.
 */
export const roleRights: readonly RoleRight[] = [
  {
    role: 'api',
    rights: 'select',
    on: ['schema_migrations', ...writtenByUser, 'mapping_state', 'mapped_organizations'],
    for: null,
  },
  { role: 'api', rights: written, on: ['rate_limits'], for: 'an option' },
  { role: 'api', rights: 'update (last_used_at)', on: ['api_keys'], for: 'an option' },
  {
    role: 'worker',
    rights: 'select',
    on: [
      ...['schema_migrations', 'organizations', 'purchases', 'mapping_state', 'mapping_changes'],
      ...['mapping_failures', 'mapping_held_deletions', 'mapped_organizations'],
    ],
    for: null,
  },
  { role: 'worker', rights: 'select, insert, delete', on: ['purchase_changes'], for: null },
  {
    role: 'worker',
    rights: written,
    on: ['purchase_change_pruning', 'purchase_change_readers'],
    for: null,
  },
  {
    role: 'worker',
    rights: 'select',
    on: ['mapping_sources', 'segment_customers', 'mapped_customers', 'mapped_purchases'],
    for: 'a mapping',
  },
  { role: 'worker', rights: 'select, update', on: ['segments'], for: 'a mapping' },
  { role: 'worker', rights: 'select, delete', on: ['mapping_changes'], for: 'a mapping' },
  { role: 'worker', rights: 'select, insert, update', on: ['mapping_state'], for: 'a mapping' },
  {
    role: 'worker',
    rights: written,
    on: [
      ...['customers', 'purchases'],
      ...['mapped_organizations', 'mapping_failures', 'mapping_held_deletions'],
    ],
    for: 'a mapping',
  },
  { role: 'worker', rights: 'select, insert, update', on: numbers, for: 'a mapping' },
  { role: 'worker', rights: 'usage', on: sequences, for: 'a mapping' },
  { role: 'writer', rights: 'select', on: ['schema_migrations'], for: null },
  { role: 'writer', rights: written, on: writtenByUser, for: null },
  { role: 'writer', rights: written, on: upsertNumbers, for: 'upserts' },
  { role: 'writer', rights: 'usage', on: sequences, for: 'upserts' },
  { role: 'public', rights: 'insert', on: ['mapping_changes'], for: 'a mapping' },
];

/**
 * The functions that run with the rights of their owner, and only as triggers of his tables: no other role
 * may execute them, because a trigger on another table would run casts and operators of that table's types.
 */
export const definerFunctions = [
  'copy_sort_keys_of_customer',
  'log_deleted_purchases',
  'log_inserted_purchases',
  'log_replicated_purchases',
  'log_updated_purchases',
  'pass_on_sort_keys',
];
