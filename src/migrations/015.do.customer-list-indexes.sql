-- `migrate` creates the indexes of lists of customers again, with the columns of filters (schema/constraints.sql).
drop index if exists customers_by_creation, customers_by_update, customers_by_total_spent;
