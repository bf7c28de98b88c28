-- Those of the keys that values of a type have. Other keys are those of no row of a view whose external ids have
-- this type. Costs 0.04 ms for each key.
create function keys_of_type(keys text[], type regtype) returns text[]
language plpgsql stable strict as $$
declare
  key text;
  found_keys text[] := '{}';
begin
  foreach key in array keys loop
    begin
      execute format('select $1::%s', type) using key;
      found_keys := array_append(found_keys, key);
    exception when others then
      null;
    end;
  end loop;
  return found_keys;
end $$;
