-- The key that this one replaces (`npm run keys -- roll`). UNIQUE: a key is rolled once, also
-- by two commands at the same time.
alter table api_keys
  add column replaces bigint unique references api_keys on delete set null,
  -- Written by the API, at most once a minute for a key. Without an index, 96 % of the updates
  -- were HOT (1,000 keys, 150,000 updates), so a table of its own would save nothing.
  add column last_used_at timestamptz;
