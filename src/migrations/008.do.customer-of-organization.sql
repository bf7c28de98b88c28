-- A purchase belongs to the organization of its customer; so do the tags and segments of a
-- customer. One foreign key of both columns takes the place of the keys of each column:
-- customers, segments and tags name their organization themselves. Postgres checks one key for
-- each purchase instead of two.
--
-- NOT VALID: Postgres checks every later INSERT, and every UPDATE of these columns, but reads
-- no present row. So the lock is short, and present rows that violate a key do not block the
-- migration. `npm run migrate` validates the keys afterwards, while others write
-- (src/postgres/same-organization.ts).

-- Before anything else, because readers do not wait while indexes are built; writers do. The
-- id first: new rows are appended at the end of the index.
create unique index customers_by_id_and_organization on customers (id, organization_id);
create unique index segments_by_id_and_organization on segments (id, organization_id);
create unique index tags_by_id_and_organization on tags (id, organization_id);

alter table purchases
  drop constraint if exists purchases_organization_id_fkey,
  drop constraint if exists purchases_customer_id_fkey,
  add constraint customer_of_same_organization foreign key (customer_id, organization_id)
    references customers (id, organization_id) on delete cascade not valid;
alter table segment_customers
  drop constraint if exists segment_customers_organization_id_fkey,
  drop constraint if exists segment_customers_segment_id_fkey,
  drop constraint if exists segment_customers_customer_id_fkey,
  add constraint segment_of_same_organization foreign key (segment_id, organization_id)
    references segments (id, organization_id) on delete cascade not valid,
  add constraint customer_of_same_organization foreign key (customer_id, organization_id)
    references customers (id, organization_id) on delete cascade not valid;
alter table customer_tags
  drop constraint if exists customer_tags_organization_id_fkey,
  drop constraint if exists customer_tags_customer_id_fkey,
  drop constraint if exists customer_tags_tag_id_fkey,
  add constraint customer_of_same_organization foreign key (customer_id, organization_id)
    references customers (id, organization_id) on delete cascade not valid,
  add constraint tag_of_same_organization foreign key (tag_id, organization_id)
    references tags (id, organization_id) on delete cascade not valid;
