import { change, type StoreChange } from './change.ts';
import { insertOrders } from './orders.ts';
import { inStore, newName, type Partition, quote, type Store, tableOf } from './store.ts';

// Partitions of orders, which are lists of months.

const newPartition = (store: Store, isKept: boolean): Partition => {
  const taken = new Set([...store.partitions, ...store.detached].map(({ month }) => month));
  let month = 1;
  while (taken.has(month)) month += 1;
  store.names += 1;
  return { name: `orders ${store.names}`, month, isKept };
};

const createPartition: StoreChange = (store, { random, roles }) => {
  if (store.partitions.length > 9) return null;
  const partition = newPartition(store, store.partitions.filter(({ isKept }) => isKept).length < 4);
  store.partitions.push(partition);
  return change(
    'create a partition',
    [
      `create table ${inStore(partition.name)} partition of ${tableOf(store, 'orders')} for values in (${partition.month})`,
      `grant select, insert, update, delete on ${inStore(partition.name)} to ${quote(roles.writer)}`,
      ...(random.chance(0.3)
        ? [`alter table ${inStore(partition.name)} owner to ${quote(roles.owner)}`]
        : []),
    ],
    'rights',
    'triggers',
    'apply',
  );
};

const attachNewPartition: StoreChange = (store, { random, roles, reserve }) => {
  if (store.partitions.length > 9) return null;
  const partition = newPartition(store, false);
  const name = inStore(partition.name);
  const count = random.chance(0.2) ? 1_300 : random.integer(200);
  store.partitions.push(partition);
  return change(
    `attach a partition with ${count} rows`,
    [
      `alter table ${tableOf(store, 'orders')} drop constraint if exists "link to clients"`,
      `create table ${name} (like ${tableOf(store, 'orders')} including defaults including generated)`,
      insertOrders(store, name, reserve(count + 1), count + 1, partition.month, random),
      `grant select, insert, update, delete on ${name} to ${quote(roles.writer)}`,
      `alter table ${tableOf(store, 'orders')} attach partition ${name} for values in (${partition.month})`,
    ],
    'rights',
    'triggers',
    'apply',
  );
};

const removable = (store: Store): Partition[] => store.partitions.filter(({ isKept }) => !isKept);
const without = (store: Store, { name }: Partition): void => {
  store.partitions.splice(
    store.partitions.findIndex((each) => each.name === name),
    1,
  );
};

const detachPartition: StoreChange = (store, { random }) => {
  const partitions = removable(store);
  if (partitions.length === 0) return null;
  const partition = random.pick(partitions);
  without(store, partition);
  store.detached.push(partition);
  const isConcurrent = random.chance(0.3);
  return change('detach a partition', [
    `alter table ${tableOf(store, 'orders')} detach partition ${inStore(partition.name)}${isConcurrent ? ' concurrently' : ''}`,
  ]);
};

const attachPartition: StoreChange = (store) => {
  const partition = store.detached.pop();
  if (partition === undefined) return null;
  store.partitions.push(partition);
  const orders = tableOf(store, 'orders');
  return change(
    'attach a detached partition',
    [
      `alter table ${orders} drop constraint if exists "link to clients"`,
      `alter table ${inStore(partition.name)} drop constraint if exists "link to clients"`,
      `alter table ${orders} attach partition ${inStore(partition.name)} for values in (${partition.month})`,
    ],
    'triggers',
    'apply',
  );
};

const dropPartition: StoreChange = (store, { random }) => {
  const partitions = removable(store);
  if (partitions.length === 0) return null;
  const partition = random.pick(partitions);
  without(store, partition);
  return change('drop a partition', [`drop table ${inStore(partition.name)}`]);
};

const renamePartition: StoreChange = (store, { random }) => {
  const partition = random.pick(store.partitions);
  const name = `${newName(store, random)} of ${store.names}`;
  store.partitions[store.partitions.indexOf(partition)] = { ...partition, name };
  return change('rename a partition', [
    `alter table ${inStore(partition.name)} rename to ${quote(name)}`,
  ]);
};

const truncatePartition: StoreChange = (store, { random }) => {
  const partitions = removable(store);
  if (partitions.length === 0) return null;
  return change('truncate a partition', [`truncate ${inStore(random.pick(partitions).name)}`]);
};

const replacePartition: StoreChange = (store, { random, roles, reserve }) => {
  const partitions = removable(store);
  if (partitions.length === 0) return null;
  const old = random.pick(partitions);
  store.names += 1;
  const partition = { ...old, name: `orders ${store.names}` };
  store.partitions[store.partitions.indexOf(old)] = partition;
  const orders = tableOf(store, 'orders');
  return change(
    'replace a partition',
    [
      `drop table ${inStore(old.name)}`,
      `create table ${inStore(partition.name)} partition of ${orders} for values in (${old.month})`,
      `grant select, insert, update, delete on ${inStore(partition.name)} to ${quote(roles.writer)}`,
      `alter table ${orders} drop constraint if exists "link to clients"`,
      insertOrders(store, inStore(partition.name), reserve(50), 50, old.month, random),
    ],
    'rights',
    'triggers',
    'apply',
  );
};

export const partitionChanges: readonly StoreChange[] = [
  createPartition,
  attachNewPartition,
  detachPartition,
  attachPartition,
  dropPartition,
  renamePartition,
  truncatePartition,
  replacePartition,
];
