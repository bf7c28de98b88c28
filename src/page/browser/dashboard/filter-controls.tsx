import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { minorDigits } from '../../../domain/currency.ts';
import { decimalOf } from '../../../domain/decimal.ts';
import { get } from '../api/api.ts';
import type { Stats } from '../api/responses.ts';
import { Select } from '../components/controls.tsx';
import { problemAt } from '../components/failures.tsx';
import { Problem } from '../components/problem.tsx';
import { dimensionLabel, statusLabel } from '../display/dimensions.ts';
import { formatMoney } from '../display/format.ts';
import { decimalMark, texts } from '../language/language.ts';
import {
  dimensionBefore,
  type Filter,
  type Filters as FilterValues,
  filterNamed,
  filters,
  readValue,
} from '../view/filters.ts';
import { suggestionsPath } from '../view/requests.ts';
import { defaultStatus } from '../view/view-state.ts';
import { useDashboard } from './dashboard-state.ts';

/** The filters as removable chips, and a form that adds one. */
export function Filters() {
  const { state, currency, currencies, problems, change } = useDashboard();
  const [isOpen, setOpen] = useState(false);
  const [refused, setRefused] = useState('');
  const set = (name: string, value: string) =>
    change({ filters: { ...state.filters, [name]: value } });
  const remove = (name: string) => {
    const { [name]: value = '', ...others } = state.filters;
    if (name === 'status') return change({ filters: { ...others, status: defaultStatus } });
    // The ranking goes back to the dimension whose filter led it on.
    const from = dimensionBefore(name === 'without' ? value.split(',') : [name], state);
    return change({ filters: others, ...(from && { group_by: from }) });
  };
  const toggle = (isOpen: boolean) => {
    setOpen(isOpen);
    setRefused('');
  };
  const submit = (filter: Filter, text: string) => {
    const value = readValue(filter, text, currency);
    if (value === null) {
      const { noAmount, noValue } = texts.filters;
      setRefused(filter.kind === 'money' ? noAmount(exampleOf(9990, currency)) : noValue);
      return;
    }
    toggle(false);
    set(filter.name, value);
  };
  return (
    <>
      <ul class="chips" id="chips" aria-label={texts.filters.list} data-focus-next="#add-filter">
        {chipsOf(state.filters, currencies).map(([name, value]) => (
          <Chip
            key={name}
            name={name}
            value={value}
            currency={currency}
            onRemove={() => remove(name)}
          />
        ))}
      </ul>
      {isOpen ? (
        <FilterForm onSubmit={submit} onClose={() => toggle(false)} />
      ) : (
        <button type="button" class="add" id="add-filter" onClick={() => toggle(true)}>
          <span aria-hidden="true">+ </span>
          {texts.filters.add}
        </button>
      )}
      <Problem id="filter-problem" text={refused || problemAt('filters', problems)} />
    </>
  );
}

/** The filters that no other control shows. */
export const chipsOf = (filters: FilterValues, currencies: readonly string[]) =>
  Object.entries(filters).filter(([name, value]) => {
    if (name === 'currency') return currencies.length === 0;
    return name !== 'status' || value !== defaultStatus;
  });

/** The values of statuses and of the names of dimensions may be lists. */
function valueLabel(name: string, value: string): string {
  const labelOf = { status: statusLabel, without: dimensionLabel }[name];
  return labelOf === undefined ? value : value.split(',').map(labelOf).join(', ');
}

type ChipProperties = {
  readonly name: string;
  readonly value: string;
  /** Of amounts. */
  readonly currency: string | null;
  onRemove(): void;
};

function Chip({ name, value, currency, onRemove }: ChipProperties) {
  const filter = filterNamed(name);
  const label = filter?.label ?? name;
  const isAmount = filter?.kind === 'money' && /^\d+$/.test(value);
  const shown = isAmount ? formatMoney(value, currency) : valueLabel(name, value);
  return (
    <li>
      <span class="chip-name">{label}</span>
      <span class="chip-value" title={shown}>
        {shown}
      </span>
      <button type="button" aria-label={texts.filters.remove(label, shown)} onClick={onRemove}>
        ×
      </button>
    </li>
  );
}

