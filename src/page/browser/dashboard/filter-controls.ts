import { get } from '../api/api.ts';
import type { Stats } from '../api/responses.ts';
import { byId, element, option } from '../display/elements.ts';
import { formatMoney } from '../display/format.ts';
import { centsOf, type Filter, filterNamed, filters } from '../view/filters.ts';
import type { ViewState } from '../view/view-state.ts';

type Values = ViewState['filters'];

/** The filters as removable chips, and a form that adds one. Returns a function that shows them. */
export function connectFilters(
  read: () => Values,
  change: (filters: Values) => void,
  suggestionsPath: (dimension: string) => string,
): (values: Values) => void {
  const form = byId<HTMLFormElement>('filter-form');
  const add = byId<HTMLButtonElement>('add-filter');
  const name = byId<HTMLSelectElement>('filter-name');
  const container = byId('filter-value');
  const problem = byId('filter-problem');
  name.append(...filters.map((filter) => option(filter.name, filter.label)));

  const chosen = () => filterNamed(name.value) ?? (filters[0] as Filter);
  const showControl = () => {
    const filter = chosen();
    container.replaceChildren(...controlOf(filter, read()[filter.name]));
    if (filter.kind === 'label') void suggest(suggestionsPath(filter.name));
  };
  const toggle = (isOpen: boolean) => {
    form.hidden = !isOpen;
    add.hidden = isOpen;
    add.ariaExpanded = String(isOpen);
    problem.hidden = true;
    if (isOpen) {
      const unused = filters.find((filter) => read()[filter.name] === undefined);
      name.value = unused?.name ?? chosen().name;
      showControl();
      name.focus();
    } else add.focus();
  };
  add.addEventListener('click', () => toggle(true));
  byId('cancel-filter').addEventListener('click', () => toggle(false));
  form.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') toggle(false);
  });
  name.addEventListener('change', showControl);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const filter = chosen();
    const value = readValue(filter, byId<HTMLInputElement>('filter-input').value);
    problem.hidden = value !== null;
    if (value === null) {
      problem.textContent =
        filter.kind === 'money' ? 'Enter an amount such as 99.90.' : 'Enter a value.';
      byId('filter-input').focus();
      return;
    }
    toggle(false);
    change({ ...read(), [filter.name]: value });
  });
  return (values) => {
    const chips = Object.entries(values).map(([key, value]) =>
      chipOf(key, value, () => {
        change(Object.fromEntries(Object.entries(read()).filter(([other]) => other !== key)));
        add.focus();
      }),
    );
    byId('chips').replaceChildren(
      ...(values.status === undefined
        ? [allStatuses(() => change({ ...read(), status: 'paid' }))]
        : []),
      ...chips,
    );
  };
}

function controlOf(filter: Filter, value = ''): HTMLElement[] {
  const label = element(
    'label',
    { className: 'visually-hidden', htmlFor: 'filter-input' },
    'Value',
  );
  const id = 'filter-input';
  if (filter.kind === 'choice') {
    const select = element('select', { id }, ...filter.values.map((one) => option(one)));
    if (filter.values.includes(value)) select.value = value;
    return [label, select];
  }
  const input = element('input', { id, type: 'text', autocomplete: 'off', spellcheck: false });
  if (filter.kind === 'money') {
    input.inputMode = 'decimal';
    input.placeholder = '0.00';
    return [label, input];
  }
  input.value = value;
  if (filter.kind === 'text') {
    input.placeholder = filter.example;
    return [label, input];
  }
  input.maxLength = 256;
  input.placeholder = 'exact value';
  input.setAttribute('list', 'filter-suggestions');
  return [label, input, element('datalist', { id: 'filter-suggestions' })];
}

/** The most frequent values. Without them, the user still can enter one. */
async function suggest(path: string): Promise<void> {
  const list = byId('filter-suggestions');
  const found = await get<Stats>(path).catch(() => null);
  const keys = found?.body.groups.map(({ key }) => key ?? '').filter((key) => key !== '') ?? [];
  list.replaceChildren(...keys.map((key) => element('option', { value: key })));
}

function readValue(filter: Filter, text: string): string | null {
  if (filter.kind === 'money') return centsOf(text);
  // Spaces may be part of a label.
  const value = filter.kind === 'text' ? text.trim() : text;
  return value === '' ? null : value;
}

/** Revenue counts purchases of every status, so the page says so. */
function allStatuses(onlyPaid: () => void): HTMLElement {
  return element(
    'li',
    {},
    element('span', { className: 'chip-name' }, 'Payment status'),
    element('span', { className: 'chip-value' }, 'all'),
    element('button', { type: 'button', id: 'only-paid', onclick: onlyPaid }, 'Only paid'),
  );
}

function chipOf(name: string, value: string, remove: () => void): HTMLElement {
  const filter = filterNamed(name);
  const label = filter?.label ?? name;
  const isAmount = filter?.kind === 'money' && /^\d+$/.test(value);
  const shown = isAmount ? formatMoney(value, null) : value;
  return element(
    'li',
    {},
    element('span', { className: 'chip-name' }, label),
    element('span', { className: 'chip-value' }, shown),
    element(
      'button',
      { type: 'button', ariaLabel: `Remove the filter ${label} ${shown}`, onclick: remove },
      '×',
    ),
  );
}
