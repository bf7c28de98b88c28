import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { minorDigits } from '../../../domain/currency.ts';
import { decimalOf } from '../../../domain/decimal.ts';
import { get } from '../api/api.ts';
import type { Stats } from '../api/responses.ts';
import { Select } from '../components/controls.tsx';
import { problemAt } from '../components/failures.tsx';
import { Problem } from '../components/problem.tsx';
import { formatMoney } from '../display/format.ts';
import { type Filter, filterNamed, filters, readValue } from '../view/filters.ts';
import { suggestionsPath } from '../view/requests.ts';
import { defaultStatus } from '../view/view-state.ts';
import { useDashboard } from './dashboard-state.ts';

/** The filters as removable chips, and a form that adds one. */
export function Filters() {
  const { state, currency, failures, change } = useDashboard();
  const [isOpen, setOpen] = useState(false);
  const [refused, setRefused] = useState('');
  const set = (name: string, value: string) =>
    change({ filters: { ...state.filters, [name]: value } });
  const remove = (name: string) => {
    const { [name]: _, ...others } = state.filters;
    change({ filters: name === 'status' ? { ...others, status: defaultStatus } : others });
  };
  const toggle = (isOpen: boolean) => {
    setOpen(isOpen);
    setRefused('');
  };
  const submit = (filter: Filter, text: string) => {
    const value = readValue(filter, text, currency);
    if (value === null) {
      const example = decimalOf(9990, minorDigits(currency));
      setRefused(
        filter.kind === 'money' ? `Enter an amount such as ${example}.` : 'Enter a value.',
      );
      return;
    }
    toggle(false);
    set(filter.name, value);
  };
  return (
    <>
      <ul class="chips" id="chips" aria-label="Filters" data-focus-next="#add-filter">
        {Object.entries(state.filters)
          .filter(isChip)
          .map(([name, value]) => (
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
          <span aria-hidden="true">+ </span>Add filter
        </button>
      )}
      <Problem id="filter-problem" text={refused || problemAt('filters', failures)} />
    </>
  );
}

/** The status that the switch shows is no chip. */
const isChip = ([name, value]: readonly [string, string]): boolean =>
  name !== 'status' || value !== defaultStatus;

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
  const shown = isAmount ? formatMoney(value, currency) : value;
  return (
    <li>
      <span class="chip-name">{label}</span>
      <span class="chip-value">{shown}</span>
      <button type="button" aria-label={`Remove the filter ${label} ${shown}`} onClick={onRemove}>
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
        Filter
      </label>
      <Select
        id="filter-name"
        value={filter.name}
        options={filters.map(({ name, label }) => ({ value: name, label }))}
        onSelect={(name) => setFilter(filterNamed(name) as Filter)}
      />
      <label class="visually-hidden" for="filter-input">
        Value
      </label>
      <FilterInput key={filter.name} filter={filter} />
      <button type="submit" class="primary">
        Apply
      </button>
      <button type="button" class="quiet" onClick={onClose}>
        Cancel
      </button>
    </form>
  );
}

function FilterInput({ filter }: { readonly filter: Filter }) {
  const { state, currency } = useDashboard();
  const value = state.filters[filter.name] ?? '';
  const attributes = { id: 'filter-input', autocomplete: 'off', spellcheck: false } as const;
  switch (filter.kind) {
    case 'choice':
      return (
        <select id="filter-input">
          {filter.values.map((one) => (
            <option key={one} selected={one === value}>
              {one}
            </option>
          ))}
        </select>
      );
    case 'money':
      return (
        <input
          {...attributes}
          inputMode="decimal"
          placeholder={decimalOf(0, minorDigits(currency))}
        />
      );
    case 'text':
      return <input {...attributes} defaultValue={value} placeholder={filter.example} />;
    case 'label':
      return (
        <>
          <input
            {...attributes}
            defaultValue={value}
            maxLength={256}
            placeholder="exact value"
            list="filter-suggestions"
          />
          <Suggestions name={filter.name} />
        </>
      );
  }
}

/** The most frequent values. Without them, the user still can enter one. */
function Suggestions({ name }: { readonly name: string }) {
  const { state } = useDashboard();
  const [values, setValues] = useState<readonly string[]>([]);
  useEffect(() => {
    get<Stats>(suggestionsPath(state, name)).then(
      ({ body }) => setValues(body.groups.flatMap(({ key }) => key || [])),
      () => {},
    );
  }, []);
  return (
    <datalist id="filter-suggestions">
      {values.map((value) => (
        <option key={value} value={value} />
      ))}
    </datalist>
  );
}
