-- The numbers of mapped rows. A mapping writes only rows that these tables have for their organization.
-- `apply` gives the external ids the types that the views have. The tables of upserts have other names
-- (docs/sql/upsert-tables.sql).

create table mapped_customer_numbers (
  external_id text not null,
  organization_id bigint not null references organizations on delete cascade,
  id bigint not null,
  -- False after the row was deleted. Another writer may use its id by now.
  is_stored boolean not null default true,
  primary key (external_id, organization_id)
);

create table mapped_purchase_numbers (
  external_id text not null,
  organization_id bigint not null references organizations on delete cascade,
  id bigint not null,
  customer_external_id text,
  is_stored boolean not null default true,
  primary key (external_id, organization_id)
);
create index mapped_purchase_numbers_by_customer on mapped_purchase_numbers (customer_external_id);

-- The numbers of a mapping that an earlier release has applied. Their tables had no organization: the stored
-- row has it. Numbers of deleted rows are dropped.
do $$
declare
  old record;
  columns name[];
  key record;
begin
  if not exists (select from mapping_state) then
    return;
  end if;
  for old in
    select format('%I.%I', current_schema(), name) as name, stored, numbers, keys
    from (values
      ('customer_numbers', 'customers', 'mapped_customer_numbers', array['external_id']),
      ('purchase_numbers', 'purchases', 'mapped_purchase_numbers', array['external_id', 'customer_external_id'])
    ) as old (name, stored, numbers, keys)
  loop
    columns := array(
      select attname from pg_attribute
      where attrelid = to_regclass(old.name) and attnum > 0 and not attisdropped);
    continue when cardinality(columns) = 0;
    if not (columns @> array['id'::name] and columns @> old.keys::name[] and columns <@ (array['id'] || old.keys)::name[]) then
      raise exception 'The table % has other columns than a mapping, so upserts of another system may use it. '
        'The mapping that is applied has no numbers of its own. Run `delete from mapping_state;`, '
        '`drop index if exists customer_numbers_by_external_id, purchase_numbers_by_external_id, purchase_numbers_by_customer;`, '
        'and `npm run migrate` again. Then run `npm run mapping -- apply`.', old.name;
    end if;
    for key in
      select attname as name, format_type(atttypid, atttypmod)
        || case when attcollation = 0 then '' else ' collate ' || attcollation::regcollation end as type,
        format_type(atttypid, atttypmod) as cast_to
      from pg_attribute where attrelid = to_regclass(old.name) and attname = any (old.keys)
    loop
      execute format('alter table %I alter column %I type %s using %2$I::text::%s',
        old.numbers, key.name, key.type, key.cast_to);
    end loop;
    execute format(
      'insert into %I (%s, organization_id, id)
       select %2$s, organization_id, id from %s join %I using (id) join mapped_organizations using (organization_id)',
      old.numbers, array_to_string(old.keys, ', '), old.name, old.stored);
    execute format('drop table %s', old.name);
  end loop;
end $$;
