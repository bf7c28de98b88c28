-- The passwords of the roles of docs/sql/roles.sql, from the environment of psql (15 or later).
\getenv migrations MIGRATIONS_PASSWORD
\getenv worker WORKER_PASSWORD
\getenv api API_PASSWORD
\getenv writer WRITER_PASSWORD
alter role shop_migrations password :'migrations';
alter role shop_worker password :'worker';
alter role shop_api password :'api';
alter role shop_writer password :'writer';
