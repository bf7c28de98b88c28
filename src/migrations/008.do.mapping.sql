-- Mapping of a shop's own tables (src/postgres/mapping). The user creates the views mapped_customers and
-- mapped_purchases, and says in mapping_sources what changes their rows. `npm run mapping -- apply`
-- creates the tables customer_numbers and purchase_numbers, with the types of the views, and triggers
-- that append keys to mapping_changes.

create table mapping_sources (
  view text not null check (view in ('mapped_customers', 'mapped_purchases')),
  -- A table, with its schema.
  source text not null,
  -- An expression over a row of the table, or a query, that gives external ids of the view.
  key text not null,
  primary key (view, source, key)
);

-- Keys of which rows may have changed. A null key: the view is compared with the stored rows.
create table mapping_changes (
  view text not null,
  key text
);
-- As purchase_changes: rows are appended, read once and deleted.
alter table mapping_changes set (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 100000
);

-- At most one row, which `apply` inserts and `remove` deletes.
create table mapping_state (
  is_singleton boolean primary key default true check (is_singleton),
  -- All commits of the shop before this instant are mapped, and no response claims a later one. Null until
  -- the first copy is complete.
  as_of timestamptz,
  -- When the first copy was complete; null before.
  copied_at timestamptz,
  -- The views, tables and triggers with which the stored rows were last compared.
  structure text,
  -- How often changes without a key have asked for a comparison.
  asked bigint not null default 0,
  -- The last comparison of all rows.
  compared_at timestamptz,
  -- Rows that comparisons have corrected.
  repaired bigint not null default 0,
  repaired_at timestamptz,
  -- Why nothing is mapped, or why changes may be found only by a comparison.
  problem text,
  problem_since timestamptz
);
-- It is updated several times a second.
alter table mapping_state set (fillfactor = 10);

create table mapped_organizations (
  organization_id bigint primary key references organizations on delete cascade,
  -- The customer of purchases without a customer.
  guest_customer_id bigint references customers on delete set null,
  -- Totals of customers, and counts of segments, are to be computed again.
  are_totals_due boolean not null default true
);

-- Rows of the views that the service refuses.
create table mapping_failures (
  view text not null,
  external_id text not null,
  -- Null if the view itself fails for this key, or has several rows of it.
  column_name text,
  reason text not null,
  failed_at timestamptz not null default now(),
  primary key (view, external_id)
);

-- Deletions that await `apply --accept-deletions`.
create table mapping_held_deletions (
  view text not null,
  organization_id bigint not null references organizations on delete cascade,
  rows bigint not null,
  held_at timestamptz not null default now(),
  primary key (view, organization_id)
);
