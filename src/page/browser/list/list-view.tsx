import { useEffect } from 'preact/hooks';
import { readPages } from '../api/pages.ts';
import { pathOf } from '../api/path.ts';
import { announce } from '../components/announce.ts';
import { ActionButton } from '../components/controls.tsx';
import { Banner } from '../components/failures.tsx';
import { Label } from '../components/label.tsx';
import { Badge } from '../components/purchase-list.tsx';
import { Table } from '../components/table.tsx';
import { useRequest } from '../components/use-request.ts';
import { formatCounted } from '../display/format.ts';
import { texts } from '../language/language.ts';
import type { RecordObject } from '../record/record-fields.tsx';
import { lists, type RecordList } from './lists.ts';

export type ListName = Exclude<keyof typeof texts.navigation, 'label' | 'orders'>;

/** The list of `/app/segments`; null for other paths. */
export function listOfPath(path: string): ListName | null {
  const [, name = ''] = /^\/app\/([a-z]+)$/.exec(path) ?? [];
  return name in lists ? (name as ListName) : null;
}

/** The records of an entry of the navigation. */
export function ListView({ name }: { readonly name: ListName }) {
  const title = texts.navigation[name];
  useEffect(() => {
    document.title = title;
  }, []);
  return (
    <>
      <h1>{title}</h1>
      {lists[name]?.map((list) => (
        <ListPanel key={list.folder} list={list} />
      ))}
    </>
  );
}

function ListPanel({ list }: { readonly list: RecordList }) {
  const { folder, title, columns } = list;
  const path = pathOf(`/${folder}`, { limit: '25' });
  const request = useRequest(() => readPages<RecordObject>(path));
  const { value: pages, problems, isBusy, show, retry } = request;
  const count = pages?.page.data.length;
  useEffect(() => {
    if (count !== undefined) announce(`${title}: ${formatCounted(count, texts.lists.records)}`);
  }, [count]);
  return (
    <section class="panel" aria-busy={isBusy}>
      <h2 tabIndex={-1} id={`${folder}-title`}>
        {title}
      </h2>
      <Banner problems={problems} onRetry={retry} />
      {count === 0 && <p class="empty">{texts.lists.none}</p>}
      {pages !== null && count !== 0 && (
        <Table label={title} columns={[{ name: texts.fields.name }, ...columns]}>
          {pages.page.data.map((record) => (
            <Row key={record.id} list={list} record={record} />
          ))}
        </Table>
      )}
      {pages?.page.has_more && (
        <div data-focus-next={`#${folder}-title`}>
          <ActionButton class="quiet more" run={() => show(pages.next)}>
            {texts.purchases.more}
          </ActionButton>
        </div>
      )}
    </section>
  );
}

type RowProperties = { readonly list: RecordList; readonly record: RecordObject };

function Row({ list: { folder, columns }, record: { name, status, ...record } }: RowProperties) {
  const label = (typeof name === 'string' && name.trim()) || record.id;
  return (
    <tr>
      <th scope="row">
        <a href={`/app/${folder}/${record.id}`}>
          <Label text={label} />
        </a>{' '}
        {typeof status === 'string' && <Badge status={status} />}
      </th>
      {columns.map(({ name, isNumber, text }) => (
        <td key={name} class={isNumber ? 'number' : undefined}>
          {isNumber ? text(record) : <Label text={text(record)} />}
        </td>
      ))}
    </tr>
  );
}
