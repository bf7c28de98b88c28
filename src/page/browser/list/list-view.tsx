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
import type { ListName } from '../view/path.ts';
import { lists, type RecordList } from './lists.ts';

/** The records of an entry of the navigation. */
export function ListView({ name }: { readonly name: ListName }) {
  const title = texts.navigation[name];
  useEffect(() => {
    document.title = title;
  }, []);
  return (
    <>
      <h1>{title}</h1>
      {lists[name].map((list) => (
        <ListPanel key={list.folder} list={list} isOnly={list.title === title} />
      ))}
    </>
  );
}

type ListPanelProperties = {
  readonly list: RecordList;
  /** Whether the page has the title. */
  readonly isOnly: boolean;
};

function ListPanel({ list, isOnly }: ListPanelProperties) {
  const { folder, title, columns } = list;
  const path = pathOf(`/${folder}`, { limit: '25' });
  const request = useRequest(() => readPages<RecordObject>(path));
  const { value: pages, problems, isBusy, show, retry } = request;
  const count = pages?.page.data.length;
  useEffect(() => {
    if (count !== undefined) announce(`${title}: ${formatCounted(count, texts.lists.records)}`);
  }, [count]);
  return (
    <section class="panel list" aria-busy={isBusy}>
      <h2 tabIndex={-1} id={`${folder}-title`} class={isOnly ? 'visually-hidden' : undefined}>
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
      {columns.map(({ name, isNumber, isLabel, text }) => (
        <td
          key={name}
          class={isNumber ? 'number' : isLabel ? undefined : 'instant'}
          data-name={name}
        >
          {isLabel ? <Label text={text(record)} /> : text(record)}
        </td>
      ))}
    </tr>
  );
}
