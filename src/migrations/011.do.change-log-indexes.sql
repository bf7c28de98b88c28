-- Indexes of the change log: of entries by transaction, and of the worker's tokens. After an
-- import of millions of purchases, the file of the log stays large although its entries are
-- deleted: new entries lie in its last pages, so vacuum cannot truncate it. The worker read all of
-- the file ten times a second and for each publication.
create index purchase_changes_by_transaction on purchase_changes (transaction_id);
create index purchase_changes_by_token on purchase_changes (token) where token is not null;
