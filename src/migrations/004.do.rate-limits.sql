-- Counts of requests, where several API processes share their limits
-- (RATE_LIMIT_STORE=postgres). The columns and their order are those that
-- rate-limiter-flexible writes. Not worth a write-ahead log: a crash forgets a
-- minute's counts.
create unlogged table rate_limits (
  key varchar(255) primary key,
  points integer not null default 0,
  -- Milliseconds since 1970; a double, for the library reckons with numbers.
  expire double precision
);