type FilterFormProperties = {
  onSubmit(filter: Filter, text: string): void;
  onClose(): void;
};

function FilterForm({ onSubmit, onClose }: FilterFormProperties) {
  const { state } = useDashboard();
  const unused = filters.find(({ name }) => state.filters[name] === undefined);
  const [filter, setFilter] = useState(unused ?? (filters[0] as Filter));
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector('select')?.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    const input = form.current?.querySelector<HTMLInputElement>('#filter-input');
    input?.focus();
    onSubmit(filter, input?.value ?? '');
  };
  return (
    <form
      ref={form}
      id="filter-form"
      class="filter-form"
      noValidate
      data-focus-next="#add-filter"
      onSubmit={submit}
      onKeyDown={({ key }) => key === 'Escape' && onClose()}
    >
      <label class="visually-hidden" for="filter-name">
        {texts.filters.name}
      </label>
      <Select
        id="filter-name"
        value={filter.name}
        options={filters.map(({ name, label }) => ({ value: name, label }))}
        onSelect={(name) => setFilter(filterNamed(name) as Filter)}
      />
      <label class="visually-hidden" for="filter-input">
        {texts.filters.value}
      </label>
      <FilterInput key={filter.name} filter={filter} />
      <button type="submit" class="primary">
        {texts.filters.apply}
      </button>
      <button type="button" class="quiet" onClick={onClose}>
        {texts.filters.cancel}
      </button>
    </form>
  );
}

/** An amount as a user writes it. */
const exampleOf = (amount: number, currency: string | null): string =>
  decimalOf(amount, minorDigits(currency)).replace('.', decimalMark);

function FilterInput({ filter }: { readonly filter: Filter }) {
  const { state, currency } = useDashboard();
  const value = state.filters[filter.name] ?? '';
  const attributes = { id: 'filter-input', autocomplete: 'off', spellcheck: false } as const;
  switch (filter.kind) {
    case 'choice':
      return <Choice name={filter.name} known={filter.values} />;
    case 'dimension':
      return (
        <select id="filter-input">
          {filter.values.map((one) => (
            <option key={one} value={one} selected={one === value}>
              {dimensionLabel(one)}
            </option>
          ))}
        </select>
      );
    case 'money':
      return <input {...attributes} inputMode="decimal" placeholder={exampleOf(0, currency)} />;
    case 'text':
      return <input {...attributes} defaultValue={value} placeholder={filter.example} />;
    case 'label':
      return (
        <>
          <input
            {...attributes}
            defaultValue={value}
            maxLength={256}
            placeholder={texts.filters.exact}
            list="filter-suggestions"
          />
          <Suggestions name={filter.name} />
        </>
      );
  }
}

/** The values of a filter that purchases of the period have, largest first. Null until they are known. */
function useOccurring(name: string): readonly string[] | null {
  const { state } = useDashboard();
  const [values, setValues] = useState<readonly string[] | null>(null);
  useEffect(() => {
    get<Stats>(suggestionsPath(state, name)).then(
      ({ body }) => setValues(body.groups.flatMap(({ key }) => key || [])),
      // The user still can choose or enter a value.
      () => {},
    );
  }, []);
  return values;
}

type ChoiceProperties = { readonly name: string; readonly known: readonly string[] };

function Choice({ name, known }: ChoiceProperties) {
  const selected = useDashboard().state.filters[name];
  const occurring = useOccurring(name) ?? [];
  const values = occurring.length > 0 ? occurring : known;
  const offered =
    selected === undefined || values.includes(selected) ? values : [selected, ...values];
  return (
    <select id="filter-input" data-occurring={occurring.length}>
      {offered.map((one) => (
        <option key={one} value={one} selected={one === selected}>
          {valueLabel(name, one)}
        </option>
      ))}
    </select>
  );
}

function Suggestions({ name }: { readonly name: string }) {
  return (
    <datalist id="filter-suggestions">
      {useOccurring(name)?.map((value) => (
        <option key={value} value={value} />
      ))}
    </datalist>
  );
}
